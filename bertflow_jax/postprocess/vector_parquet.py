"""Vectors in a column of lists of a Parquet file; the other columns are carried along."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.data.parquet_rows import import_pyarrow_parquet, open_parquet, unreadable
from bertflow_jax.errors import DataError
from bertflow_jax.postprocess.vector_checks import check_finite, check_unchanged, file_state
from bertflow_jax.postprocess.vector_files import Block, block_rows

_USUAL = "vector"  # the name that `bertflow_jax.embed` gives


class ParquetVectors:
    """A column of lists of numbers, all of one length.

    Attributes:
      column: its name.
      schema: of the file, a pyarrow.Schema.
    """

    def __init__(self, path: Path, column: str = ""):
        """Read the schema and the first vector; raises DataError."""
        import_pyarrow_parquet()
        import pyarrow

        self.path = path
        self.files: tuple[Path, ...] = (path,)
        self._state = file_state(path)
        try:
            with open_parquet(path, path) as opened:
                self.schema, self.rows = opened.schema_arrow, opened.metadata.num_rows
                self.column = _find_column(path, self.schema, column)
                first = next(opened.iter_batches(1, columns=[self.column]), None)
        except (pyarrow.ArrowException, OSError) as error:
            raise unreadable(path, error) from error
        if not self.rows or first is None:
            raise DataError(f"{path} holds no rows")
        vector = first.column(self.column)[0].as_py()
        if not vector:
            what = "null" if vector is None else "an empty list"
            raise DataError(
                f"{path}, row 0: column {self.column!r} holds {what}, no vector; leave the row out"
            )
        self.features = len(vector)

    def blocks(self) -> Iterator[Block]:
        """Yield all rows in order; raises DataError naming file and row."""
        import_pyarrow_parquet()
        import pyarrow

        first = 0
        try:
            # Not pre-buffered: a row group may hold more than memory does.
            with open_parquet(self.path, self.path, pre_buffer=False, buffer_size=2**20) as opened:
                check_unchanged(self.path, self._state)
                for batch in opened.iter_batches(block_rows(self.features)):
                    check_unchanged(self.path, self._state)
                    vectors = self._matrix(batch.column(self.column), first)
                    check_finite(self.path, vectors, first)
                    yield Block(first, vectors, batch)
                    first += len(vectors)
        except (pyarrow.ArrowException, OSError) as error:
            check_unchanged(self.path, self._state)
            raise unreadable(self.path, error) from error
        if first != self.rows:
            raise DataError(f"{self.path} changed while it was read; start again")

    def _matrix(self, column: Any, first: int) -> NDArray[Any]:
        """Return a column of lists as float[n, D]; raises DataError naming the row at fault."""
        import pyarrow.compute

        lengths = pyarrow.compute.list_value_length(column).to_numpy(zero_copy_only=False)
        bad = np.flatnonzero(~(lengths == self.features))  # a null has the length NaN
        if bad.size:
            found = "is null" if column[bad[0]].as_py() is None else f"has {lengths[bad[0]]:g}"
            raise DataError(
                f"{self.path}, row {first + bad[0]}: the vector in column {self.column!r} {found}"
                f"{'' if found == 'is null' else ' dimensions'}, the first one has {self.features}"
            )
        values = column.flatten()
        if values.null_count:
            place = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
            raise DataError(
                f"{self.path}, row {first + place // self.features}: a number of the vector in "
                f"column {self.column!r} is null; leave the row out"
            )
        return values.to_numpy(zero_copy_only=False).reshape(-1, self.features)


def _find_column(path: Path, schema: Any, column: str) -> str:
    """Return the name of the column of vectors; raises DataError listing what there is."""
    names = schema.names
    lists = [field.name for field in schema if _holds_vectors(field.type)]
    name = column or (_USUAL if _USUAL in lists else lists[0] if len(lists) == 1 else "")
    if not name:
        raise DataError(
            f"{path}: {len(lists) or 'no'} columns hold lists of numbers "
            f"({', '.join(map(repr, lists or names))}); set --column to that of the vectors"
        )
    if name not in names:
        raise DataError(
            f"{path}: no column {name!r} among {', '.join(map(repr, names))}; set --column"
        )
    if names.count(name) > 1:
        raise DataError(f"{path}: {names.count(name)} columns are named {name!r}; rename them")
    if name not in lists:
        kind = schema.field(name).type
        raise DataError(f"{path}: column {name!r} holds {kind}, not lists of numbers; set --column")
    return name


def _holds_vectors(kind: Any) -> bool:
    import pyarrow

    types = pyarrow.types
    listed = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return listed and (types.is_floating(kind.value_type) or types.is_integer(kind.value_type))
