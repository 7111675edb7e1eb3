"""Glow's multi-level structure: half of a level's channels leave, the rest goes on.

    [h, eps] = level(x),   z = [eps, rest(h)],   log|det| = log|det level| + log|det rest|

h keeps the first C // 2 channels. Nesting it gives z = [eps of level 0, eps of level 1, ..., rest].
"""

import distrax
import jax
import jax.numpy as jnp


class FactorOut(distrax.Bijector):
    """Apply `level` to all channels and `rest` to the first C // 2 of its output.

    Attributes:
      level: bijector of float32[..., C].
      rest: bijector of float32[..., C // 2].
    """

    def __init__(self, level: distrax.Bijector, rest: distrax.Bijector):
        super().__init__(event_ndims_in=1)
        self.level = level
        self.rest = rest

    def forward_and_log_det(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Map float32[..., C] to float32[..., C] and log-det float32[...]."""
        y, level_log_det = self.level.forward_and_log_det(x)
        h, eps = jnp.split(y, [x.shape[-1] // 2], axis=-1)
        z, rest_log_det = self.rest.forward_and_log_det(h)
        return jnp.concatenate([eps, z], axis=-1), level_log_det + rest_log_det

    def inverse_and_log_det(self, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Undo `forward_and_log_det`."""
        eps, z = jnp.split(y, [y.shape[-1] - y.shape[-1] // 2], axis=-1)
        h, rest_log_det = self.rest.inverse_and_log_det(z)
        x, level_log_det = self.level.inverse_and_log_det(jnp.concatenate([h, eps], axis=-1))
        return x, rest_log_det + level_log_det

    def same_as(self, other: distrax.Bijector) -> bool:
        """Return True when both parts are the same."""
        return isinstance(other, FactorOut) and (
            self.level.same_as(other.level) and self.rest.same_as(other.rest)
        )
