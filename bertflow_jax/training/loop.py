"""The one training loop: chunks of compiled steps, metrics, held-out loss, saves."""

import dataclasses
import functools
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

import jax
import numpy as np

from bertflow_jax import compiled_steps, distributed, parallel
from bertflow_jax.config import Config, FlowConfig, TrainConfig
from bertflow_jax.errors import TrainingError
from bertflow_jax.interrupt import Interrupt
from bertflow_jax.progress import progress_bar
from bertflow_jax.scores import HELD_OUT, Score, is_better
from bertflow_jax.training.fit import FitData, example_order, flow_mode, planned_steps
from bertflow_jax.training.held_out import held_out_bits, is_evaluated, tell_end
from bertflow_jax.training.loss_course import LossCourse
from bertflow_jax.training.optimizer import make_optimizer
from bertflow_jax.training.order import ExampleOrder
from bertflow_jax.training.processes import check_together
from bertflow_jax.training.profile import Profiler
from bertflow_jax.training.steps import FitState, StepMetrics, make_run_steps

_log = logging.getLogger(__name__)
Save = Callable[[FitState, float | None], None]
RunChunk = Callable[[FitState, int, int], tuple[FitState, StepMetrics]]
CHUNK_STEPS = 128  # steps in one device call: long enough to hide the dispatch, short enough to see
CHUNK_SECONDS = 2.0  # of one device call at most, so that a request to stop is soon heard
_MOST_PADDED = 1 << 17  # rows: 200 MB at D = 384
_FEW = 50  # steps: a flow fitted on a few hundred sentences for less was worse than none


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


def run_fit(
    config: Config,
    data: FitData,
    state: FitState,
    *,
    sink: MetricsSink | None = None,
    profiler: Profiler | None = None,
    save: Save | None = None,
    finish: Callable[[], None] | None = None,
    best: tuple[int, Score] | None = None,
    progress: bool = False,
    make_runner: Callable[[ExampleOrder], RunChunk] | None = None,
) -> FitResult:
    """Make the steps from `state` to the planned end.

    Args:
      config: the experiment.
      data: what is fitted on.
      state: where to start.
      sink: where metrics go.
      profiler: traces the steps it is made for.
      save: takes a state and its held-out bits/dim (None without any); called at every
        `checkpoint.every` steps and at the end; on Ctrl-C, on SIGTERM, and when the loss stops
        being finite, it gets the last state known to be good.
      finish: returns when what was saved last is complete; called after the last save.
      best: the step with the lowest held-out loss so far, of a run that goes on.
      progress: show a progress bar.
      make_runner: gives what makes the steps; None takes the steps over cached embeddings.

    Raises:
      TrainingError: the loss or a parameter stopped being finite; names the step.
    """
    order = example_order(config.train, data, config.seed)
    if order.batch_size < config.train.batch_size:
        _log.warning(
            "batch_size=%d is cut to the %d examples", config.train.batch_size, order.batch_size
        )
    last = planned_steps(config.train, order)
    run_chunk = (
        _chunk_runner(config, data, order, state) if make_runner is None else make_runner(order)
    )
    of_state = held_out_bits(config, data)

    def evaluate(state: FitState) -> float | None:
        return distributed.share(lambda: of_state(state))

    course = LossCourse(config.train.learning_rate)
    done = saved = int(state.step)
    held_out: float | None = None
    evaluated = 0
    limit = 1  # the first chunk measures the rate
    if done >= last:
        _log.warning("nothing to do: step %d is reached, %d are asked for", done, last)
    if last < _FEW:
        _log.warning(
            "%d steps are few for a flow: more epochs, or a smaller batch_size, make more", last
        )
    bar = progress_bar(total=last, initial=done, unit="step", disable=not progress or done >= last)
    profiler = profiler or Profiler("", "")
    profiler.at(done)
    with bar, Interrupt(preemptible=save is not None, alone=not distributed.several()) as interrupt:
        try:
            while done < last:
                check_together(interrupt)
                ahead = profiler.stop_before(done) or last
                count = min(limit, ahead - done, _steps_to_next_stop(done, last, config))
                started = time.perf_counter()
                after, metrics = run_chunk(state, done, count)
                rate = count / (time.perf_counter() - started)
                limit = distributed.share(functools.partial(_chunk_limit, rate))
                course.check(metrics, after, done)
                state, done, held_out = after, done + count, None
                profiler.at(done)
                if is_evaluated(done, last, config):
                    held_out = evaluate(state)
                    evaluated += held_out is not None
                    if is_better(HELD_OUT, held_out, best and best[1].value):
                        best = done, Score(HELD_OUT, held_out)
                if sink is not None:
                    _report(sink, config.train.log_every, metrics, done, rate, held_out)
                if save is not None and (done == last or done % config.checkpoint.every == 0):
                    save(state, held_out)
                    saved = done
                bar.update(count)
                bar.set_postfix_str(f"{metrics.bits_per_dim[-1]:.4f} bits/dim, {rate:.0f} steps/s")
            if finish is not None:
                finish()
        except (KeyboardInterrupt, TrainingError) as error:
            if save is not None and done > saved:
                save(state, held_out)
            if finish is not None:
                finish()
            if save is not None and done:
                # A resumed fit has the same rate and comes to the same loss.
                way = (
                    "--overwrite starts anew"
                    if isinstance(error, TrainingError)
                    else "--resume goes on"
                )
                _log.warning("stopped after step %d, which is saved: %s", done, way)
            elif save is not None:
                _log.warning("stopped before the first step; nothing to save")
            raise
    tell_end(best, held_out, evaluated)
    return FitResult(state, evaluate(state) if held_out is None else held_out)


def _chunk_runner(config: Config, data: FitData, order: ExampleOrder, state: FitState) -> RunChunk:
    """Compile the steps; return run(state, first step, count) -> (state, metrics of `count`)."""
    mode = flow_mode(config)
    mesh = parallel.data_mesh(order.batch_size, config.train.accumulate)
    run_steps = _compiled_steps(
        dataclasses.astuple(config.flow),
        dataclasses.astuple(config.train),
        data.features,
        config.seed if config.flow.dropout > 0 else 0,  # nothing else draws from it
        mesh,
        mode,
    )
    embeddings = parallel.place(_in_few_shapes(data.embeddings), mesh, mode)
    wanted = parallel.local_batch(order.batch_size)

    def run(state: FitState, first: int, count: int) -> tuple[FitState, StepMetrics]:
        rows = np.zeros((CHUNK_STEPS, order.batch_size, data.rows.shape[1]), np.int32)
        if count:
            rows[:count] = data.rows[order.batches(first, count)]
        batch = parallel.split_batch(rows[:, wanted], mesh, mode, axis=1)
        placed = parallel.place(state, mesh, mode)
        after, history = jax.block_until_ready(run_steps(placed, embeddings, batch, count))
        return after, jax.tree.map(lambda metric: np.asarray(metric)[:count], history)

    run(state, 0, 0)  # no step: compiles, so that the first rate is not that of the compiler
    return run


# Fits of one shape share the program: several seeds, and the tasks of an evaluation.
@functools.lru_cache(maxsize=8)
def _compiled_steps(
    flow: tuple[Any, ...], train: tuple[Any, ...], features: int, seed: int, mesh: Any, mode: str
) -> Callable[..., Any]:
    section = TrainConfig(*train)
    steps = make_run_steps(
        FlowConfig(*flow), make_optimizer(section), features, seed, section.accumulate
    )
    return compiled_steps.compile_run_steps(steps, mesh, mode)


def _in_few_shapes(embeddings: np.ndarray) -> np.ndarray:
    """Return embeddings float32[U, D] with zeros below, U a power of two; large ones as they are.

    No row number reaches the zeros; the compiled program depends on U.
    """
    rows = 1 << max(0, len(embeddings) - 1).bit_length()
    if rows == len(embeddings) or rows > _MOST_PADDED:
        return embeddings
    return np.concatenate(
        [embeddings, np.zeros((rows - len(embeddings), embeddings.shape[1]), np.float32)]
    )


def _chunk_limit(rate: float) -> int:
    """Return how many steps a chunk may have at a rate in steps per second.

    Where a run is cut never changes its numbers, so that a measured rate may decide it.
    """
    return int(min(CHUNK_STEPS, max(1.0, rate * CHUNK_SECONDS)))


def _steps_to_next_stop(done: int, last: int, config: Config) -> int:
    """Return the steps to the next stop: a save, a held-out evaluation, the end, a full chunk."""
    rhythms = [config.checkpoint.every, config.train.eval_every]
    stops = [every - done % every for every in rhythms if every > 0]
    return min(CHUNK_STEPS, last - done, *stops)


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
