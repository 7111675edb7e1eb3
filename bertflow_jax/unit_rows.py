"""Rows scaled to length 1 in NumPy; on a device `encoder.embedding.unit_length` does it."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.floating)


def unit_rows(x: NDArray[Number]) -> NDArray[Number]:
    """Scale the rows of float[N, D] to Euclidean length 1, whatever their length; 0 stays 0."""
    # The largest number first: the squares of very long and very short rows leave the range.
    largest = np.max(np.abs(x), axis=1, keepdims=True, initial=0)
    one = x.dtype.type(1)
    scaled = x / np.where(largest > 0, largest, one)
    # The norm is at least 1 then, but for a row of zeros.
    return scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), one)
