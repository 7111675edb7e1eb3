"""What a step must do where each device runs it on its own rows of the batch (pmap).

Under jit over a mesh a step sees the whole batch and XLA splits it: there, and on one device,
everything here is the identity. Inside `split_over` a step sees the rows of one device. It then has
to average over the devices, and random numbers must be those that one device would draw for the
whole batch, or the numbers of a run would depend on how many devices there are.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import jax

_axis: ContextVar[str | None] = ContextVar("batch_axis", default=None)


@contextlib.contextmanager
def split_over(axis: str) -> Iterator[None]:
    """While tracing: the batch's rows are split in order over this mapped axis."""
    token = _axis.set(axis)
    try:
        yield
    finally:
        _axis.reset(token)


def mean(tree: Any) -> Any:
    """Return the mean over the devices of a tree of means over equally many rows."""
    axis = _axis.get()
    return tree if axis is None else jax.lax.pmean(tree, axis)


def draw(
    sample: Callable[[jax.Array, tuple[int, ...]], jax.Array],
    key: jax.Array,
    shape: tuple[int, ...],
) -> jax.Array:
    """Return sample(key, shape); of a split batch, this device's rows of the whole batch's draw.

    The first axis of `shape` is the batch's rows, or a multiple of them in the rows' order.
    """
    axis = _axis.get()
    if axis is None:
        return sample(key, shape)
    whole = sample(key, (shape[0] * jax.lax.axis_size(axis), *shape[1:]))
    return jax.lax.dynamic_slice_in_dim(whole, jax.lax.axis_index(axis) * shape[0], shape[0])
