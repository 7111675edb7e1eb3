"""The optimisers a flow is fitted with.

`released` is Google BERT's Adam as the published code runs it on the flow: no bias correction,
eps 1e-6 outside the root, decoupled decay on every trainable variable (ActNorm's too), the gradient
clipped to a global norm first, a constant step size:

    g <- g * min(1, clip / |g|);  m <- b1 m + (1-b1) g;  v <- b2 v + (1-b2) g^2
    p <- p - lr * (m / (sqrt(v) + eps) + decay * p)

`adamw` is optax's, with bias correction, under the same clip.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from bertflow_jax.config import TrainConfig

B1, B2, EPS = 0.9, 0.999, 1e-6


class UncorrectedAdamState(NamedTuple):
    """First and second moments, shaped like the parameters."""

    m: optax.Updates
    v: optax.Updates


def scale_by_uncorrected_adam(
    b1: float = B1, b2: float = B2, eps: float = EPS
) -> optax.GradientTransformation:
    """Adam's direction m / (sqrt(v) + eps) without bias correction."""

    def init(params: optax.Params) -> UncorrectedAdamState:
        return UncorrectedAdamState(
            jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params)
        )

    def update(
        grads: optax.Updates, state: UncorrectedAdamState, params: optax.Params | None = None
    ) -> tuple[optax.Updates, UncorrectedAdamState]:
        del params
        m = jax.tree.map(lambda m, g: b1 * m + (1.0 - b1) * g, state.m, grads)
        v = jax.tree.map(lambda v, g: b2 * v + (1.0 - b2) * jnp.square(g), state.v, grads)
        direction = jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + eps), m, v)
        return direction, UncorrectedAdamState(m, v)

    return optax.GradientTransformation(init, update)


def make_optimizer(config: TrainConfig) -> optax.GradientTransformation:
    """Return the optimiser a config names."""
    clip = optax.clip_by_global_norm(config.clip_norm)
    if config.optimizer == "adamw":
        return optax.chain(
            clip, optax.adamw(config.learning_rate, weight_decay=config.weight_decay)
        )
    return optax.chain(
        clip,
        scale_by_uncorrected_adam(),
        optax.add_decayed_weights(config.weight_decay),
        optax.scale(-config.learning_rate),
    )
