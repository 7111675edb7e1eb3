"""Examples of files of text: a sentence a line, or one or two columns of a table.

Each reader returns the examples, blank ones too, and what the manifest says of them.
"""

from pathlib import Path
from typing import Any

from bertflow_jax.config import DataConfig
from bertflow_jax.data import columns
from bertflow_jax.data.lines import read_lines
from bertflow_jax.errors import ConfigError

Example = tuple[str, ...]


def read_text(path: Path, config: DataConfig) -> tuple[list[Example], dict[str, Any]]:
    """Return the lines of a file; raises ConfigError where columns are asked for."""
    if config.columns:
        raise ConfigError(
            f"data.columns={config.columns!r}: {path} is read as text, a sentence a line; set "
            "data.format=tsv or csv"
        )
    return [(line,) for line in read_lines(path, config.encoding, plain=True)], {}


def read_tsv(path: Path, config: DataConfig) -> tuple[list[Example], dict[str, Any]]:
    """Return the chosen columns of a table whose cells are divided by tabs; as `read_csv`."""
    rows = list(columns.tsv_rows(read_lines(path, config.encoding)))
    return _pick_columns(path, config.columns, rows)


def read_csv(path: Path, config: DataConfig) -> tuple[list[Example], dict[str, Any]]:
    """Return the chosen columns of a CSV table.

    Raises:
      ConfigError, DataError: columns that are not there, or a row of another width.
    """
    rows = list(columns.csv_rows(path, read_lines(path, config.encoding)))
    return _pick_columns(path, config.columns, rows)


def _pick_columns(
    path: Path, asked: str, numbered_rows: list[tuple[int, list[str]]]
) -> tuple[list[Example], dict[str, Any]]:
    rows = [(number, fields) for number, fields in numbered_rows if "".join(fields).strip()]
    names = [name.strip() for name in asked.split(",") if name.strip()]
    details = {"columns": names, "blank_lines": len(numbered_rows) - len(rows)}
    if not rows:
        return [], details
    first = rows[0][1]
    if len(names) not in (1, 2):
        raise ConfigError(
            f"data.columns={asked!r}: name one column (single sentences) or two (pairs) of "
            f"{path}, by a name in its first line ({columns.shown(first)}) or a number from "
            "0 (the first line is then no header)"
        )
    picked, has_header = columns.pick(path, names, first)
    examples = []
    for number, fields in rows[has_header:]:
        columns.check_width(path, number, fields, first)
        examples.append(tuple(fields[index] for index in picked))
    return examples, details
