"""The held-out loss of a fit: when it is computed, and what its course says at the end."""

import dataclasses
import functools
import logging
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from bertflow_jax import parallel
from bertflow_jax.config import Config, FlowConfig
from bertflow_jax.flow.glow import Glow
from bertflow_jax.scores import Score
from bertflow_jax.training.fit import FitData
from bertflow_jax.training.losses import bits_per_dim
from bertflow_jax.training.steps import FitState

_log = logging.getLogger(__name__)
_HELD_OUT_ROWS = 4096
_RISE = 0.01  # bits/dim above the lowest held-out loss that are more than noise


def held_out_bits(config: Config, data: FitData) -> Callable[[FitState], float | None]:
    """Return a function from a state to the mean bits/dim of the held-out sentences."""
    total = _total(dataclasses.astuple(config.flow), data.features)
    sentences = data.held_out.reshape(-1)

    def evaluate(state: FitState) -> float | None:
        if not len(sentences):
            return None
        variables = parallel.to_host(state.variables)
        parts = [
            float(total(variables, data.embeddings[sentences[i : i + _HELD_OUT_ROWS]]))
            for i in range(0, len(sentences), _HELD_OUT_ROWS)
        ]
        return sum(parts) / len(sentences)

    return evaluate


# Fits of one shape share the program.
@functools.lru_cache(maxsize=8)
def _total(flow: tuple[Any, ...], features: int) -> Callable[[Any, Any], jax.Array]:
    glow = Glow(features, FlowConfig(*flow))

    @jax.jit
    def total(variables: dict, x: jax.Array) -> jax.Array:
        return jnp.sum(bits_per_dim(*glow.apply(variables, x)).total)

    return total


def is_evaluated(done: int, last: int, config: Config) -> bool:
    """Return whether the held-out loss is computed after a step: a save needs it as its score."""
    rhythm = config.train.eval_every or config.checkpoint.every
    scored = config.checkpoint.keep_best > 0 and done % config.checkpoint.every == 0
    return done == last or done % rhythm == 0 or scored


def tell_end(best: tuple[int, Score] | None, held_out: float | None, evaluated: int) -> None:
    """Warn where another step than the last one fits unseen text better, or none is known to."""
    if best is None:
        if evaluated:
            _log.warning("the held-out loss was never finite: no step is known to be the best")
        return
    step, lowest = best[0], best[1].value
    # A NaN at the end is more than a rise.
    if lowest is not None and held_out is not None and not held_out <= lowest + _RISE:
        _log.warning(
            "the held-out loss was lowest at step %d (%.4f bits/dim) and is %.4f now: fewer steps "
            "fit unseen text better",
            step,
            lowest,
            held_out,
        )
