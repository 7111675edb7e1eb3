"""Channel permutations: the released fixed reversal and Glow's learned 1x1 convolution.

Reverse:    y_c = x_{C-1-c},                     log|det| = 0
PLULinear:  y = x W, W = P L (U + diag(sign(s) exp(log|s|))),   log|det| = sum(log|s|)

L is unit lower triangular, U strictly upper triangular, P a permutation; P and sign(s) are fixed.
"""

import distrax
import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.lax import Precision
from jax.scipy.linalg import lu, solve_triangular

Params = dict[str, jax.Array]


class Reverse(distrax.Bijector):
    """Reverse the order of the channels."""

    def __init__(self) -> None:
        super().__init__(event_ndims_in=1, is_constant_jacobian=True)

    def forward_and_log_det(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Map float32[..., C] to float32[..., C]; the log-det is 0."""
        return x[..., ::-1], jnp.zeros(x.shape[:-1], x.dtype)

    def inverse_and_log_det(self, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Undo `forward_and_log_det` (a reversal is its own inverse)."""
        return self.forward_and_log_det(y)

    def same_as(self, other: distrax.Bijector) -> bool:
        """Return True for any other reversal."""
        return isinstance(other, Reverse)


class PLULinear(distrax.Bijector):
    """The learned 1x1 convolution in its PLU form.

    Attributes:
      lower: float32[C, C], used below the diagonal.
      upper: float32[C, C], used above the diagonal.
      log_s: float32[C], log|s|.
      sign_s: float32[C], fixed.
      order: int32[C], fixed; x P = x[..., order].
    """

    def __init__(
        self,
        lower: jax.Array,
        upper: jax.Array,
        log_s: jax.Array,
        sign_s: jax.Array,
        order: jax.Array,
    ):
        super().__init__(event_ndims_in=1, is_constant_jacobian=True)
        self.lower = jnp.tril(lower, -1) + jnp.eye(lower.shape[0], dtype=lower.dtype)
        self.upper = jnp.triu(upper, 1) + jnp.diag(sign_s * jnp.exp(log_s))
        self.log_s = log_s
        self.order = order

    def _log_det(self, x: jax.Array) -> jax.Array:
        return jnp.broadcast_to(jnp.sum(self.log_s), x.shape[:-1])

    def forward_and_log_det(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Map float32[..., C] to float32[..., C] and log-det float32[...]."""
        mixed = jnp.matmul(x[..., self.order], self.lower, precision=Precision.HIGHEST)
        return jnp.matmul(mixed, self.upper, precision=Precision.HIGHEST), self._log_det(x)

    def inverse_and_log_det(self, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Undo `forward_and_log_det` by two triangular solves."""
        rows = y.reshape(-1, y.shape[-1]).T
        mixed = solve_triangular(self.upper, rows, trans=1)
        ordered = solve_triangular(self.lower, mixed, trans=1, lower=True, unit_diagonal=True)
        x = ordered.T[:, jnp.argsort(self.order)].reshape(y.shape)
        return x, -self._log_det(y)

    def same_as(self, other: distrax.Bijector) -> bool:
        """Return True when both share their parameter arrays."""
        return isinstance(other, PLULinear) and (
            self.log_s is other.log_s and self.order is other.order
        )


def init_plu(key: jax.Array, channels: int) -> tuple[Params, Params]:
    """Return (trainable, fixed) parameters of a random rotation in its PLU form."""
    rotation = nn.initializers.orthogonal()(key, (channels, channels), jnp.float32)
    permutation, lower, upper = lu(rotation)
    s = jnp.diag(upper)
    trainable = {"lower": lower, "upper": jnp.triu(upper, 1), "log_s": jnp.log(jnp.abs(s))}
    fixed = {
        "sign_s": jnp.sign(s),
        "order": jnp.argmax(permutation, axis=0).astype(jnp.int32),
    }
    return trainable, fixed
