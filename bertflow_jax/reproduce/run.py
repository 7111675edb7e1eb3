"""One table of the paper: fit what its rows need, score it, print ours beside the published value.

Every score is kept in a file of its own, OUTPUT/tableN/ROW.TASK.json, and every fit in a workdir
below OUTPUT: started again after an interruption, a reproduction goes on where it stopped. What
cannot be had (an encoder, a data set) skips its rows with the reason.
"""

import dataclasses
import datetime
import hashlib
import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertflow_jax.config import Config
from bertflow_jax.data.json_files import read_json_object_if_present, write_json
from bertflow_jax.errors import BertFlowError, ConfigError
from bertflow_jax.evaluation.table import COLUMNS, UNDEFINED, aligned
from bertflow_jax.reproduce.options import Options, recipe_config
from bertflow_jax.reproduce.tables import SHARED, TARGET, Row, Table
from bertflow_jax.workdir import prepare_output, write_text

_log = logging.getLogger(__name__)
_DECIMALS = 2


def reproduce(options: Options) -> dict[str, Any]:
    """Run the rows of a table; print it and write OUTPUT/tableN.md and .json.

    Returns:
      {"table", "title", "rows": {row: {task: {"ours", "published", "difference", ...}}}, "skipped":
      {row: reason}, "date"}.

    Raises:
      ConfigError, DataNotFoundError: a wrong flag. What a row lacks is no error.
    """
    table, rows = options.chosen()
    output = prepare_output(options.output)
    folder = prepare_output(output / f"table{table.number}")
    found: dict[str, Any] = {
        "table": table.number,
        "title": table.title,
        "rows": {},
        "skipped": {},
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    for row in rows:
        try:
            scores = {task: _score(options, table, row, task, folder) for task in table.tasks}
        except BertFlowError as error:
            found["skipped"][row.name] = str(error)
            _log.warning("row %s is skipped: %s", row.name, error)
            continue
        found["rows"][row.name] = {
            task: _compared(score, row.published.get(task)) for task, score in scores.items()
        }
    write_json(output / f"table{table.number}.json", found)
    write_text(output / f"table{table.number}.md", markdown(table, found))
    print("\n".join(shown(table, found)))
    print(f"\nwritten: {output / f'table{table.number}.md'}")
    return found


def _compared(score: dict[str, Any], published: float | None) -> dict[str, Any]:
    ours = score["score"]
    known = ours is not None and published is not None
    difference = ours - published if known else None
    return {"ours": ours, "published": published, "difference": difference, **score["details"]}


def _score(options: Options, table: Table, row: Row, task: str, folder: Path) -> dict[str, Any]:
    """Return {"score": x 100 or None, "details": {...}}, from its file where it is there."""
    from bertflow_jax.reproduce import scoring

    config = row_config(options, row, task)
    encoder, identity = scoring.encoder_of(config)
    described = {
        "row": dataclasses.asdict(row),
        "config": {**config.to_dict(), "cache_dir": ""},
        "encoder": identity,
        "data": [options.data_dir, options.corpus],
    }
    key = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
    file = folder / f"{re.sub(r'[^A-Za-z0-9_]+', '-', row.name).strip('-')}.{task}.json"
    try:
        kept = read_json_object_if_present(file)
    except ConfigError:
        kept = {}  # cut off while it was written
    if kept.get("key") == key:
        _log.info("%s of %s is there already: %s", task, row.name, file)
        return {"score": kept["score"], "details": kept["details"]}
    workdir = Path(options.output) / row.recipe
    workdir = workdir / ("all" if row.fit == SHARED else task)
    if row.pooling:
        workdir = workdir.with_name(f"{workdir.name}-{row.pooling}")
    score = scoring.SCORERS.get(table.number, scoring.score_task)(
        scoring.Cell(config, encoder, identity, row, task, workdir, table.splits, options)
    )
    write_json(file, {"key": key, **score, **described})
    return score


def row_config(options: Options, row: Row, task: str) -> Config:
    """Return the config of a row for one task: its encoder, text and overrides filled in.

    Raises:
      ConfigError: something is not there that the row needs; the text says which flag gives it.
    """
    config = recipe_config(row.recipe, options.overrides)
    encoder = dataclasses.replace(config.encoder, path=_encoder_path(options, row, config))
    if row.pooling:
        encoder = dataclasses.replace(encoder, pooling=row.pooling)
    data = config.data
    if row.fit == TARGET:
        data = dataclasses.replace(data, path=_data_dir(options), task=task)
    elif row.fit == SHARED:
        if not options.nli:
            raise ConfigError("the flow is fitted on NLI text: give its files with --nli")
        data = dataclasses.replace(data, path=options.nli)
    return dataclasses.replace(config, encoder=encoder, data=data)


def _data_dir(options: Options) -> str:
    if options.data_dir is None:
        raise ConfigError("the tasks' data are needed: give --data_dir")
    return options.data_dir


def _encoder_path(options: Options, row: Row, config: Config) -> str:
    """Return the encoder's path or Hub id; one with NLI supervision is trained if it must be."""
    given = options.encoders.get(row.encoder)
    if given is not None:
        return given
    if not row.encoder.endswith("_nli"):
        return config.encoder.path
    if not options.nli:
        raise ConfigError(
            f"the encoder trained on NLI labels is needed: give --encoders={row.encoder}=FOLDER, "
            "or the NLI files with --nli to train it"
        )
    from bertflow_jax.reproduce.scoring import train_nli_encoder

    return train_nli_encoder(options, row.encoder)


def shown(table: Table, found: Mapping[str, Any]) -> list[str]:
    """Return the lines of the table as text, three a row: ours, published, difference."""
    return [table.title, *aligned(_lines(table, found)), *_skipped(found)]


def markdown(table: Table, found: Mapping[str, Any]) -> str:
    """Return the table as Markdown."""
    header, *body = _lines(table, found)
    lines = [f"# Table {table.number}: {table.title}", "", f"{found['date']}", ""]
    lines += [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    lines += [f"| {' | '.join(line)} |" for line in body]
    return "\n".join([*lines, "", *_skipped(found)]) + "\n"


def _lines(table: Table, found: Mapping[str, Any]) -> list[list[str]]:
    lines = [["", *(COLUMNS.get(task, task) for task in table.tasks)]]
    for name, scores in found["rows"].items():
        for kind in ("ours", "published", "difference"):
            values = [scores[task][kind] for task in table.tasks]
            label = name if kind == "ours" else f"  {kind}"
            lines.append([label, *(_cell(value, kind) for value in values)])
    return lines


def _cell(value: float | None, kind: str) -> str:
    if value is None:
        return UNDEFINED if kind == "ours" else ""
    return f"{value:+.{_DECIMALS}f}" if kind == "difference" else f"{value:.{_DECIMALS}f}"


def _skipped(found: Mapping[str, Any]) -> list[str]:
    return [f"skipped {name}: {reason}" for name, reason in found["skipped"].items()]
