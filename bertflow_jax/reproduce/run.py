"""One table of the paper: fit what its rows need, score it, print ours beside the published value.

Every score is kept in a file of its own, OUTPUT/tableN/ROW.TASK.json, and every fit in a workdir
below OUTPUT, named after what decides it: started again after an interruption, a reproduction goes
on where it stopped. What cannot be had (an encoder, a data set) leaves its cells out with the
reason.
"""

import datetime
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertflow_jax.checkpoint_paths import refuse_path
from bertflow_jax.errors import ConfigError
from bertflow_jax.output_places import output_folder, refuse_link
from bertflow_jax.reproduce.kept import read_sealed, write_sealed
from bertflow_jax.reproduce.options import Options
from bertflow_jax.reproduce.show import markdown, reasons, shown
from bertflow_jax.reproduce.tables import Row, Table
from bertflow_jax.text_output import write_text

if TYPE_CHECKING:
    from bertflow_jax.reproduce.rows import RowScores


def reproduce(options: Options) -> dict[str, Any]:
    """Run the rows of a table; print it and write OUTPUT/tableN.md and .json.

    Rows of an earlier table file stay where they are of the same settings and data.

    Returns:
      {"table", "title", "rows": {row: {task: {"ours", "published", "difference", ...}}}, "missing":
      {row: {task: reason}}, "skipped": {row: reason} of those without any score, "made": {row: its
      encoder, seed and dates}, "settings",
      "notes": {task: what its data differ in from the published ones}, "provenance", "date"}.

    Raises:
      ConfigError, DataNotFoundError: a wrong flag, or no row could be computed. What some rows lack
        is no error.
    """
    table, rows = options.checked()
    output = output_folder(options.output)
    refuse_path(output, f"--output={options.output}")  # the runs are below it
    name = f"table{table.number}"
    # Also of the scores that are kept, which are read and replaced.
    kept = sorted((output / name).glob("*.json"))
    for path in (output / f"{name}.md", output / f"{name}.json", *kept):
        refuse_link(path, f"--output={options.output}: {path.relative_to(output)}")
    folder = output_folder(output / name)
    # Imported here so that a wrong flag is reported without the seconds that loading JAX takes.
    from bertflow_jax.evaluation.results import source_version
    from bertflow_jax.reproduce import rows as table_rows
    from bertflow_jax.reproduce import scoring
    from bertflow_jax.reproduce.sources import Sources

    scoring.forget_encoders()
    sources = Sources(options)
    results = {row.name: table_rows.score_row(options, sources, table, row, folder) for row in rows}
    found = {
        "table": table.number,
        "title": table.title,
        **_by_row(results),
        "settings": sources.settings(table),
        "notes": sources.notes(table),
        "provenance": {
            "command": list(sys.argv),
            "version": source_version(),
            "data_dir": options.data_dir,
            "nli": options.nli,
            "corpus": options.corpus,
        },
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    if not found["rows"]:
        lines = "\n".join(f"  {line}" for line in reasons(found))
        raise ConfigError(f"no row of table {table.number} could be computed\n{lines}")
    found = _with_earlier(found, output / f"table{table.number}.json", table, rows, options)
    write_sealed(output / f"table{table.number}.json", found)
    write_text(output / f"table{table.number}.md", markdown(table, found))
    print("\n".join(shown(table, found)))
    print(f"\nwritten: {output / f'table{table.number}.md'}")
    return found


def _by_row(results: "Mapping[str, RowScores]") -> dict[str, Any]:
    scored = {name: row for name, row in results.items() if row.cells}
    return {
        "rows": {name: row.cells for name, row in scored.items()},
        "missing": {name: row.missing for name, row in scored.items() if row.missing},
        "skipped": {
            name: "; ".join(dict.fromkeys(row.missing.values()))
            for name, row in results.items()
            if not row.cells
        },
        "made": {name: row.made for name, row in scored.items()},
    }


def _with_earlier(
    found: dict[str, Any], path: Path, table: Table, asked: tuple[Row, ...], options: Options
) -> dict[str, Any]:
    """Add the rows that an earlier table file has and that were not asked for now.

    They must be of the same settings and data; of an encoder that is another one now they are left
    out, so that no table mixes two encoders under one name.
    """
    earlier = read_sealed(path) or {}
    if earlier.get("settings") != found["settings"]:
        return found
    names = {row.name for row in asked}
    now = {row.encoder: found["made"][row.name] for row in asked if row.name in found["made"]}
    merged = {**found, **{part: {} for part in ("rows", "missing", "made")}}
    for row in table.rows:
        source = found if row.name in names else earlier
        if row.name not in source["rows"]:
            continue
        made = source["made"][row.name]
        if row.name not in names and not _same_encoder(
            made["encoder"], now.get(row.encoder), options.encoders.get(row.encoder)
        ):
            continue
        merged["rows"][row.name] = source["rows"][row.name]
        merged["made"][row.name] = made
        if row.name in source["missing"]:
            merged["missing"][row.name] = source["missing"][row.name]
    return merged


def _same_encoder(
    encoder: Mapping[str, Any], now: Mapping[str, Any] | None, given: str | None
) -> bool:
    """Return whether an earlier row's encoder is the one that this run has under its name."""
    if now is not None:
        return bool(encoder["weights_sha256"] == now["encoder"]["weights_sha256"])
    return given is None or given == encoder["path"]
