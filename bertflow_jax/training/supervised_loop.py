"""The loop of a supervised run: steps, metrics, dev evaluations, saves, early end."""

import dataclasses
import logging
import math
import time
from collections.abc import Callable

import jax
import numpy as np

from bertflow_jax import distributed
from bertflow_jax.config import Config
from bertflow_jax.errors import TrainingError
from bertflow_jax.interrupt import Interrupt
from bertflow_jax.progress import progress_bar
from bertflow_jax.scores import is_better
from bertflow_jax.training.fit import planned_steps
from bertflow_jax.training.loop import MetricsSink
from bertflow_jax.training.order import ExampleOrder
from bertflow_jax.training.processes import check_together
from bertflow_jax.training.profile import Profiler
from bertflow_jax.training.supervised_batches import PairBatch
from bertflow_jax.training.supervised_dev import BestDev
from bertflow_jax.training.supervised_steps import (
    SupervisedMetrics,
    SupervisedState,
    TrainStep,
)

_log = logging.getLogger(__name__)
Evaluate = Callable[[SupervisedState], float | None]
Save = Callable[[SupervisedState, BestDev | None, float | None], None]


@dataclasses.dataclass(frozen=True)
class LoopResult:
    """The end of the loop.

    Attributes:
      state: after the last step.
      best: the dev record, None without a dev set.
    """

    state: SupervisedState
    best: BestDev | None


def run_supervised(
    config: Config,
    order: ExampleOrder,
    make_batch: Callable[[int], PairBatch],
    step: TrainStep,
    state: SupervisedState,
    *,
    evaluate: Evaluate | None = None,
    best: BestDev | None = None,
    schedule: Callable[[int], float] | None = None,
    sink: MetricsSink | None = None,
    profiler: Profiler | None = None,
    save: Save | None = None,
    finish: Callable[[], None] | None = None,
    progress: bool = False,
) -> LoopResult:
    """Make the steps from `state` to the planned end, or until patience is exhausted.

    Args:
      config: the experiment.
      order: of its examples.
      make_batch: step -> the batch of the step after so many.
      step: the compiled step; it takes the buffers of the state it is given.
      state: where to start.
      evaluate: the dev metric of a state; called every `train.eval_every` steps (0: at every
        save) and at the end, and once before the first step.
      best: the dev record so far; needed with `evaluate`.
      schedule: step -> step size, for the metrics.
      sink: where metrics go.
      profiler: traces the steps it is made for.
      save: takes a state, the dev record and the dev metric of that state (None where it was not
        evaluated); called at every `checkpoint.every` steps, after an evaluation better than all
        before, at the end, on Ctrl-C or SIGTERM and when the loss stops being finite (with the last
        good state).
      finish: returns when what was saved last is complete; called after the last save.
      progress: show a progress bar.

    Raises:
      TrainingError: the loss stopped being finite; names the step.
    """
    last = planned_steps(config.train, order)
    done = saved = int(state.step)
    meter = _Meter(config, sink, schedule, order.batch_size)
    rhythm = config.train.eval_every or config.checkpoint.every
    patience = config.supervision.patience
    if evaluate is not None and best is not None and done == 0:
        best = dataclasses.replace(best, start=evaluate(state))
        if sink is not None:
            sink.write(0, _dev_values(best.metric, best.start))
    if done >= last:
        _log.warning("nothing to do: step %d is reached, %d are asked for", done, last)
    bar = progress_bar(total=last, initial=done, unit="step", disable=not progress or done >= last)
    value: float | None = None
    profiler = profiler or Profiler("", "")
    profiler.at(done)
    with bar, Interrupt(preemptible=save is not None, alone=not distributed.several()) as interrupt:
        try:
            batch = make_batch(done)
            while done < last and not (best and best.exhausted(patience)):
                check_together(interrupt)
                started = time.perf_counter()
                state, pending = step(state, batch)
                # The device is still at work: the next batch is made meanwhile.
                batch = make_batch(done + 1)
                metrics = jax.device_get(pending)
                seconds = time.perf_counter() - started
                _check_finite(metrics, done + 1)
                done, value = done + 1, None
                profiler.at(done)
                dev: dict[str, float] = {}
                improved = False
                if evaluate is not None and best and (done == last or done % rhythm == 0):
                    value = evaluate(state)
                    best = best.after(value, done)
                    improved, dev = best.step == done, _dev_values(best.metric, value)
                meter.report(done, metrics, seconds, dev)
                ending = done == last or (best and best.exhausted(patience))
                if save is not None and (ending or improved or done % config.checkpoint.every == 0):
                    save(state, best, value)
                    saved = done
                bar.update()
                bar.set_postfix_str(meter.text(metrics, best))
            if finish is not None:
                finish()
        except (KeyboardInterrupt, TrainingError):
            # After a second Ctrl-C the state may be one step ahead of `done`.
            made = int(state.step)
            if save is not None and made > saved:
                save(state, best, value if made == done else None)
            if finish is not None:
                finish()
            if save is not None and made:
                _log.warning("stopped after step %d, which is saved: --resume goes on", made)
            elif save is not None:
                _log.warning("stopped before the first step; nothing to save")
            raise
    _tell_end(best, done, last)
    return LoopResult(state, best)


class _Meter:
    """Writes one line of metrics for every `train.log_every`-th step and every evaluation."""

    def __init__(
        self,
        config: Config,
        sink: MetricsSink | None,
        schedule: Callable[[int], float] | None,
        batch_size: int,
    ):
        self._every, self._joint = config.train.log_every, config.objective == "joint"
        self._sink, self._schedule, self._batch_size = sink, schedule, batch_size
        self._seconds, self._steps = 0.0, 0

    def report(
        self, step: int, metrics: SupervisedMetrics, seconds: float, dev: dict[str, float]
    ) -> None:
        """Take a step that took so many seconds, and the dev metric after it if there is one."""
        self._seconds, self._steps = self._seconds + seconds, self._steps + 1
        if self._sink is None or (step % self._every and not dev):
            return
        values = {
            "loss": float(metrics.loss),
            "supervised_loss": float(metrics.supervised),
            "grad_norm": float(metrics.grad_norm),
            "pairs_per_second": self._steps * self._batch_size / self._seconds,
        }
        if self._schedule is not None:
            values["learning_rate"] = float(self._schedule(step - 1))
        if self._joint:
            values["bits_per_dim"] = float(metrics.bits_per_dim)
            values["flow_grad_norm"] = float(metrics.flow_grad_norm)
        self._sink.write(step, {**values, **dev})
        self._seconds, self._steps = 0.0, 0

    def text(self, metrics: SupervisedMetrics, best: BestDev | None) -> str:
        """Return what stands beside the progress bar."""
        dev = "" if best is None or best.value is None else f", dev {best.value:.4f}"
        flow = f", {metrics.bits_per_dim:.3f} bits/dim" if self._joint else ""
        return f"loss {metrics.loss:.4f}{flow}{dev}"


def _dev_values(metric: str, value: float | None) -> dict[str, float]:
    """Return the dev metric for the metrics file; an undefined one has no place in it."""
    return {f"dev_{metric}": value} if value is not None and math.isfinite(value) else {}


def _check_finite(metrics: SupervisedMetrics, step: int) -> None:
    if not np.all(metrics.finite):
        raise TrainingError(
            f"the loss is not finite at step {step} (loss {metrics.loss}, gradient norm "
            f"{metrics.grad_norm}, flow {metrics.bits_per_dim} bits/dim, gradient norm "
            f"{metrics.flow_grad_norm}); stopped, the state before it is kept. Lower "
            "supervision.learning_rate, or train.learning_rate for the flow"
        )


def _tell_end(best: BestDev | None, done: int, last: int) -> None:
    if best is None:
        return
    if done < last:
        _log.info("ended early at step %d of %d: %d evaluations no better", done, last, best.since)
    if best.step is None:
        _log.warning("the dev %s was never defined: the last encoder is kept", best.metric)
    elif not is_better(best.metric, best.value, best.start):
        _log.warning(
            "the best dev %s (%s, step %s) is no better than before training (%s)",
            best.metric,
            best.value,
            best.step,
            best.start,
        )
