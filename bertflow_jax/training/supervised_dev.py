"""The dev metric of a supervised run: what it is, which direction is better, the best so far."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from bertflow_jax.config import Config
from bertflow_jax.data.supervision import LabelledPairs
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.evaluation.metrics import correlation, cosine_similarity
from bertflow_jax.postprocess.flow_functions import compiled_flow
from bertflow_jax.scores import is_better
from bertflow_jax.training.supervised_losses import regression_loss, siamese_logits, siamese_loss
from bertflow_jax.training.supervised_optimizer import join_params
from bertflow_jax.training.supervised_steps import (
    SupervisedState,
    supervised_part,
    uses_latent,
)


@dataclasses.dataclass(frozen=True)
class BestDev:
    """The best evaluation so far.

    Attributes:
      metric: of `scores.HIGHER_IS_BETTER`.
      start: of the encoder before the first step, None where undefined.
      value: the best of the evaluations after it, None before the first defined one.
      step: of the best evaluation.
      since: evaluations since then, in a row.
    """

    metric: str
    start: float | None = None
    value: float | None = None
    step: int | None = None
    since: int = 0

    def after(self, value: float | None, step: int) -> "BestDev":
        """Return the record after one more evaluation."""
        if is_better(self.metric, value, self.value):
            return dataclasses.replace(self, value=value, step=step, since=0)
        return dataclasses.replace(self, since=self.since + 1)

    def exhausted(self, patience: int) -> bool:
        """Return whether so many evaluations in a row were no better; patience 0 never ends."""
        return 0 < patience <= self.since


class DevSet:
    """A dev set and the function that scores a state on it, dropout off."""

    def __init__(self, config: Config, encoder: SentenceEncoder, pairs: LabelledPairs, metric: str):
        """Prepare a dev set.

        Args:
          config: the experiment.
          encoder: that training starts from.
          pairs: N dev pairs, classes or cosines as the metric needs them.
          metric: of `scores.HIGHER_IS_BETTER`.
        """
        self.metric = metric
        self._config, self._pairs, self._start = config, pairs, encoder.encoder
        self._loss = supervised_part(config)
        index: dict[str, int] = {}
        both = (pairs.sentences1, pairs.sentences2)
        self._rows = [[index.setdefault(text, len(index)) for text in side] for side in both]
        self._texts = list(index)
        self._latent = compiled_flow("forward", config.flow)

    def __call__(self, state: SupervisedState) -> float | None:
        """Return the metric of a state: Spearman's rho, a share or a loss; None if undefined.

        The state is one of `parallel.to_host`: the next step gives the buffers of its own away, and
        an encoder runs on all devices, the steps on those that divide the batch.
        """
        u, v = self._vectors(state)
        if self.metric == "spearman":
            return correlation(cosine_similarity(u, v), self._pairs.targets).spearman
        u, v, targets = jnp.asarray(u), jnp.asarray(v), jnp.asarray(self._pairs.targets)
        if self.metric == "accuracy":
            guesses = jnp.argmax(siamese_logits(state.params["head"], u, v), axis=-1)
            return float(np.mean(np.asarray(guesses) == self._pairs.targets))
        if self._loss == "siamese":
            return float(jnp.mean(siamese_loss(state.params["head"], u, v, targets)))
        return float(jnp.mean(regression_loss(u, v, targets)))

    def _vectors(self, state: SupervisedState) -> tuple[Any, Any]:
        params = join_params(self._start.params, state.params["encoder"])
        encoder = SentenceEncoder(dataclasses.replace(self._start, params=params))
        vectors = encoder.encode(
            self._texts,
            batch_size=self._config.encoder.batch_size or None,
            show_progress=False,
            on_overflow="ignore",
        )
        if uses_latent(self._config):
            vectors = np.asarray(self._latent(state.flow, vectors))
        return vectors[self._rows[0]], vectors[self._rows[1]]
