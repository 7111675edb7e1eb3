"""A flow before its first step where embeddings are not all computed beforehand."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bertflow_jax import distributed
from bertflow_jax.config import Config
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.training.fit import blank_state, init_sentences, initial_state, prepare_data
from bertflow_jax.training.order import ExampleOrder

_ROWS = 4096  # sentences, at most, that the initialisation may look at


@dataclasses.dataclass(frozen=True)
class FlowStart:
    """How a flow was initialised, as its checkpoints say.

    Attributes:
      rows: sentences the ActNorms were set from; 0 for another initialisation.
      constant_dims: dimensions that did not vary; the flow's loss adds noise there.
      deviation: of that noise.
    """

    rows: int = 0
    constant_dims: tuple[int, ...] = ()
    deviation: float = 0.0

    def noise(self, features: int) -> np.ndarray | None:
        """Return the noise's deviation by dimension, float32[E]; None for none."""
        if not self.constant_dims:
            return None
        noise = np.zeros(features, np.float32)
        noise[list(self.constant_dims)] = self.deviation
        return noise

    def to_record(self, config: Config) -> dict[str, Any]:
        """Return the fields of a checkpoint's state."""
        return {
            "actnorm_init": {"mode": config.flow.actnorm_init, "rows": self.rows},
            "constant_dims": list(self.constant_dims),
            "constant_deviation": self.deviation,
        }

    def shared(self, config: Config) -> "FlowStart":
        """Return the first process's."""
        return FlowStart.from_record(distributed.share(lambda: self.to_record(config)))

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "FlowStart":
        """Read the fields back."""
        return cls(
            record["actnorm_init"]["rows"],
            tuple(record["constant_dims"]),
            record.get("constant_deviation", 0.0),  # not in checkpoints of older versions
        )


def blank_flow(config: Config, features: int) -> tuple[dict[str, Any], Any]:
    """Return (variables, optimiser state) of a flow that has seen no data; ({}, {}) without one."""
    if config.objective != "joint":
        return {}, {}
    state = blank_state(config, features)
    return state.variables, state.opt_state


def start_flow(
    config: Config,
    encoder: SentenceEncoder,
    example: Callable[[int], Sequence[str]],
    count: int,
    order: ExampleOrder,
) -> tuple[dict[str, Any], Any, FlowStart]:
    """Return (variables, optimiser state, start), ActNorms set as `flow.actnorm_init` says.

    Looks at the untrained encoder's embeddings of the first examples of the run, as the fit of a
    flow alone does, and finds the dimensions that do not vary.

    Args:
      config: the experiment.
      encoder: before its training.
      example: gives the sentences of an example by its number.
      count: of the examples; numbers of the order above it are copies of them.
      order: which examples the run sees first.

    Raises:
      ConfigError: the embeddings have too few dimensions for the flow's levels.
      TrainingError: the first examples' embeddings are all equal.
    """
    steps = -(-min(_ROWS // 2, count) // order.batch_size)
    seen = np.unique(order.batches(0, steps).reshape(-1) % count)
    numbers: dict[str, int] = {}
    rows = [[numbers.setdefault(text, len(numbers)) for text in example(int(i))] for i in seen]
    embeddings = encoder.encode(list(numbers), on_overflow="ignore", show_progress=False)
    data = prepare_data(embeddings, np.asarray(rows, np.int32), held_out=0.0, seed=config.seed)
    first = init_sentences(config, data) if config.flow.actnorm_init == "data" else None
    state = initial_state(config, data, first)
    constant = list(data.constant_dims)
    deviation = float(np.std(data.embeddings[:, constant])) if constant else 0.0
    start = FlowStart(0 if first is None else len(first), data.constant_dims, deviation)
    return state.variables, state.opt_state, start
