"""The flow's objective in bits per dimension.

    loss = -(log N(f(u); 0, I) + log|det df/du|) / (D ln 2)

A density can exceed 1, so a negative loss is normal (a fit often settles between -1 and 0).
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

_LOG_2PI = math.log(2.0 * math.pi)


class BitsPerDim(NamedTuple):
    """The loss and its two parts; total = prior + log_det.

    Attributes:
      total: float32[...], bits/dim of each row.
      prior: float32[...], -log N(z; 0, I) / (D ln 2).
      log_det: float32[...], -log|det dz/du| / (D ln 2).
    """

    total: jax.Array
    prior: jax.Array
    log_det: jax.Array


def bits_per_dim(z: jax.Array, log_det: jax.Array) -> BitsPerDim:
    """Return the negative log-likelihood of float32[..., D] with log-det float32[...] in nats."""
    dims = z.shape[-1]
    to_bits = 1.0 / (dims * math.log(2.0))
    prior = 0.5 * (jnp.sum(jnp.square(z), axis=-1) + dims * _LOG_2PI) * to_bits
    change = -log_det * to_bits
    return BitsPerDim(prior + change, prior, change)
