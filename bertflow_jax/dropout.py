"""Dropout whose numbers do not depend on how many devices share a batch."""

from functools import partial

import jax
import jax.numpy as jnp
from flax import linen as nn

from bertflow_jax import batch_axis


class Dropout(nn.Module):
    """y = x * m / (1 - rate), m from Bernoulli(1 - rate); needs the rng "dropout".

    flax's own, but for `batch_axis.draw`.

    Attributes:
      rate: share of the values that become 0, in [0, 1).
      deterministic: True returns x.
    """

    rate: float
    deterministic: bool

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Map float[R, ...] to float[R, ...]; R is a multiple of the batch's rows."""
        if self.deterministic or self.rate == 0.0:
            return x
        keep = 1.0 - self.rate
        sample = partial(_bernoulli, keep)
        kept = batch_axis.draw(sample, self.make_rng("dropout"), x.shape)
        # Else XLA for TPU draws inside the matmul before it, element by element of its tiles: it
        # runs out of registers, and on a v4 out of memory (`python -m benchmarks.tpu_aot`).
        kept = jax.lax.optimization_barrier(kept)
        return jnp.where(kept, x / keep, jnp.zeros_like(x))


def _bernoulli(p: float, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jax.random.bernoulli(key, p, shape)
