"""The network inside a coupling: three dense layers with ActNorms, the last one zero at the start.

dense(width) -> ActNorm -> ReLU -> dense(width) -> ActNorm -> ReLU -> dense(out) * exp(3 l)

`gatu` replaces the second hidden layer by tanh(a) * sigmoid(b) of two dense + ActNorm branches. The
hidden dense layers have no bias and start from N(0, 0.05); the last one has a bias, and its
weights, bias and l start from 0, so that a new coupling is the identity (additive).
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.lax import Precision

from bertflow_jax.dropout import Dropout
from bertflow_jax.flow.actnorm import LOG_SCALE_FACTOR, ActNorm, fit_actnorm, init_actnorm


class Conditioner(nn.Module):
    """Map float32[..., C1] to float32[..., features].

    Attributes:
      features: channels of the output.
      width: hidden units.
      activation: second hidden layer, `relu` or `gatu`.
      dropout: rate after each hidden layer when `deterministic` is False.
      actnorm_init: see `bertflow_jax.flow.actnorm.init_actnorm`.
    """

    features: int
    width: int
    activation: str = "relu"
    dropout: float = 0.0
    actnorm_init: str = "data"

    @nn.compact
    def __call__(
        self, x: jax.Array, *, deterministic: bool = True, fit_to_data: bool = False
    ) -> jax.Array:
        """Return the conditioner's output.

        With `fit_to_data` (and "params" mutable) every ActNorm is first fitted to the rows that
        reach it: x must then be float32[N, C1].
        """
        drop = Dropout(self.dropout, deterministic)
        h = drop(nn.relu(self._dense_actnorm("hidden1", x, fit_to_data)))
        if self.activation == "gatu":
            a = self._dense_actnorm("hidden2_tanh", h, fit_to_data)
            b = self._dense_actnorm("hidden2_sigmoid", h, fit_to_data)
            h = drop(jnp.tanh(a) * nn.sigmoid(b))
        else:
            h = drop(nn.relu(self._dense_actnorm("hidden2", h, fit_to_data)))
        out = nn.Dense(
            self.features,
            kernel_init=nn.initializers.zeros,
            precision=Precision.HIGHEST,
            name="out",
        )(h)
        log_scale = self.param("out_log_scale", nn.initializers.zeros, (self.features,))
        return out * jnp.exp(LOG_SCALE_FACTOR * log_scale)

    def _dense_actnorm(self, name: str, x: jax.Array, fit_to_data: bool) -> jax.Array:
        h = nn.Dense(
            self.width,
            use_bias=False,
            kernel_init=nn.initializers.normal(0.05),
            precision=Precision.HIGHEST,
            name=name,
        )(x)
        actnorm_name = f"{name}_actnorm"
        params = self.param(actnorm_name, init_actnorm, self.width, self.actnorm_init)
        if fit_to_data:
            params = fit_actnorm(h)
            self.put_variable("params", actnorm_name, params)
        return ActNorm(**params).forward(h)
