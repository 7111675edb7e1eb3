"""What a file of vectors must be: whole, of one version, and of numbers that float32 holds."""

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.data.npy_files import NPY_DAMAGE
from bertflow_jax.embedding_checks import within_float32
from bertflow_jax.errors import DataError

_MAGIC = b"\x93NUMPY"


def map_npy(path: Path) -> np.memmap[Any, Any]:
    """Return the array of a .npy file, memory-mapped; raises DataError where it cannot be."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
        if magic != _MAGIC:  # numpy would speak of unpickling it
            what = "is no .npy file" if magic else "is empty"
            raise DataError(f"{path} {what}; save an array float[N, D] with numpy.save")
        _check_size(path)
        with np.errstate(over="ignore"):  # an absurd shape, which the size of the file refutes
            array: np.memmap[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        return array
    except NPY_DAMAGE as error:
        if isinstance(error, DataError):
            raise
        if "Python objects" in str(error):
            raise DataError(
                f"{path} holds Python objects, which are never unpickled here; save the vectors as "
                "one numeric array [N, D] (numpy.stack makes one of a list)"
            ) from error
        raise DataError(f"{path} cannot be read as .npy: {error}") from error


def _check_size(path: Path) -> None:
    """Raise DataError for a file that ends before its array does, one of `NPY_DAMAGE` for others.

    numpy would speak of the length of a memory map.
    """
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        old = version == (1, 0)
        read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
        shape, _, kind = read(file)
        wanted = file.tell() + math.prod(shape) * kind.itemsize
        found = os.fstat(file.fileno()).st_size
    if found < wanted and not kind.hasobject:
        raise DataError(
            f"{path} is cut short: it has {found} bytes, and {wanted} are needed for the array "
            f"{kind}{list(shape)} of its header; copy it again, or write it anew"
        )


def file_state(path: Path) -> tuple[int, int, int] | None:
    """Return what differs once a file is replaced or written to; None where it is gone."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def check_unchanged(path: Path, state: tuple[int, int, int] | None) -> None:
    """Raise DataError where a file is not the one that `file_state` saw.

    Its blocks would be of several versions.
    """
    if file_state(path) != state:
        raise DataError(f"{path} changed while it was read; start again")


def check_shape(path: Path, rows: int, features: int) -> None:
    """Raise DataError where there is no vector, or none with a number in it."""
    if not rows or not features:
        raise DataError(f"{path} holds no vectors: its array has the shape [{rows}, {features}]")


def check_finite(path: Path, vectors: NDArray[Any], first: int) -> None:
    """Raise DataError naming the first row that float32 cannot hold, counted from `first`."""
    bad = np.flatnonzero(~within_float32(vectors))
    if not bad.size:
        return
    row = vectors[bad[0]]
    if not np.isfinite(row).all():
        raise DataError(
            f"{path}, row {first + bad[0]}: holds NaN or infinity; leave the row out, or make its "
            "vector again"
        )
    raise DataError(
        f"{path}, row {first + bad[0]}: holds {row[np.abs(row).argmax()]:.6g}, beyond float32, in "
        "which vectors are given; leave the row out, make its vector again, or divide all by a "
        "constant"
    )
