"""Rows of Parquet files: texts as str, ids as the arrays they are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertflow_jax.data import columns
from bertflow_jax.errors import ConfigError, DataError, refusal
from bertflow_jax.paths import is_utf8

_BATCH = 512  # rows; what is checked together before any is used
_NO_PATH = "the path is not valid UTF-8, and Arrow knows no other; rename it"


def parquet_blocks(path: Path, column: str, id_column: str) -> Iterator[tuple[Any, list[Any]]]:
    """Yield (ids, texts) of a few hundred rows; ids are a pyarrow array, None without a column.

    At least one block comes, so that the type of the ids is known for a file without rows.

    Raises:
      ConfigError: several columns, and none is named.
      DataError: not Parquet, no such column, a name that two columns have, bytes that are no UTF-8.
    """
    import_pyarrow_parquet()
    import pyarrow

    try:
        with open_parquet(path, path) as opened:
            schema = opened.schema_arrow
            text, wanted = _columns(path, schema.names, column, id_column)
            found = False
            for batch in opened.iter_batches(_BATCH, columns=wanted):
                found = True
                keys = batch.column(id_column) if id_column else None
                if keys is not None:
                    keys.validate(full=True)
                yield keys, batch.column(text).to_pylist()
            if not found and id_column:
                yield pyarrow.array([], schema.field(id_column).type), []
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: column {column!r} holds bytes that are not UTF-8") from error
    except (pyarrow.ArrowException, OSError) as error:
        raise unreadable(path, error) from error


def unreadable(path: str | Path, error: Exception) -> DataError:
    """Return the error of a file that pyarrow cannot read; pyarrow's own has several lines."""
    return DataError(f"{path} cannot be read as Parquet: {refusal(error)}")


def check_parquet_output(path: Path, flag: str) -> None:
    """Raise ConfigError, which names `flag`, where pyarrow is missing or cannot hold a path."""
    import_pyarrow_parquet()
    if not is_utf8(str(path)):
        raise ConfigError(f"{flag}={path}: {_NO_PATH}")


def open_parquet(source: Any, path: str | Path, **options: Any) -> Any:
    """Return the pyarrow.parquet.ParquetFile of a path or an open file.

    Arrow stores the names of columns as bytes and decodes them when they are asked for; those of
    the fields of a struct are in the text of its type.

    Args:
      source: what is opened.
      path: of it, for the message.
      **options: of ParquetFile.

    Raises:
      DataError: a name is no text, or the path.
      pyarrow.ArrowException, OSError: as pyarrow does.
    """
    if isinstance(source, Path) and not is_utf8(str(source)):
        raise DataError(f"{path}: {_NO_PATH}")
    try:
        opened = import_pyarrow_parquet().ParquetFile(source, **options)
        for field in opened.schema_arrow:
            str(field)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: the name of a column is not UTF-8; copy the file again, or rename the column"
        ) from error
    return opened


def _columns(path: Path, names: list[str], column: str, id_column: str) -> tuple[str, list[str]]:
    """Return the text's column and all that are read, each once."""
    text = column or (names[0] if len(names) == 1 else "")
    wanted = [name for name in (text, id_column) if name]
    if not text:
        raise ConfigError(
            f"--column is missing: name the text's column of {path}: {columns.shown(names)}"
        )
    missing = [name for name in wanted if name not in names]
    if missing:
        flag = "--column" if missing[0] == text else "--id_column"
        raise DataError(
            f"{path}: no column {missing[0]!r} among {columns.shown(names)}; set {flag}"
        )
    for name in wanted:
        if names.count(name) > 1:
            raise DataError(f"{path}: {names.count(name)} columns are named {name!r}; rename them")
    return text, list(dict.fromkeys(wanted))


def import_pyarrow_parquet() -> Any:
    """Return the module; raises ConfigError where pyarrow is not installed."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigError("Parquet files need pyarrow: pip install pyarrow") from error
    return pyarrow.parquet
