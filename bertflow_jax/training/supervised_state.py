"""A supervised run's state: its start, its checkpoints, its compiled step.

Arrays of a checkpoint:

    encoder_params  the trained parameters (those that the vectors depend on)
    head            the classifier of `siamese`
    optimizer       state of the encoder's optimiser
    flow            variables of the flow of `joint`
    flow_optimizer  state of its optimiser
"""

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from bertflow_jax import compiled_steps, distributed, parallel
from bertflow_jax.checkpoint import CheckpointStore, Records
from bertflow_jax.config import Config
from bertflow_jax.data.supervision import LabelledPairs
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.encoder.bert_config import COMPUTE_DTYPES
from bertflow_jax.encoder.embedding import make_embed_fn
from bertflow_jax.encoder.pretrained import Encoder
from bertflow_jax.jax_settings import random_key
from bertflow_jax.training.processes import restore_shared
from bertflow_jax.training.supervised_batches import PairBatch, PairBatches
from bertflow_jax.training.supervised_dev import BestDev
from bertflow_jax.training.supervised_flow import FlowStart, blank_flow, start_flow
from bertflow_jax.training.supervised_losses import init_head
from bertflow_jax.training.supervised_optimizer import (
    join_params,
    linear_schedule,
    make_encoder_optimizer,
    split_params,
)
from bertflow_jax.training.supervised_steps import (
    SupervisedState,
    TrainStep,
    make_train_step,
    supervised_part,
)

_log = logging.getLogger(__name__)
ENCODER_ITEM = "encoder_params"


class Experiment:
    """What a run is made of once its data are read."""

    def __init__(self, config: Config, encoder: SentenceEncoder, pairs: LabelledPairs, total: int):
        self._config, self._encoder, self._pairs, self._total = config, encoder, pairs, total
        section = config.supervision
        self._optimizer = make_encoder_optimizer(section, total, config.train.clip_norm)
        self.schedule: Callable[[int], Any] = linear_schedule(
            section.learning_rate, total, section.warmup
        )

    def blank(self, key: jax.Array) -> SupervisedState:
        """Return the state before the first step, its flow not yet initialised on data."""
        encoder = self._encoder.encoder
        # Copies: the first step gives these buffers away, and the encoder still needs its own.
        trained = jax.tree.map(jnp.array, split_params(encoder.params, encoder.pooling))
        params = {"encoder": trained}
        if supervised_part(self._config) == "siamese":
            params["head"] = init_head(key, self._encoder.dimension)
        flow, flow_opt_state = blank_flow(self._config, self._encoder.dimension)
        step = jnp.zeros((), jnp.int32)
        return SupervisedState(step, params, self._optimizer.init(params), flow, flow_opt_state)

    def start(self, batches: PairBatches) -> tuple[SupervisedState, FlowStart]:
        """Return the first state."""
        state = distributed.share_arrays(self.blank(random_key(self._config.seed)))
        if self._config.objective != "joint":
            return state, FlowStart()
        flow, flow_opt_state, start = start_flow(
            self._config,
            self._encoder,
            lambda i: (self._pairs.sentences1[i], self._pairs.sentences2[i]),
            len(self._pairs),
            batches.order,
        )
        flow, flow_opt_state = distributed.share_arrays((flow, flow_opt_state))
        start = start.shared(self._config)
        return dataclasses.replace(state, flow=flow, flow_opt_state=flow_opt_state), start

    def resume(
        self, store: CheckpointStore, check: Callable[[Records], None], best: BestDev | None
    ) -> tuple[SupervisedState, FlowStart, BestDev | None]:
        """Return the newest good state with what was recorded beside it."""
        wanted = checkpoint_arrays(jax.eval_shape(self.blank, random_key(0)))
        arrays, record = restore_shared(store, wanted, check)
        _log.info("resumed from step %d", record["step"])
        if record["planned_steps"] != self._total:
            _log.warning(
                "%d steps were planned, %d are now: the step size of the rest follows the new plan",
                record["planned_steps"],
                self._total,
            )
        if best is not None and record["best"] is not None:
            best = BestDev(**record["best"])
        params = {"encoder": arrays[ENCODER_ITEM]}
        if "head" in arrays:
            params["head"] = arrays["head"]
        state = SupervisedState(
            jnp.asarray(record["step"], jnp.int32),
            params,
            arrays["optimizer"],
            arrays.get("flow", {}),
            arrays.get("flow_optimizer", {}),
        )
        return state, FlowStart.from_record(record), best

    def compile(
        self, state: SupervisedState, start: FlowStart, batches: PairBatches
    ) -> tuple[Callable[[int], PairBatch], TrainStep, SupervisedState]:
        """Return (step number -> batch, the step, the state), all for the devices of the run."""
        encoder = self._encoder.encoder
        dtype = COMPUTE_DTYPES[encoder.dtype]
        mode, size = self._config.parallel, batches.order.batch_size
        mesh = parallel.data_mesh(size, self._config.train.accumulate)
        embed = make_embed_fn(
            encoder.config,
            encoder.pooling,
            dtype,
            encoder.normalize,
            self._config.encoder.remat,
            parallel.gather_over(mesh) if mode == "fsdp" else None,
        )
        noise = start.noise(self._encoder.dimension)
        step = make_train_step(self._config, embed, self._optimizer, noise)
        float32 = encoder.dtype == "float32"
        compiled = compiled_steps.compile_train_step(step, mesh, float32, mode, state)
        wanted = parallel.local_batch(size)

        def batch(step: int) -> PairBatch:
            return parallel.split_batch(batches.batch(step, wanted), mesh, mode)

        return batch, compiled, parallel.place(state, mesh, mode)

    def record(
        self, state: SupervisedState, start: FlowStart, best: BestDev | None
    ) -> dict[str, Any]:
        """Return what a checkpoint says of a state."""
        return {
            "step": int(state.step),
            "features": self._encoder.dimension,
            "planned_steps": self._total,
            "best": None if best is None else dataclasses.asdict(best),
            **start.to_record(self._config),
        }


def checkpoint_arrays(state: SupervisedState) -> dict[str, Any]:
    """Return the items of a checkpoint; what a run does not have is no item."""
    items = {
        ENCODER_ITEM: state.params["encoder"],
        "head": state.params.get("head", {}),
        "optimizer": state.opt_state,
        "flow": state.flow,
        "flow_optimizer": state.flow_opt_state,
    }
    return {name: tree for name, tree in items.items() if jax.tree.leaves(tree)}


def without_moments(state: SupervisedState) -> SupervisedState:
    """Return a state to score or to keep: Adam's moments, twice the parameters, are left out."""
    return dataclasses.replace(state, opt_state={}, flow_opt_state={})


def with_trained(encoder: Encoder, trained: Any) -> Encoder:
    """Return an encoder with the parameters of a checkpoint, its item `encoder_params`."""
    return dataclasses.replace(encoder, params=join_params(encoder.params, trained))


def trained_shapes(encoder: Encoder) -> Any:
    """Return the shapes of a checkpoint's item `encoder_params`."""
    return jax.eval_shape(lambda: split_params(encoder.params, encoder.pooling))
