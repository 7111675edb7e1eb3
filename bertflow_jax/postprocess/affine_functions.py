"""The arithmetic of an affine map: rows in float64 on the host, or in float32 under jit."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from bertflow_jax.embedding_checks import check_results
from bertflow_jax.errors import InputError, shown
from bertflow_jax.jax_settings import own_promotion, own_settings

STEP_ROWS = 8192  # rows of one step: bounds the float64 copies


@own_promotion()
def affine_transform(params: Any, u: jax.Array) -> jax.Array:
    """Map u float32[B, D] to (u - mean) A, float32[B, K]; A is float32[D, K] or float32[D]."""
    matrix, centred = params["matrix"], (u - params["mean"]) - params["mean_rest"]
    if matrix.ndim == 1:
        return centred * matrix
    return jnp.matmul(centred, matrix, precision="highest")


def single_parameters(
    mean: NDArray[np.float64], matrix: NDArray[np.float64], name: str
) -> dict[str, NDArray[np.float32]]:
    """Return the parameters of `affine_transform`, the mean in two parts that add up to it.

    Args:
      mean: float64[D].
      matrix: A, float64[D, K] or float64[D].
      name: of the post-processor, for the message.

    Raises:
      InputError: mean or matrix are beyond the range of float32.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        high = mean.astype(np.float32)
        params = {
            "mean": high,
            "mean_rest": (mean - high).astype(np.float32),
            "matrix": matrix.astype(np.float32),
        }
    # Devices take numbers below the smallest normal one for 0.
    factors = np.abs(matrix).reshape(len(matrix), -1).max(axis=1)
    lost = (factors > 0) & (factors < np.finfo(np.float32).tiny)
    held = all(np.isfinite(array).all() for array in params.values())
    if lost.any() or not held:
        raise InputError(
            f"this {name} does not fit into float32: its means go up to "
            f"{np.abs(mean).max():.3g} and its factors up to {np.abs(matrix).max():.3g}; bring "
            "the embeddings to an ordinary size before the fit, or use transform"
        )
    return params


def iterable_of_batches(batches: Any) -> Iterator[Any]:
    """Return an iterator over batches; raises InputError for what holds none."""
    wanted = "must be an iterable of arrays float[n, D]"
    if isinstance(batches, str | bytes):
        raise InputError(f"batches={shown(batches)}: {wanted}")
    try:
        return iter(batches)
    except TypeError as error:  # also of an array of no dimension, which is an Iterable
        raise InputError(f"batches={shown(batches)}: {wanted}") from error


@own_settings()
def arrays_on_device(params: dict[str, NDArray[np.float32]]) -> dict[str, jax.Array]:
    """Return the parameters of `affine_transform` as JAX's arrays, of the same shapes."""
    return {name: jnp.asarray(array) for name, array in params.items()}


def times(rows: NDArray[np.float64], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows float64[n, D] times A, a matrix [D, K] or the diagonal [D] of one."""
    return rows * matrix if matrix.ndim == 1 else rows @ matrix


def rank_of(matrix: NDArray[np.float64], inverse: NDArray[np.float64]) -> int:
    """Return the rank of A, which is the trace of the projection A A^+.

    The determinant of a singular matrix that is a product, as that of ZCA, is rounding and not 0.
    """
    if matrix.ndim == 1:
        return int(np.count_nonzero(matrix))
    trace = np.sum(matrix * inverse.T)
    return int(np.round(trace)) if np.isfinite(trace) else 0


def by_rows(
    rows: NDArray[np.floating],
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    what: str,
) -> NDArray[np.float32]:
    """Apply a function float64[n, D] -> float64[n, K] to a few rows at a time.

    Raises:
      InputError: as `check_results`, which `what` is for.
    """
    parts = []
    for i in range(0, max(1, len(rows)), STEP_ROWS):
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            exact = function(rows[i : i + STEP_ROWS].astype(np.float64))
            part = exact.astype(np.float32)
        parts.append(check_results(part, what, i, exact))
    return np.concatenate(parts)
