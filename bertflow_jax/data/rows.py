"""Rows of a file for embedding: every row is kept, in order, blank ones too.

    .txt     one text a line; so is a name without an extension
    .jsonl   one JSON object a line, text in `column` (default "text")
    .tsv     tabs, no quoting;  .csv  the usual quoting; `column` by name or number
    .parquet `column` by name (needs pyarrow)

All but .parquet may be compressed (.gz).
"""

import dataclasses
import itertools
import json
import os
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bertflow_jax.data import columns
from bertflow_jax.data.file_names import text_format
from bertflow_jax.data.json_files import parse_json_line
from bertflow_jax.data.lines import check_encoding, iter_lines
from bertflow_jax.data.parquet_rows import parquet_blocks
from bertflow_jax.data.row_blocks import BLOCK, Block, RunningDigest, Survey, survey
from bertflow_jax.errors import ConfigError, DataError, DataNotFoundError
from bertflow_jax.paths import file_kind, user_path

FORMATS = ("txt", "jsonl", "tsv", "csv", "parquet")


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of a file.

    Attributes:
      key: the value of the id column, None for a null; without one the row's number from 0.
      text: what is embedded.
    """

    key: Any
    text: str


@dataclasses.dataclass(frozen=True)
class RowFile:
    """A file of rows.

    Attributes:
      path: of the file.
      format: one of `FORMATS`.
      column: of the text; "" for a .txt file, and for a file of one column.
      id_column: of the keys; "" numbers the rows.
      encoding: of text files.
    """

    path: Path
    format: str
    column: str = ""
    id_column: str = ""
    encoding: str = "utf-8"

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows; raises a BertFlowError naming file and row for the first bad one."""
        for block in self.blocks():
            yield from map(Row, block.listed(), block.texts)

    def blocks(self, known: Survey | None = None) -> Iterator[Block]:
        """Yield the rows, a few hundred at a time.

        Args:
          known: of this file, read before: a block is compared with it before it is handed out.

        Raises:
          BertFlowError: a bad row, naming file and row.
          DataError: the file is no longer the one that `known` is of.
        """
        start, running = 0, RunningDigest()
        for number, (keys, texts) in enumerate(_BLOCKS[self.format](self)):
            self._check(texts, start)
            block = Block(start, keys, texts)
            stop = start + len(texts)
            if known is not None and running.add(block) != known.mark(number):
                raise DataError(
                    f"{self.path} changed while it was read: rows {start} to {stop - 1} are not "
                    f"those that were there before (of {known.rows}); start again"
                )
            yield block
            start = stop
        if known is not None and start != known.rows:
            raise DataError(
                f"{self.path} changed while it was read: {known.rows} rows were counted, {start} "
                "found; start again"
            )

    def survey(self) -> Survey:
        """Return the number of rows, the sha256 of ids and texts, ...; every row is checked."""
        return survey(self.blocks(), self.place, self.id_column)

    def place(self, row: int) -> str:
        """Return where a row is, for messages: JSON has its line, counted from 1 as lines are."""
        where = f"line {row + 1}" if self.format == "jsonl" else f"row {row} (counted from 0)"
        return f"{self.path}, {where}"

    def _check(self, texts: list[Any], start: int) -> None:
        """Raise DataError for the first text that is none, as null and numbers are."""
        for row, text in enumerate(texts, start):
            if not isinstance(text, str):
                name = self.column or ("text" if self.format == "jsonl" else "")
                column = f" in column {name!r}" if name else ""
                raise DataError(
                    f"{self.place(row)}: the text{column} is {_kind(text)}, not a string; mend it, "
                    "or leave the row out"
                )


def open_rows(
    path: str | os.PathLike[str],
    file_format: str = "auto",
    column: str = "",
    id_column: str = "",
    encoding: str = "utf-8",
) -> RowFile:
    """Return the rows of a file, of the format its name says unless another is asked for.

    Raises:
      DataNotFoundError: no such file.
      DataError: a folder or a pipe.
      ConfigError: no path, an unknown format or encoding, or a column that is no str or of a .txt
        file.
    """
    if not str(path).strip():
        raise ConfigError("--input is blank; name a file")
    if "://" in str(path):
        raise DataNotFoundError(f"--input={path} is no file of this machine; copy it here first")
    path = user_path(path, "--input")
    for name, value in (("column", column), ("id_column", id_column)):
        if not isinstance(value, str):
            raise ConfigError(f"--{name}={value!r}: must be a str; '' is none")
    kind = file_kind(path)
    if kind == "folder":
        raise DataError(f"--input={path} is a folder; name a file")
    if kind == "other":
        raise DataError(
            f"--input={path} is a pipe or a device, and the input is read more than once; write it "
            "to a file first"
        )
    if kind != "file":
        reason = "no such file" if kind == "absent" else kind
        raise DataNotFoundError(f"--input={path}: {reason}")
    if file_format == "auto":
        file_format = text_format(path) or ""
    if file_format not in FORMATS:
        raise ConfigError(
            f"--input={path}: the format is not known by its name; set --format to one of "
            f"{', '.join(FORMATS)}"
        )
    if file_format == "txt" and (column or id_column):
        flag = "--column" if column else "--id_column"
        raise ConfigError(f"{flag}: a txt file has lines, not columns; leave it out")
    if file_format != "parquet":
        check_encoding(encoding)
    return RowFile(path, file_format, column, id_column, encoding)


def _kind(value: object) -> str:
    """Return what stands where a text is needed."""
    if value is None:
        return "null"
    if isinstance(value, bool | int | float):
        return textwrap.shorten(json.dumps(value), 40)  # NaN too
    if isinstance(value, list | dict):
        return "an array" if isinstance(value, list) else "an object"
    return type(value).__name__


def _txt(file: RowFile) -> Iterator[tuple[Any, Any]]:
    for line in iter_lines(file.path, file.encoding, plain=True):
        yield None, line


def _jsonl(file: RowFile) -> Iterator[tuple[Any, Any]]:
    wanted = {"--id_column": file.id_column, "--column": file.column or "text"}
    key, text = wanted.values()
    for number, line in enumerate(iter_lines(file.path, file.encoding), 1):
        found = parse_json_line(line, f"{file.path}, line {number}")
        for flag, name in wanted.items():
            if name and name not in found:
                raise DataError(
                    f"{file.path}, line {number}: no key {name!r} among "
                    f"{columns.shown([str(key) for key in found])}; set {flag}"
                )
        yield found[key] if key else None, found[text]


def _tsv(file: RowFile) -> Iterator[tuple[Any, Any]]:
    return _table(file, columns.tsv_rows(iter_lines(file.path, file.encoding)))


def _csv(file: RowFile) -> Iterator[tuple[Any, Any]]:
    return _table(file, columns.csv_rows(file.path, iter_lines(file.path, file.encoding)))


def _table(file: RowFile, rows: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[Any, Any]]:
    """Pick the columns; there is a header unless every column is given by number."""
    number, first = next(rows, (0, []))
    columns.refuse_empty(file.path, number)
    first = first or [""]  # a blank line of a .csv
    if not file.column:
        raise ConfigError(
            f"--column is missing: name the text's column of {file.path}, by a name in its first "
            f"line ({columns.shown(first)}) or a number from 0 (no header)"
        )
    names = [name for name in (file.column, file.id_column) if name]
    flags = ("--column", "--id_column")[: len(names)]
    picked, has_header = columns.pick(file.path, names, first, flags)
    for number, found in rows if has_header else itertools.chain([(1, first)], rows):
        fields = found or [""]
        columns.check_width(file.path, number, fields, first)
        yield fields[picked[1]] if len(picked) > 1 else None, fields[picked[0]]


def _parquet(file: RowFile) -> Iterator[tuple[Any, list[Any]]]:
    return parquet_blocks(file.path, file.column, file.id_column)


def _in_blocks(
    read: Callable[[RowFile], Iterator[tuple[Any, Any]]],
) -> Callable[[RowFile], Iterator[tuple[list[Any] | None, list[Any]]]]:
    """Turn a reader of rows into one of blocks."""

    def blocks(file: RowFile) -> Iterator[tuple[list[Any] | None, list[Any]]]:
        rows = read(file)
        while part := list(itertools.islice(rows, BLOCK)):
            keys = [key for key, _ in part] if file.id_column else None
            yield keys, [text for _, text in part]

    return blocks


_BLOCKS = {
    "txt": _in_blocks(_txt),
    "jsonl": _in_blocks(_jsonl),
    "tsv": _in_blocks(_tsv),
    "csv": _in_blocks(_csv),
    "parquet": _parquet,
}
