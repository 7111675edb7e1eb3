"""The pure training step of the encoder, with or without a flow beside it.

`joint` has two objectives and two optimisers, as in the released code:

    encoder (+ head)  supervised loss of z = f(u) (or of u) [+ weight * flow's loss]   AdamW
    flow              2 * mean bits/dim of u: a pair's two losses add up               its own

Both gradients are taken at the same parameters. An example without a label takes part in the
flow's loss (and the norm penalty) alone.
"""

from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from bertflow_jax import batch_axis
from bertflow_jax.config import Config
from bertflow_jax.encoder.embedding import EmbedFn
from bertflow_jax.flow.glow import Glow
from bertflow_jax.jax_settings import random_key
from bertflow_jax.training.accumulate import accumulated
from bertflow_jax.training.losses import bits_per_dim
from bertflow_jax.training.optimizer import make_optimizer
from bertflow_jax.training.steps import constants_of, make_gradient, spread, update
from bertflow_jax.training.supervised_batches import PairBatch
from bertflow_jax.training.supervised_losses import supervised_loss

_PAIR = 2  # sentences an example


@flax.struct.dataclass
class SupervisedState:
    """A run between two steps.

    Attributes:
      step: int32[], steps made.
      params: {"encoder": trained parameters, "head": classifier of `siamese`}.
      opt_state: of the encoder's optimiser over params.
      flow: variables of the flow of `joint`, else {}.
      flow_opt_state: of the flow's optimiser over its flattened params, else {}.
    """

    step: jax.Array
    params: dict[str, Any]
    opt_state: Any
    flow: dict[str, Any]
    flow_opt_state: Any


@flax.struct.dataclass
class SupervisedMetrics:
    """Of one step, before its update.

    Attributes:
      loss: float32[], the encoder's objective.
      supervised: float32[], its supervised part (nats for siamese, squared cosines else).
      grad_norm: float32[], of encoder and head before the clip.
      bits_per_dim: float32[], mean of the flow's loss a sentence; 0 without a flow.
      flow_grad_norm: float32[], of the flow before the clip; 0 without a flow.
      finite: bool[], False where loss or gradient is not finite; the state is then the old one.
    """

    loss: jax.Array
    supervised: jax.Array
    grad_norm: jax.Array
    bits_per_dim: jax.Array
    flow_grad_norm: jax.Array
    finite: jax.Array


TrainStep = Callable[[SupervisedState, PairBatch], tuple[SupervisedState, SupervisedMetrics]]


def supervised_part(config: Config) -> str:
    """Return the loss on labels that an objective has: `siamese` or `regression`."""
    return config.supervision.joint_loss if config.objective == "joint" else config.objective


def uses_latent(config: Config) -> bool:
    """Return whether the supervised loss sees z = f(u) rather than u."""
    return config.objective == "joint" and config.supervision.joint_vectors == "latent"


def make_train_step(
    config: Config,
    embed: EmbedFn,
    optimizer: optax.GradientTransformation,
    noise: np.ndarray | None = None,
) -> TrainStep:
    """Return step(state, batch) -> (state, metrics).

    Args:
      config: the experiment; dropout draws from fold_in(key(seed), step).
      embed: of `encoder.embedding.make_embed_fn`.
      optimizer: of {"encoder", "head"}.
      noise: float32[E], deviation of the noise that the flow's loss adds to constant dimensions
        (see `training.fit.spread_constant_dimensions`); None for none.
    """
    section, joint = config.supervision, config.objective == "joint"
    flow_optimizer = make_optimizer(config.train)

    def latent(flow: dict[str, Any], x: jax.Array, key: jax.Array | None) -> Any:
        return Glow(x.shape[-1], config.flow).apply(flow, x, key)

    def flow_inputs(u: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        """Return what the flow's loss is taken of, float32[B, 2, E], and its dropout key."""
        dropout_key = jax.random.fold_in(key, 1) if config.flow.dropout > 0 else None
        return spread(u, noise, key).reshape(-1, _PAIR, u.shape[-1]), dropout_key

    def objective(
        params: dict[str, Any], flow: dict[str, Any], batch: PairBatch, key: jax.Array
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        dropout_key = jax.random.fold_in(key, 0) if section.dropout else None
        tokens = batch.input_ids.shape[-1]
        u = embed(
            params["encoder"],
            batch.input_ids.reshape(-1, tokens),
            batch.attention_mask.reshape(-1, tokens),
            dropout_key,
        )
        x = latent(flow, u, None)[0] if uses_latent(config) else u
        pairs = x.reshape(-1, _PAIR, x.shape[-1])
        loss, part = supervised_loss(
            params,
            pairs[:, 0],
            pairs[:, 1],
            batch.targets,
            batch.labelled,
            loss=supervised_part(config),
            norm_penalty=section.norm_penalty,
        )
        if joint and section.flow_to_encoder:
            bits = bits_per_dim(*latent(flow, *flow_inputs(u, key))).total
            loss = loss + section.flow_to_encoder * _PAIR * jnp.mean(bits)
        return loss, (part, u)

    def step(state: SupervisedState, batch: PairBatch) -> tuple[SupervisedState, SupervisedMetrics]:
        def compute(piece: PairBatch, key: Any) -> tuple[Any, ...]:
            (loss, (part, u)), grads = jax.value_and_grad(objective, has_aux=True)(
                state.params, state.flow, piece, key
            )
            if not joint:
                return grads, loss, part, ()
            flow_gradient = make_gradient(config.flow, u.shape[-1])
            params, constants = state.flow["params"], constants_of(state.flow)
            return grads, loss, part, flow_gradient(params, constants, *flow_inputs(u, key))

        key = jax.random.fold_in(random_key(config.seed), state.step)
        parts = accumulated(compute, batch, config.train.accumulate, key)
        grads, loss, part, flow_direction = batch_axis.mean(parts)
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        flow, flow_opt_state = state.flow, state.flow_opt_state
        bits = flow_norm = jnp.zeros(())
        if joint:
            flat, unravel = ravel_pytree(state.flow["params"])
            flat, flow_opt_state, of_flow = update(
                flow_optimizer, flat, state.flow_opt_state, *flow_direction
            )
            flow = {**state.flow, "params": unravel(flat)}
            bits, flow_norm = of_flow.bits_per_dim, of_flow.grad_norm
        norm = optax.tree.norm(grads)
        finite = jnp.isfinite(loss + norm + bits + flow_norm)
        after = SupervisedState(state.step + 1, params, opt_state, flow, flow_opt_state)
        # The old state's buffers are given away to the new one: a bad step is undone in here.
        kept = jax.tree.map(lambda new, old: jnp.where(finite, new, old), after, state)
        return kept, SupervisedMetrics(loss, part, norm, bits, flow_norm, finite)

    return step
