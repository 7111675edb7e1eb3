"""Coupling layers: the second part of the channels is changed by a function of the first.

x = [x1, x2] with C // 2 and C - C // 2 channels, y = [x1, y2].

Additive (released):  y2 = x2 + t(x1),                      log|det| = 0
Affine:               y2 = (x2 + t(x1)) * sigmoid(r(x1) + 2),  log|det| = sum log sigmoid(r + 2)

In the affine form t are the even and r the odd channels of the conditioner's output. The sigmoid
bounds the scale by 1, so that no input can make the layer overflow.
"""

from collections.abc import Callable

import distrax
import jax
import jax.numpy as jnp

Conditioner = Callable[[jax.Array], jax.Array]
_SCALE_SHIFT = 2.0


def split_sizes(channels: int) -> tuple[int, int]:
    """Return the channels of x1 and x2; an odd channel belongs to x2."""
    return channels // 2, channels - channels // 2


class AdditiveCoupling(distrax.Bijector):
    """y2 = x2 + t(x1).

    Attributes:
      conditioner: float32[..., C // 2] -> float32[..., C - C // 2], t of the formula.
    """

    def __init__(self, conditioner: Conditioner):
        super().__init__(event_ndims_in=1)
        self.conditioner = conditioner

    def forward_and_log_det(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Map float32[..., C] to float32[..., C]; the log-det is 0."""
        x1, x2 = jnp.split(x, [x.shape[-1] // 2], axis=-1)
        y = jnp.concatenate([x1, x2 + self.conditioner(x1)], axis=-1)
        return y, jnp.zeros(x.shape[:-1], x.dtype)

    def inverse_and_log_det(self, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Undo `forward_and_log_det`."""
        y1, y2 = jnp.split(y, [y.shape[-1] // 2], axis=-1)
        x = jnp.concatenate([y1, y2 - self.conditioner(y1)], axis=-1)
        return x, jnp.zeros(y.shape[:-1], y.dtype)

    def same_as(self, other: distrax.Bijector) -> bool:
        """Return True when both use the same conditioner object."""
        return isinstance(other, AdditiveCoupling) and self.conditioner is other.conditioner


class AffineCoupling(distrax.Bijector):
    """y2 = (x2 + t(x1)) * sigmoid(r(x1) + 2).

    Attributes:
      conditioner: float32[..., C // 2] -> float32[..., 2 (C - C // 2)], t and r interleaved.
    """

    def __init__(self, conditioner: Conditioner):
        super().__init__(event_ndims_in=1)
        self.conditioner = conditioner

    def _shift_and_log_scale(self, x1: jax.Array) -> tuple[jax.Array, jax.Array]:
        raw = self.conditioner(x1)
        return raw[..., 0::2], jax.nn.log_sigmoid(raw[..., 1::2] + _SCALE_SHIFT)

    def forward_and_log_det(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Map float32[..., C] to float32[..., C] and log-det float32[...]."""
        x1, x2 = jnp.split(x, [x.shape[-1] // 2], axis=-1)
        shift, log_scale = self._shift_and_log_scale(x1)
        y = jnp.concatenate([x1, (x2 + shift) * jnp.exp(log_scale)], axis=-1)
        return y, jnp.sum(log_scale, axis=-1)

    def inverse_and_log_det(self, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Undo `forward_and_log_det`."""
        y1, y2 = jnp.split(y, [y.shape[-1] // 2], axis=-1)
        shift, log_scale = self._shift_and_log_scale(y1)
        x = jnp.concatenate([y1, y2 * jnp.exp(-log_scale) - shift], axis=-1)
        return x, -jnp.sum(log_scale, axis=-1)

    def same_as(self, other: distrax.Bijector) -> bool:
        """Return True when both use the same conditioner object."""
        return isinstance(other, AffineCoupling) and self.conditioner is other.conditioner
