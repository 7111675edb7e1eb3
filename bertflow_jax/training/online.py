"""Fitting a flow with BERT inside the step, its dropout on: what the released code does.

Every time a sentence comes by, its embedding is another one. `cached`, the default, computes the
embeddings once without dropout, and is faster by far.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from bertflow_jax import compiled_steps, parallel
from bertflow_jax.config import Config
from bertflow_jax.data.texts import alike
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.encoder.bert_config import COMPUTE_DTYPES
from bertflow_jax.encoder.embedding import EmbedFn, make_embed_fn
from bertflow_jax.jax_settings import random_key
from bertflow_jax.training.accumulate import accumulated
from bertflow_jax.training.fit import FitData, example_order, flow_mode
from bertflow_jax.training.losses import BitsPerDim
from bertflow_jax.training.optimizer import make_optimizer
from bertflow_jax.training.order import ExampleOrder
from bertflow_jax.training.split import split_examples
from bertflow_jax.training.steps import (
    FitState,
    StepMetrics,
    constants_of,
    make_gradient,
    spread,
    update,
)
from bertflow_jax.training.supervised_batches import TokenTable, padded, padded_length
from bertflow_jax.training.supervised_flow import FlowStart, start_flow

OnlineStep = Callable[[FitState, Any, jax.Array, jax.Array], tuple[FitState, StepMetrics]]


@dataclasses.dataclass(frozen=True)
class OnlineText:
    """The text of a fit as token ids.

    Attributes:
      sentences: U distinct texts.
      tokens: their ids.
      data: `rows` are numbers of sentences; `embeddings` are those of the held-out ones alone.
      encoder: that the flow is fitted on.
    """

    sentences: list[str]
    tokens: TokenTable
    data: FitData
    encoder: SentenceEncoder

    @classmethod
    def build(
        cls,
        config: Config,
        encoder: SentenceEncoder,
        sentences: list[str],
        rows: NDArray[np.int32],
    ) -> "OnlineText":
        """Tokenize the text, as `TextCorpus.numbered` gives it; set examples aside and embed those.

        Raises:
          TrainingError: fewer than two different sentences are left to fit on.
        """
        fitted, kept_out = split_examples(rows, config.data.held_out, config.seed, alike(sentences))
        texts = [sentences[row] for row in kept_out.reshape(-1)]
        embeddings = encoder.encode(texts, on_overflow="ignore", show_progress=False)
        held_out = np.arange(len(texts), dtype=np.int32).reshape(kept_out.shape)
        tokens = TokenTable.build(sentences, encoder.encoder.tokenizer)
        return cls(sentences, tokens, FitData(embeddings, fitted, held_out), encoder)

    def start(self, config: Config) -> tuple[FitState, FlowStart]:
        """Return the state before the first step; see `supervised_flow.start_flow`."""
        rows = self.data.rows
        variables, opt_state, start = start_flow(
            config,
            self.encoder,
            lambda example: [self.sentences[row] for row in rows[example]],
            len(rows),
            example_order(config.train, self.data, config.seed),
        )
        return FitState(jnp.zeros((), jnp.int32), variables, opt_state), start

    def with_noise(self, config: Config, start: FlowStart) -> FitData:
        """Return the data, constant dimensions of the held-out embeddings spread as in the fit."""
        noise = start.noise(self.data.features)
        if noise is None:
            return self.data
        drawn = np.random.default_rng([config.seed, 1]).normal(size=self.data.embeddings.shape)
        spread = self.data.embeddings + (noise * drawn).astype(np.float32)
        return dataclasses.replace(self.data, embeddings=spread, constant_dims=start.constant_dims)

    def batch(
        self, rows: NDArray[np.int32], wanted: slice
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return ids and mask int32[b, S, T] of the wanted ones of examples int32[B, S].

        T is that of the whole batch.
        """
        tokenizer = self.encoder.encoder.tokenizer
        longest = int(self.tokens.lengths[rows].max())
        ids = [[self.tokens[row] for row in example] for example in rows[wanted]]
        return padded(ids, tokenizer.pad_id, padded_length(longest, tokenizer.max_length))


def make_online_step(
    config: Config,
    embed: EmbedFn,
    optimizer: optax.GradientTransformation,
    features: int,
    noise: NDArray[np.float32] | None,
) -> OnlineStep:
    """Return step(state, encoder parameters, ids int32[B, S, T], mask) -> (state, metrics).

    Keys are folded from seed and step: 0 is the encoder's dropout, 1 the flow's, 2 the noise on
    constant dimensions (`noise` float32[D], None for none). No gradient reaches the encoder.
    """
    gradient = make_gradient(config.flow, features)

    def step(
        state: FitState, encoder: Any, input_ids: jax.Array, attention_mask: jax.Array
    ) -> tuple[FitState, StepMetrics]:
        constants = constants_of(state.variables)

        def compute(batch: Any, key: Any) -> tuple[jax.Array, BitsPerDim]:
            examples, texts, tokens = batch[0].shape
            flat = [x.reshape(-1, tokens) for x in batch]
            u = spread(embed(encoder, *flat, jax.random.fold_in(key, 0)), noise, key)
            dropout_key = jax.random.fold_in(key, 1) if config.flow.dropout > 0 else None
            x = u.reshape(examples, texts, features)
            return gradient(state.variables["params"], constants, x, dropout_key)

        key = jax.random.fold_in(random_key(config.seed), state.step)
        batch = (input_ids, attention_mask)
        direction = accumulated(compute, batch, config.train.accumulate, key)
        params, unravel = ravel_pytree(state.variables["params"])
        params, opt_state, metrics = update(optimizer, params, state.opt_state, *direction)
        variables = {**constants, "params": unravel(params)}
        return FitState(state.step + 1, variables, opt_state), metrics

    return step


def online_runner(
    config: Config, text: OnlineText, start: FlowStart, order: ExampleOrder
) -> Callable[[FitState, int, int], tuple[FitState, StepMetrics]]:
    """Return run(state, first step, count) -> (state, metrics of `count` steps), compiled."""
    encoder, features = text.encoder.encoder, text.data.features
    dtype = COMPUTE_DTYPES[encoder.dtype]
    remat = config.encoder.remat
    embed = make_embed_fn(encoder.config, encoder.pooling, dtype, encoder.normalize, remat)
    step = make_online_step(
        config, embed, make_optimizer(config.train), features, start.noise(features)
    )
    mode = flow_mode(config)
    mesh = parallel.data_mesh(order.batch_size, config.train.accumulate)
    compiled = compiled_steps.compile_online_step(step, mesh, encoder.dtype == "float32", mode)
    params = parallel.place(encoder.params, mesh, mode)
    wanted = parallel.local_batch(order.batch_size)

    def run(state: FitState, first: int, count: int) -> tuple[FitState, StepMetrics]:
        history = []
        state = parallel.place(state, mesh, mode)
        for rows in text.data.rows[order.batches(first, count)]:
            batch = parallel.split_batch(text.batch(rows, wanted), mesh, mode)
            state, metrics = compiled(state, params, *batch)
            history.append(metrics)
        return state, jax.tree.map(lambda *values: np.asarray(values), *history)

    return run
