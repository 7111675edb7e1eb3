"""What a fit starts from: the rows, the plan, the first state."""

import dataclasses
import logging

import jax.numpy as jnp
import numpy as np

from bertflow_jax.config import Config, TrainConfig
from bertflow_jax.constant_dimensions import ordinary_dimensions
from bertflow_jax.embedding_checks import check_embeddings
from bertflow_jax.errors import ConfigError, TrainingError
from bertflow_jax.flow.glow import fit_variables, init_variables
from bertflow_jax.training.optimizer import make_optimizer
from bertflow_jax.training.order import ExampleOrder
from bertflow_jax.training.split import split_examples, too_few
from bertflow_jax.training.steps import FitState, flat_params

_log = logging.getLogger(__name__)
_INIT_SHARE = 0.1  # of a dimension's deviation that the rows of the initialisation must show
_SMALL = 1e-4  # below this deviation the 1e-6 of ActNorm and the optimiser's step are not small
_ENOUGH = 30  # rows; the deviation of fewer is often next to nothing in one dimension of many
_FAR = 100.0  # deviations from 0; the fixed decay of a shift of 1,000 undoes its fit


@dataclasses.dataclass(frozen=True)
class FitData:
    """Embeddings and the examples made of them.

    Attributes:
      embeddings: float32[U, D], one row a distinct sentence.
      rows: int32[N, S], the examples fitted on; S is 1 (sentences) or 2 (pairs).
      held_out: int32[M, S], the examples kept out; M may be 0.
      constant_dims: the dimensions that did not vary and were given noise.
    """

    embeddings: np.ndarray
    rows: np.ndarray
    held_out: np.ndarray
    constant_dims: tuple[int, ...] = ()

    @property
    def features(self) -> int:
        """D."""
        return self.embeddings.shape[1]


def spread_constant_dimensions(
    embeddings: np.ndarray, seed: int
) -> tuple[np.ndarray, tuple[int, ...]]:
    """Give dimensions that do not vary the spread of an ordinary one.

    A constant dimension has no density: its likelihood grows without bound as the flow scales it
    up, and so does its gain on unseen rows. Where `ordinary_dimensions` says constant,
    N(0, median^2) is added once; the fit then sees an ordinary independent dimension and keeps an
    ordinary gain there. Only the fit sees the noise.

    Args:
      embeddings: float32[N, D].
      seed: of the noise.

    Returns:
      float32[N, D] and the constant dimensions.

    Raises:
      TrainingError: no dimension varies.
    """
    std = np.asarray(np.std(embeddings, axis=0, dtype=np.float64))
    mean = np.asarray(np.mean(embeddings, axis=0, dtype=np.float64))
    ordinary, typical = ordinary_dimensions(mean, std)
    if not ordinary.any():
        raise TrainingError(
            f"all {len(embeddings)} embeddings are equal: a flow needs rows that differ"
        )
    if typical < _SMALL:
        _log.warning(
            "the embeddings vary by only %.1e: the fit is made for values of ordinary size; "
            "multiply them by a constant first",
            typical,
        )
    offset = float(np.max(np.abs(np.asarray(mean))[ordinary] / std[ordinary]))
    if offset > _FAR and len(embeddings) >= _ENOUGH:
        _log.warning(
            "the embeddings lie up to %.0f deviations from 0: weight decay keeps the flow from "
            "centring them; subtract their mean first",
            offset,
        )
    constant = np.flatnonzero(~ordinary)
    if constant.size == 0:
        return embeddings, ()
    _log.info("%d constant dimension(s) get noise of deviation %.3g", constant.size, typical)
    noise = np.random.default_rng([seed, 1]).normal(0.0, typical, (len(embeddings), constant.size))
    spread = embeddings.copy()
    spread[:, constant] += noise.astype(np.float32)
    return spread, tuple(int(c) for c in constant)


def prepare_data(
    embeddings: np.ndarray,
    rows: np.ndarray,
    *,
    held_out: float,
    seed: int,
    alike: np.ndarray | None = None,
) -> FitData:
    """Check the embeddings, spread constant dimensions and set examples aside.

    Args:
      embeddings: float[U, D].
      rows: int32[N, S].
      held_out: share of the N examples to keep out of the fit.
      seed: of the noise and of the choice.
      alike: as `split_examples`.

    Raises:
      InputError: embeddings of a wrong shape, or not finite.
      TrainingError: fewer than two rows, or all rows equal.
    """
    embeddings = check_embeddings(embeddings)
    if len(embeddings) < 2:
        raise TrainingError(
            f"a flow needs at least two different sentences to fit on, got {len(embeddings)}"
        )
    spread, constant = spread_constant_dimensions(embeddings, seed)
    fitted, kept_out = split_examples(rows, held_out, seed, alike)
    if len(kept_out) and len(np.unique(embeddings[fitted.reshape(-1)], axis=0)) < 2:
        raise too_few(held_out)
    return FitData(spread, fitted, kept_out, constant)


def flow_mode(config: Config) -> str:
    """Return how the steps of a flow are compiled: of `config.PARALLEL`; a flow is not split."""
    return "jit" if config.parallel == "fsdp" else config.parallel


def example_order(train: TrainConfig, data: FitData, seed: int) -> ExampleOrder:
    """Return the order of the examples; a batch is never larger than the data."""
    return ExampleOrder(len(data.rows), min(train.batch_size, len(data.rows)), seed)


def planned_steps(train: TrainConfig, order: ExampleOrder) -> int:
    """Return the steps of the whole fit.

    Raises:
      ConfigError: more steps than the step counter (int32) can count.
    """
    steps = train.steps or order.steps_for(train.epochs)
    if steps >= 2**31:
        raise ConfigError(f"train.epochs={train.epochs} makes {steps} steps; at most 2**31 - 1")
    return steps


def blank_state(config: Config, features: int) -> FitState:
    """Return the state of a flow over D = features channels that has seen no data.

    Raises:
      ConfigError: too few dimensions for the flow's levels.
    """
    variables = init_variables(config.flow, features, config.seed)
    opt_state = make_optimizer(config.train).init(flat_params(variables))
    return FitState(jnp.zeros((), jnp.int32), variables, opt_state)


def initial_state(config: Config, data: FitData, first: np.ndarray | None = None) -> FitState:
    """Return the state before the first step, ActNorms initialised as the config says.

    Args:
      config: the experiment.
      data: what is fitted on.
      first: `init_sentences(config, data)` where it is known already.

    Raises:
      ConfigError: the embeddings have too few dimensions for the flow's levels.
    """
    state = blank_state(config, data.features)
    if config.flow.actnorm_init != "data":
        return state
    rows = init_sentences(config, data) if first is None else first
    fitted = fit_variables(config.flow, state.variables, jnp.asarray(data.embeddings[rows]))
    return dataclasses.replace(state, variables=fitted)


def init_sentences(config: Config, data: FitData) -> np.ndarray:
    """Return the rows of the embeddings that the data-dependent initialisation looks at, int[R].

    The sentences of the first batch, or the first `train.init_rows` sentences in the fit's order.
    A batch in which some dimension hardly varies (few rows, equal rows, sparse dimensions) would
    scale that dimension up beyond all measure: the rows are doubled until none does.
    """
    order = example_order(config.train, data, config.seed)
    per_example = data.rows.shape[1]
    epoch = data.rows[ExampleOrder(len(data.rows), len(data.rows), config.seed).batches(0, 1)[0]]
    sentences = epoch.reshape(-1)
    wanted = config.train.init_rows or max(2, order.batch_size * per_example)
    spread = np.std(data.embeddings[data.rows.reshape(-1)], axis=0)
    while wanted < len(sentences):
        seen = np.std(data.embeddings[sentences[:wanted]], axis=0)
        if (seen >= _INIT_SHARE * spread).all():
            break
        wanted *= 2
        _log.info("ActNorm initialisation looks at %d rows: fewer do not vary enough", wanted)
    return sentences[:wanted]
