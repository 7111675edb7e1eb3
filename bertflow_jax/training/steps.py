"""Pure training steps of the flow over cached embeddings.

Everything here is a pure function of its arguments; `bertflow_jax.parallel` compiles it.
"""

from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from bertflow_jax import batch_axis
from bertflow_jax.config import FlowConfig
from bertflow_jax.flow.glow import Glow
from bertflow_jax.jax_settings import random_key
from bertflow_jax.training.accumulate import accumulated
from bertflow_jax.training.losses import BitsPerDim, bits_per_dim

Variables = dict[str, Any]


@flax.struct.dataclass
class FitState:
    """A fit between two steps.

    Attributes:
      step: int32[], steps made.
      variables: of the flow: "params" (trained) and, for some flows, "constants".
      opt_state: of the optimiser over the flattened params, float32[P].
    """

    step: jax.Array
    variables: Variables
    opt_state: Any


@flax.struct.dataclass
class StepMetrics:
    """Of one step, before its update, in bits/dim a sentence.

    Attributes:
      bits_per_dim: float32[], mean loss of the batch's sentences.
      prior: float32[], its share from the prior.
      log_det: float32[], its share from the log-determinant.
      grad_norm: float32[], global norm of the gradient before the clip.
    """

    bits_per_dim: jax.Array
    prior: jax.Array
    log_det: jax.Array
    grad_norm: jax.Array


RunSteps = Callable[[FitState, jax.Array, jax.Array, jax.Array | int], tuple[FitState, StepMetrics]]


def flat_params(variables: Variables) -> jax.Array:
    """Return the trainable parameters as one vector, float32[P]."""
    return ravel_pytree(variables["params"])[0]


def spread(u: jax.Array, noise: Any, key: jax.Array) -> jax.Array:
    """Return u float32[N, D] with noise of deviation float32[D] added; None adds none.

    `key` is the step's; see `training.fit.spread_constant_dimensions`.
    """
    if noise is None:
        return u
    return u + noise * batch_axis.draw(jax.random.normal, jax.random.fold_in(key, 2), u.shape)


Gradient = Callable[..., tuple[jax.Array, BitsPerDim]]


def make_gradient(flow: FlowConfig, features: int) -> Gradient:
    """Return gradient(params, constants, x, key) -> (gradient float32[P], mean bits/dim).

    Of the flow's objective on a batch x float32[B, S, D]: the losses of an example's S sentences
    add up, as in the released code. `constants` are the variables that are not trained; `key` is
    None without dropout.
    """
    glow = Glow(features, flow)

    def objective(
        params: Any, constants: Variables, x: jax.Array, key: jax.Array | None
    ) -> tuple[jax.Array, BitsPerDim]:
        # With [B, S, D] XLA would copy a transposed cotangent for each matmul's weight gradient.
        sentences = x.reshape(-1, features)
        latent: Any = glow.apply({**constants, "params": params}, sentences, key)
        bits = jax.tree.map(jnp.mean, bits_per_dim(*latent))
        return x.shape[1] * bits.total, bits

    def gradient(
        params: Any, constants: Variables, x: jax.Array, key: jax.Array | None
    ) -> tuple[jax.Array, BitsPerDim]:
        grads, bits = jax.grad(objective, has_aux=True)(params, constants, x, key)
        return ravel_pytree(grads)[0], bits

    return gradient


def update(
    optimizer: optax.GradientTransformation,
    params: jax.Array,
    opt_state: Any,
    gradient: jax.Array,
    bits: BitsPerDim,
) -> tuple[jax.Array, Any, StepMetrics]:
    """Return (params, opt_state, metrics) after one step along a gradient; all are float32[P]."""
    gradient, bits = batch_axis.mean((gradient, bits))
    updates, opt_state = optimizer.update(gradient, opt_state, params)
    metrics = StepMetrics(bits.total, bits.prior, bits.log_det, optax.tree.norm(gradient))
    return optax.apply_updates(params, updates), opt_state, metrics


def constants_of(variables: Variables) -> Variables:
    """Return the variables of a flow that are not trained."""
    return {name: value for name, value in variables.items() if name != "params"}


def make_run_steps(
    flow: FlowConfig,
    optimizer: optax.GradientTransformation,
    features: int,
    seed: int,
    accumulate: int = 1,
) -> RunSteps:
    """Return run_steps(state, embeddings, rows, count): many steps in one device call.

    `embeddings` is float32[U, D], `rows` int32[K, B, S] (row numbers of the embeddings) and `count`
    how many of the K steps to make. An example has S sentences (1, or 2 for pairs). A batch is
    worked through in `accumulate` pieces. Metrics are StepMetrics of float32[K]; entries from
    `count` on are 0.

    The trip count is data, not shape: one compiled program serves every count, so that where a run
    was cut never changes its numbers. Inside the loop the parameters are one vector: the optimiser
    is then a few operations instead of a few for each of a hundred small arrays, which took longer
    than the flow itself.
    """
    gradient = make_gradient(flow, features)

    def run_steps(
        state: FitState, embeddings: jax.Array, rows: jax.Array, count: jax.Array | int
    ) -> tuple[FitState, StepMetrics]:
        start, unravel = ravel_pytree(state.variables["params"])
        constants = constants_of(state.variables)

        def body(i: jax.Array, carry: Any) -> Any:
            params, opt_state, history = carry
            step_key = jax.random.fold_in(random_key(seed), state.step + i)

            def compute(examples: jax.Array, key: jax.Array | None) -> tuple[jax.Array, BitsPerDim]:
                return gradient(unravel(params), constants, embeddings[examples], key)

            key = step_key if flow.dropout > 0 else None
            direction = accumulated(compute, rows[i], accumulate, key)
            params, opt_state, metrics = update(optimizer, params, opt_state, *direction)
            history = jax.tree.map(lambda h, m: h.at[i].set(m), history, metrics)
            return params, opt_state, history

        zeros = jnp.zeros(rows.shape[0], jnp.float32)
        history = StepMetrics(zeros, zeros, zeros, zeros)
        params, opt_state, history = jax.lax.fori_loop(
            0, count, body, (start, state.opt_state, history)
        )
        variables = {**constants, "params": unravel(params)}
        return FitState(state.step + count, variables, opt_state), history

    return run_steps
