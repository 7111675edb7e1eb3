"""The one training loop: chunks of compiled steps, metrics, held-out loss, saves."""

import dataclasses
import time
from collections.abc import Callable
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from bertflow_jax import parallel
from bertflow_jax.config import Config
from bertflow_jax.errors import TrainingError
from bertflow_jax.flow.glow import Glow
from bertflow_jax.training.fit import FitData, example_order, planned_steps
from bertflow_jax.training.losses import bits_per_dim
from bertflow_jax.training.optimizer import make_optimizer
from bertflow_jax.training.steps import FitState, StepMetrics, make_run_steps, make_step

CHUNK_STEPS = 128  # steps in one device call: long enough to hide the dispatch, short enough to see
_HELD_OUT_ROWS = 4096


class MetricsSink(Protocol):
    """Where metrics go."""

    def write(self, step: int, values: dict[str, float]) -> None:
        """Take the metrics of one step."""


@dataclasses.dataclass(frozen=True)
class FitResult:
    """The end of a fit.

    Attributes:
      state: after the last step.
      held_out: bits/dim of the held-out examples, None without any.
    """

    state: FitState
    held_out: float | None


def held_out_bits(config: Config, data: FitData) -> Callable[[FitState], float | None]:
    """Return a function from a state to the mean bits/dim of the held-out sentences."""
    glow = Glow(data.features, config.flow)
    sentences = data.held_out.reshape(-1)

    @jax.jit
    def total(variables: dict, x: jax.Array) -> jax.Array:
        return jnp.sum(bits_per_dim(*glow.apply(variables, x)).total)

    def evaluate(state: FitState) -> float | None:
        if not len(sentences):
            return None
        parts = [
            float(total(state.variables, data.embeddings[sentences[i : i + _HELD_OUT_ROWS]]))
            for i in range(0, len(sentences), _HELD_OUT_ROWS)
        ]
        return sum(parts) / len(sentences)

    return evaluate


def run_fit(
    config: Config,
    data: FitData,
    state: FitState,
    *,
    sink: MetricsSink | None = None,
    save: Callable[[FitState], None] | None = None,
    progress: bool = False,
) -> FitResult:
    """Make the steps from `state` to the planned end.

    `save` is called at every `checkpoint.every` steps, at the end and on Ctrl-C, never with a state
    that is not finite.

    Raises:
      TrainingError: the loss or a parameter stopped being finite; names the step.
    """
    order = example_order(config.train, data, config.seed)
    last = planned_steps(config.train, order)
    step_fn = make_step(config.flow, make_optimizer(config.train), data.features, config.seed)
    mesh = parallel.data_mesh(order.batch_size)
    run_steps = parallel.compile_run_steps(make_run_steps(step_fn), mesh)
    embeddings = parallel.replicate(data.embeddings, mesh)
    state = parallel.replicate(state, mesh)
    evaluate = held_out_bits(config, data)
    done, held_out = int(state.step), None
    with tqdm(total=last, initial=done, unit="step", disable=not progress) as bar:
        while done < last:
            count = _chunk(done, last, config)
            rows = np.zeros((CHUNK_STEPS, order.batch_size, data.rows.shape[1]), np.int32)
            rows[:count] = data.rows[order.batches(done, count)]
            started = time.perf_counter()
            try:
                after, history = jax.block_until_ready(run_steps(state, embeddings, rows, count))
            except KeyboardInterrupt:
                if save is not None and done:
                    save(state)
                raise
            rate = count / (time.perf_counter() - started)
            metrics = jax.tree.map(lambda m, n=count: np.asarray(m)[:n], history)
            _check_finite(metrics, after, done)
            state, done = after, done + count
            due = done == last or done % (config.train.eval_every or config.checkpoint.every) == 0
            held_out = evaluate(state) if due else None
            if sink is not None:
                _report(sink, config.train.log_every, metrics, done, rate, held_out)
            if save is not None and (done == last or done % config.checkpoint.every == 0):
                save(state)
            bar.update(count)
            bar.set_postfix_str(f"{metrics.bits_per_dim[-1]:.4f} bits/dim, {rate:.0f} steps/s")
    return FitResult(state, evaluate(state) if held_out is None else held_out)


def _chunk(done: int, last: int, config: Config) -> int:
    """Return the steps to the next stop: a save, a held-out evaluation, the end, a full chunk."""
    rhythms = [config.checkpoint.every, config.train.eval_every]
    stops = [every - done % every for every in rhythms if every > 0]
    return min(CHUNK_STEPS, last - done, *stops)


def _check_finite(metrics: StepMetrics, state: FitState, done: int) -> None:
    finite = np.isfinite(metrics.bits_per_dim) & np.isfinite(metrics.grad_norm)
    if not finite.all():
        bad = int(np.argmin(finite))
        raise TrainingError(
            f"the loss is not finite at step {done + bad + 1} "
            f"(bits/dim {metrics.bits_per_dim[bad]}, gradient norm {metrics.grad_norm[bad]}); "
            "stopped, earlier checkpoints are kept. Lower train.learning_rate, or look for "
            "outliers in the embeddings"
        )
    params = jax.tree.leaves(state.variables["params"])
    if not all(bool(jnp.isfinite(p).all()) for p in params):
        raise TrainingError(
            f"a parameter is not finite after step {done + len(finite)}; stopped, earlier "
            "checkpoints are kept. Lower train.learning_rate"
        )


def _report(
    sink: MetricsSink,
    log_every: int,
    metrics: StepMetrics,
    done: int,
    rate: float,
    held_out: float | None,
) -> None:
    """Write every `log_every`-th step of a chunk that ended at `done`, and a held-out loss."""
    count = len(metrics.bits_per_dim)
    for i, step in enumerate(range(done - count + 1, done + 1)):
        evaluated = step == done and held_out is not None
        if step % log_every and not evaluated:
            continue
        values = {
            "bits_per_dim": float(metrics.bits_per_dim[i]),
            "prior_bits_per_dim": float(metrics.prior[i]),
            "log_det_bits_per_dim": float(metrics.log_det[i]),
            "grad_norm": float(metrics.grad_norm[i]),
            "steps_per_second": rate,
        }
        if evaluated and held_out is not None:
            values["held_out_bits_per_dim"] = held_out
        sink.write(step, values)
