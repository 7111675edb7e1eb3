"""Rows of a file for embedding: every row is kept, in order, blank ones too.

    .txt     one text a line
    .jsonl   one JSON object a line, text in `column` (default "text")
    .tsv     tabs, no quoting;  .csv  the usual quoting; `column` by name or number
    .parquet `column` by name (needs pyarrow)

All but .parquet may be compressed (.gz).
"""

import dataclasses
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertflow_jax.data import columns
from bertflow_jax.data.lines import digest, iter_lines
from bertflow_jax.data.tokens import check_text
from bertflow_jax.errors import ConfigError, DataError, DataNotFoundError

FORMATS = ("txt", "jsonl", "tsv", "csv", "parquet")
_PARQUET_ROWS = 4096


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of a file.

    Attributes:
      key: the value of the id column, or the row's number from 0.
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
        for number, (key, text) in enumerate(_READERS[self.format](self)):
            yield Row(number if key is None else key, check_text(text, number))

    def survey(self) -> tuple[int, str]:
        """Return the number of rows and the sha256 of keys and texts; every row is checked."""
        count = 0

        def fields() -> Iterator[list[Any]]:
            nonlocal count
            for row in self:
                count += 1
                yield [row.key, row.text]

        sha = digest(fields())
        return count, sha


def open_rows(
    path: Path,
    file_format: str = "auto",
    column: str = "",
    id_column: str = "",
    encoding: str = "utf-8",
) -> RowFile:
    """Return the rows of a file, of the format its name says unless another is asked for.

    Raises:
      DataNotFoundError: no such file.
      ConfigError: an unknown format, or a column of a .txt file.
    """
    if not path.is_file():
        raise DataNotFoundError(f"--input={path}: no such file")
    if file_format == "auto":
        file_format = Path(path.name.removesuffix(".gz")).suffix.lower().removeprefix(".")
    if file_format not in FORMATS:
        raise ConfigError(
            f"--input={path}: the format is not known by its name; set --format to one of "
            f"{', '.join(FORMATS)}"
        )
    if file_format == "txt" and (column or id_column):
        raise ConfigError("--column and --id_column: a txt file has lines, not columns")
    return RowFile(path, file_format, column, id_column, encoding)


def _txt(file: RowFile) -> Iterator[tuple[Any, Any]]:
    for line in iter_lines(file.path, file.encoding):
        yield None, line


def _jsonl(file: RowFile) -> Iterator[tuple[Any, Any]]:
    wanted = [file.id_column, file.column or "text"]
    for number, line in enumerate(iter_lines(file.path, file.encoding), 1):
        try:
            found = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise DataError(f"{file.path}, line {number}: not JSON ({error})") from error
        if not isinstance(found, dict):
            raise DataError(f"{file.path}, line {number}: an object is needed, {{...}}")
        for name in wanted:
            if name and name not in found:
                raise DataError(
                    f"{file.path}, line {number}: no key {name!r} among "
                    f"{columns.shown([str(key) for key in found])}; set --column"
                )
        yield found[wanted[0]] if wanted[0] else None, found[wanted[1]]


def _tsv(file: RowFile) -> Iterator[tuple[Any, Any]]:
    return _table(file, columns.tsv_rows(iter_lines(file.path, file.encoding)))


def _csv(file: RowFile) -> Iterator[tuple[Any, Any]]:
    return _table(file, columns.csv_rows(file.path, iter_lines(file.path, file.encoding)))


def _table(file: RowFile, rows: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[Any, Any]]:
    """Pick the columns; there is a header unless every column is given by number."""
    _, first = next(rows, (0, []))
    if not file.column:
        raise ConfigError(
            f"--column is missing: name the text's column of {file.path}, by a name in its first "
            f"line ({columns.shown(first)}) or a number from 0 (no header)"
        )
    names = [name for name in (file.column, file.id_column) if name]
    picked, has_header = columns.pick(file.path, names, first)
    for number, fields in rows if has_header else itertools.chain([(1, first)], rows):
        columns.check_width(file.path, number, fields, first)
        yield fields[picked[1]] if len(picked) > 1 else None, fields[picked[0]]


def _parquet(file: RowFile) -> Iterator[tuple[Any, Any]]:
    parquet = import_pyarrow_parquet()
    import pyarrow

    try:
        opened = parquet.ParquetFile(file.path)
        names = opened.schema_arrow.names
        column = file.column or (names[0] if len(names) == 1 else "")
        wanted = [name for name in (column, file.id_column) if name]
        missing = [name for name in wanted if name not in names]
        if missing or not column:
            raise DataError(
                f"{file.path}: no column {(missing or [''])[0]!r} among {columns.shown(names)}; "
                "set --column"
            )
        for batch in opened.iter_batches(_PARQUET_ROWS, columns=wanted):
            texts = batch.column(column).to_pylist()
            keys = batch.column(file.id_column).to_pylist() if file.id_column else None
            yield from ((keys[i] if keys else None, text) for i, text in enumerate(texts))
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{file.path} cannot be read as Parquet: {error}") from error


def import_pyarrow_parquet() -> Any:
    """Return the module; raises ConfigError where pyarrow is not installed."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigError("Parquet files need pyarrow: pip install pyarrow") from error
    return pyarrow.parquet


_READERS = {"txt": _txt, "jsonl": _jsonl, "tsv": _tsv, "csv": _csv, "parquet": _parquet}
