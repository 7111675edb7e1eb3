"""Pure training steps of the flow over cached embeddings.

Everything here is a pure function of its arguments; `bertflow_jax.parallel` compiles it.
"""

from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import optax

from bertflow_jax.config import FlowConfig
from bertflow_jax.flow.glow import Glow
from bertflow_jax.training.losses import bits_per_dim

Variables = dict[str, Any]


@flax.struct.dataclass
class FitState:
    """What a step changes, and what it needs unchanged.

    Attributes:
      step: int32[], steps made.
      variables: of the flow: "params" (trained) and, for some flows, "constants".
      opt_state: of the optimiser.
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


Step = Callable[[FitState, jax.Array], tuple[FitState, StepMetrics]]


def make_step(
    flow: FlowConfig, optimizer: optax.GradientTransformation, features: int, seed: int
) -> Step:
    """Return step(state, x float32[B, S, D]) -> (state, metrics).

    An example has S sentences (1, or 2 for pairs); as in the released code the losses of a pair's
    sentences add up, so the objective is S times the mean bits/dim.
    """
    glow = Glow(features, flow)

    def objective(params: Any, variables: Variables, x: jax.Array, key: jax.Array | None) -> Any:
        latent: Any = glow.apply({**variables, "params": params}, x, key)
        z, log_det = latent
        bits = jax.tree.map(jnp.mean, bits_per_dim(z, log_det))
        return x.shape[1] * bits.total, bits

    def step(state: FitState, x: jax.Array) -> tuple[FitState, StepMetrics]:
        key = jax.random.fold_in(jax.random.key(seed), state.step) if flow.dropout > 0 else None
        params = state.variables["params"]
        grads, bits = jax.grad(objective, has_aux=True)(params, state.variables, x, key)
        updates, opt_state = optimizer.update(grads, state.opt_state, params)
        variables = {**state.variables, "params": optax.apply_updates(params, updates)}
        metrics = StepMetrics(bits.total, bits.prior, bits.log_det, optax.tree.norm(grads))
        return FitState(state.step + 1, variables, opt_state), metrics

    return step


def make_run_steps(step: Step) -> Callable[..., tuple[FitState, StepMetrics]]:
    """Return run_steps(state, embeddings, rows, count): many steps in one device call.

    `embeddings` is float32[U, D], `rows` int32[K, B, S] (row numbers of the embeddings) and `count`
    how many of the K steps to make. The trip count is data, not shape: one compiled program serves
    every count, so that where a run was cut never changes its numbers. Metrics are StepMetrics of
    float32[K]; entries from `count` on are 0.
    """

    def run_steps(
        state: FitState, embeddings: jax.Array, rows: jax.Array, count: jax.Array
    ) -> tuple[FitState, StepMetrics]:
        zeros = jnp.zeros(rows.shape[0], jnp.float32)
        history = StepMetrics(zeros, zeros, zeros, zeros)

        def body(i: jax.Array, carry: tuple[FitState, StepMetrics]) -> Any:
            state, history = carry
            state, metrics = step(state, embeddings[rows[i]])
            history = jax.tree.map(lambda h, m: h.at[i].set(m), history, metrics)
            return state, history

        return jax.lax.fori_loop(0, count, body, (state, history))

    return run_steps
