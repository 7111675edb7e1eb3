"""ActNorm: a learned shift and scale for each channel (Glow, section 3.1).

    forward:  y = (x + b) * exp(3 s)
    inverse:  x = y * exp(-3 s) - b
    log|det dy/dx| = sum_c 3 s_c, the same for every row

`s` is stored divided by 3, as in the released code, which triples the step an optimiser makes.
"""

import distrax
import jax
import jax.numpy as jnp

from bertflow_jax.constant_dimensions import CONSTANT_SHARE

LOG_SCALE_FACTOR = 3.0
_EPS = 1e-6

Params = dict[str, jax.Array]


class ActNorm(distrax.Bijector):
    """The bijector for given parameters.

    Attributes:
      bias: float32[C], b of the formula.
      log_scale: float32[C], s of the formula.
    """

    def __init__(self, bias: jax.Array, log_scale: jax.Array):
        super().__init__(event_ndims_in=1, is_constant_jacobian=True)
        self.bias = bias
        self.log_scale = log_scale

    def _log_det(self, x: jax.Array) -> jax.Array:
        return jnp.broadcast_to(LOG_SCALE_FACTOR * jnp.sum(self.log_scale), x.shape[:-1])

    def forward_and_log_det(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Map float32[..., C] to float32[..., C] and log-det float32[...]."""
        return (x + self.bias) * jnp.exp(LOG_SCALE_FACTOR * self.log_scale), self._log_det(x)

    def inverse_and_log_det(self, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Undo `forward_and_log_det`."""
        x = y * jnp.exp(-LOG_SCALE_FACTOR * self.log_scale) - self.bias
        return x, -self._log_det(y)

    def same_as(self, other: distrax.Bijector) -> bool:
        """Return True when both share their parameter arrays."""
        return isinstance(other, ActNorm) and (
            self.bias is other.bias and self.log_scale is other.log_scale
        )


def init_actnorm(key: jax.Array, channels: int, mode: str) -> Params:
    """Return the parameters before any data is seen.

    `released` draws both from the Glorot uniform of a [1, 1, 1, C] variable (within
    sqrt(6 / (1 + C))), which is what the published script trains from; `identity` and `data` (which
    `fit_actnorm` overwrites) are zeros.
    """
    if mode != "released":
        return {"bias": jnp.zeros(channels), "log_scale": jnp.zeros(channels)}
    limit = (6.0 / (1 + channels)) ** 0.5
    bias_key, scale_key = jax.random.split(key)
    return {
        "bias": jax.random.uniform(bias_key, (channels,), minval=-limit, maxval=limit),
        "log_scale": jax.random.uniform(scale_key, (channels,), minval=-limit, maxval=limit),
    }


def fit_actnorm(x: jax.Array) -> Params:
    """Return the parameters that give float32[N, C] mean 0 and variance 1 in every channel.

    b = -mean(x), s = -log(std(x) + 1e-6) / 3 with the population deviation. A (nearly) constant
    channel is given the mean deviation of all channels: an ordinary gain, here and, since it stays
    constant, in the steps that follow.
    """
    mean = jnp.mean(x, axis=0)
    std = jnp.sqrt(jnp.mean(jnp.square(x - mean), axis=0))
    typical = jnp.mean(std)
    std = jnp.where(std < CONSTANT_SHARE * typical, typical, std)
    return {"bias": -mean, "log_scale": -jnp.log(std + _EPS) / LOG_SCALE_FACTOR}
