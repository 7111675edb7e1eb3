"""Vectors and ids to one Parquet file: columns `id` and `vector`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bertflow_jax.data.parquet_rows import import_pyarrow_parquet
from bertflow_jax.data.row_blocks import Survey
from bertflow_jax.data.rows import RowFile
from bertflow_jax.errors import DataError, WorkdirError, refusal

_GROUP = 8192  # rows of a row group


def check_ids(rows: RowFile, known: Survey) -> None:
    """Raise DataError, before anything is computed, for ids that Parquet cannot hold."""
    import pyarrow

    try:
        schema = pyarrow.schema([("id", _id_type(known))])
        import_pyarrow_parquet().ParquetWriter(pyarrow.BufferOutputStream(), schema).close()
    except pyarrow.ArrowException as error:
        raise DataError(
            f"{rows.path}: the ids ({rows.id_column!r}) cannot be written as Parquet: {error}"
        ) from error


def write_parquet(rows: RowFile, known: Survey, vectors: Path, path: Path) -> None:
    """Write the rows of a .npy file beside their ids.

    Args:
      rows: of the ids, in the order of the vectors; they keep their type and their nulls.
      known: of these rows, which are read once more and compared with it.
      vectors: float32[N, E].
      path: of the new file.

    Raises:
      DataError: the input is no longer the same.
      WorkdirError: it cannot be written.
    """
    parquet = import_pyarrow_parquet()
    import pyarrow

    total, dimension = np.load(vectors, mmap_mode="r").shape
    kind = pyarrow.list_(pyarrow.float32(), dimension)
    schema = pyarrow.schema([("id", _id_type(known)), ("vector", kind)])
    try:
        with parquet.ParquetWriter(path, schema) as writer:
            start = 0
            for ids in _id_groups(rows, known, total, schema.field("id").type):
                # Mapped anew for every group: what stays mapped counts as memory of the process.
                part = np.array(np.load(vectors, mmap_mode="r")[start : start + len(ids)])
                column = pyarrow.FixedSizeListArray.from_arrays(part.reshape(-1), dimension)
                writer.write_table(pyarrow.table([ids, column], schema=schema))
                start += len(ids)
    except BaseException as error:
        path.unlink(missing_ok=True)  # it is made of the vectors beside it, which stay
        if isinstance(error, pyarrow.ArrowException):
            raise WorkdirError(f"{path} cannot be written: {refusal(error)}") from error
        raise


def _id_type(known: Survey) -> Any:
    import pyarrow

    kind = known.id_type
    return pyarrow.type_for_alias(kind) if isinstance(kind, str) else kind


def _id_groups(rows: RowFile, known: Survey, total: int, kind: Any) -> Iterator[Any]:
    """Yield the ids of one row group after the other, as pyarrow arrays."""
    import pyarrow

    if not rows.id_column:
        for start in range(0, total, _GROUP):
            yield pyarrow.chunked_array([np.arange(start, min(total, start + _GROUP))], kind)
        return
    waiting, count = [], 0
    for block in rows.blocks(known):
        ids = block.keys
        waiting.append(pyarrow.array(ids, kind) if isinstance(ids, list) else ids)
        count += len(block.texts)
        if count >= _GROUP:
            yield pyarrow.chunked_array(waiting, kind)
            waiting, count = [], 0
    if count:
        yield pyarrow.chunked_array(waiting, kind)
