"""Gradient accumulation: one step's batch, worked through in pieces."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def accumulated(
    compute: Callable[[Any, jax.Array | None], Any],
    batch: Any,
    pieces: int,
    key: jax.Array | None,
) -> Any:
    """Return the mean of compute(piece, key) over the pieces of a batch, one after the other.

    With one piece it is compute(batch, key). Else piece j holds the rows j, j + pieces, ...: a
    batch that is split over devices then stays split in the same way, and nothing is moved.

    Args:
      compute: returns a tree of float32 arrays, each a mean over the rows of the piece.
      batch: tree of arrays [B, ...], `pieces` divides B.
      pieces: how many.
      key: of the step; piece j gets fold_in(key, j).
    """
    if pieces == 1:
        return compute(batch, key)

    def split(x: jax.Array) -> jax.Array:
        return jnp.moveaxis(x.reshape(x.shape[0] // pieces, pieces, *x.shape[1:]), 1, 0)

    def add(total: Any, piece: tuple[jax.Array, Any]) -> tuple[Any, None]:
        index, rows = piece
        part = compute(rows, None if key is None else jax.random.fold_in(key, index))
        return jax.tree.map(jnp.add, total, part), None

    parts = jax.tree.map(split, batch)
    shapes = jax.eval_shape(compute, jax.tree.map(lambda x: x[0], parts), key)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    total, _ = jax.lax.scan(add, zeros, (jnp.arange(pieces), parts))
    return jax.tree.map(lambda x: x / pieces, total)
