"""Files of vectors, read in blocks of rows: .npy, .parquet, or the parts of `bertflow_jax.embed`.

Nothing is ever unpickled, and no more than a block is in memory. A row that is null, of another
width or not finite is an error that names file and row; so is a file that changes meanwhile.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.errors import ConfigError, DataError, DataNotFoundError
from bertflow_jax.paths import file_kind
from bertflow_jax.postprocess.vector_checks import (
    check_finite,
    check_shape,
    check_unchanged,
    file_state,
    map_npy,
)

_BLOCK_NUMBERS = 2**22  # numbers of a block: 16 MB of float32
_BLOCK_ROWS = 8192


@dataclasses.dataclass(frozen=True)
class Block:
    """Rows that follow each other.

    Attributes:
      first: number of the first one in the whole input.
      vectors: float[n, D], finite, of the type they have in the file.
      table: of a .parquet file, its rows with all columns, a pyarrow.RecordBatch.
    """

    first: int
    vectors: NDArray[Any]
    table: Any = None


class VectorFile(Protocol):
    """An input of vectors.

    Attributes:
      path: as given.
      files: the files that are read.
      rows: N.
      features: D.
    """

    path: Path
    files: tuple[Path, ...]
    rows: int
    features: int

    def blocks(self) -> Iterator[Block]:
        """Yield all rows in order; raises DataError naming file and row."""


def open_vectors(path: Path, column: str = "") -> VectorFile:
    """Return the vectors of a file or a folder of parts, headers read and checked.

    Args:
      path: .npy, .parquet, or a folder of parts with its index.json.
      column: of the vectors in a .parquet file; "" takes `vector`, or the only column of lists.

    Raises:
      DataNotFoundError: no such file, or a folder without index.json.
      ConfigError: another format, or a column of what has none.
      DataError: the file is damaged, holds no vectors, or none that are numbers.
    """
    kind = file_kind(path)
    if kind == "other":
        raise DataError(f"--input={path} is a pipe or a device; write it to a file first")
    if kind not in ("file", "folder"):
        reason = "no such file" if kind == "absent" else kind
        raise DataNotFoundError(f"--input={path}: {reason}")
    if kind == "file" and path.suffix == ".parquet":
        from bertflow_jax.postprocess.vector_parquet import ParquetVectors

        return ParquetVectors(path, column)
    if column:
        raise ConfigError(f"--column goes with a .parquet file; {path} has no columns by name")
    if kind == "folder":
        from bertflow_jax.postprocess.vector_parts import PartVectors

        return PartVectors(path)
    if path.suffix != ".npy":
        raise ConfigError(
            f"--input={path}: vectors are read from .npy, .parquet, or a folder of parts that "
            "bertflow_jax.embed wrote; save an array float[N, D] with numpy.save"
        )
    return NpyVectors(path)


class NpyVectors:
    """One array float[N, D]."""

    def __init__(self, path: Path):
        """Read the header; raises DataError."""
        self.path = path
        self.files: tuple[Path, ...] = (path,)
        self._state = file_state(path)
        array = self.mapped()
        if array.ndim != 2 or array.dtype.kind not in "fiu":
            raise DataError(
                f"{path} holds an array {array.dtype}{list(array.shape)}; a numeric one of shape "
                "[N, D] is needed, a vector a row"
            )
        self.rows, self.features = array.shape
        check_shape(path, self.rows, self.features)

    def mapped(self) -> NDArray[Any]:
        """Return the array, memory-mapped; raises DataError where it cannot be."""
        check_unchanged(self.path, self._state)
        array = map_npy(self.path)
        rest = self._state[1] - array.offset - array.nbytes if self._state else 0
        if rest:
            raise DataError(
                f"{self.path} holds {rest} bytes behind its array of shape {list(array.shape)}; "
                "save one array a file (numpy.concatenate joins several)"
            )
        return array

    def header(self) -> bytes:
        """Return what the file holds before its array; raises DataError."""
        offset: int = self.mapped().offset  # type: ignore[attr-defined]
        with self.path.open("rb") as file:
            return file.read(offset)

    def blocks(self) -> Iterator[Block]:
        """Yield all rows in order; raises DataError naming file and row."""
        size = block_rows(self.features)
        for first in range(0, self.rows, size):
            # Mapped anew for every block: what stays mapped counts as memory of the process.
            array = self.mapped()
            part = np.array(array[first : first + size], order="C")
            del array
            check_unchanged(self.path, self._state)
            check_finite(self.path, part, first)
            yield Block(first, part)


def block_rows(features: int) -> int:
    """Return how many rows of D = features numbers make a block."""
    return max(1, min(_BLOCK_ROWS, _BLOCK_NUMBERS // features))
