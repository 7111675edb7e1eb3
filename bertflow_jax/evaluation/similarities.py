"""Similarities of matching rows, in float64: cosine, dot product, negative distances.

All are rounded so that values which differ by noise of the arithmetic alone are equal: the cosine
to 12 decimals, the unbounded ones to 40 binary digits (12 decimal ones) of their own size, and to 0
where they are smaller than that share of what they were computed from.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertflow_jax.errors import InputError
from bertflow_jax.evaluation.metrics import cosine_similarity, matching_rows

Similarity = Callable[[ArrayLike, ArrayLike], NDArray[np.float64]]
"""(float[N, D], float[N, D]) -> float64[N], larger for rows that are more alike."""

_DIGITS = 40
_CHUNK = 8192


def dot_similarity(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Return sum_d a_id b_id of matching rows.

    Args:
      a: float[N, D].
      b: float[N, D].

    Returns:
      float64[N], rounded (see the module).

    Raises:
      InputError: the shapes differ, a value is not finite, or a result overflows.
    """
    left, right = matching_rows(a, b)
    with np.errstate(over="ignore", invalid="ignore"):
        products = left * right
        return _rounded(products.sum(axis=1), np.abs(products).sum(axis=1))


def euclidean_similarity(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Return -sqrt(sum_d (a_id - b_id)^2) of matching rows; see `dot_similarity`."""
    left, right = matching_rows(a, b)
    with np.errstate(over="ignore", invalid="ignore"):
        return _rounded(-_length(left - right), _length(left) + _length(right))


def manhattan_similarity(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Return -sum_d |a_id - b_id| of matching rows; see `dot_similarity`."""
    left, right = matching_rows(a, b)
    with np.errstate(over="ignore", invalid="ignore"):
        scale = np.abs(left).sum(axis=1) + np.abs(right).sum(axis=1)
        return _rounded(-np.abs(left - right).sum(axis=1), scale)


SIMILARITIES: dict[str, Similarity] = {
    "cosine": cosine_similarity,
    "dot": dot_similarity,
    "euclidean": euclidean_similarity,
    "manhattan": manhattan_similarity,
}
# How a report names them.
TITLES = {
    "cosine": "cosine",
    "dot": "dot product",
    "euclidean": "negative Euclidean distance",
    "manhattan": "negative Manhattan distance",
}


def similarity_of(name: str) -> Similarity:
    """Return the similarity of a name; raises InputError listing those there are."""
    if name not in SIMILARITIES:
        raise InputError(f"similarity {name!r}: must be one of {', '.join(SIMILARITIES)}")
    return SIMILARITIES[name]


def pair_similarities(
    name: str, count: int, rows: Callable[[slice], tuple[ArrayLike, ArrayLike]]
) -> NDArray[np.float64]:
    """Return the similarities of many pairs with the float64 copies of a few of them at a time.

    Args:
      name: a key of `SIMILARITIES`.
      count: N, number of pairs.
      rows: slice of the pairs -> their embeddings, two float[n, D].

    Returns:
      float64[N].
    """
    similarity = similarity_of(name)
    parts = [similarity(*rows(slice(start, start + _CHUNK))) for start in range(0, count, _CHUNK)]
    return np.concatenate([np.empty(0), *parts])


def _length(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return |x_i| without overflow or underflow of the squares."""
    largest = np.max(np.abs(x), axis=1, initial=0.0)
    scaled = x / np.where(largest > 0, largest, 1.0)[:, None]
    return largest * np.linalg.norm(scaled, axis=1)


def _rounded(values: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to `_DIGITS` binary digits; to 0 below 2^-_DIGITS of the scale of the computation."""
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise InputError(
            f"the similarity of pair {bad[0]} overflows float64: the embeddings are too large for "
            "it; use --similarity=cosine, or scale them down"
        )
    # Binary digits: rounding is then exact, never changes an order, and has no seam at 10^k.
    mantissa, exponent = np.frexp(values)
    rounded = np.ldexp(np.round(np.ldexp(mantissa, _DIGITS)), exponent - _DIGITS)
    # Adding 0 turns -0.0 into 0.0.
    return np.where(np.abs(values) <= np.ldexp(scale, -_DIGITS), 0.0, rounded) + 0.0
