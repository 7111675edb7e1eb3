"""What the losses of a fit say while it runs: that it must end, or that its steps are too large."""

import logging

import jax
import jax.numpy as jnp
import numpy as np

from bertflow_jax.errors import TrainingError
from bertflow_jax.training.steps import FitState, StepMetrics

_log = logging.getLogger(__name__)
_RISE = 1.0  # bits/dim above the first loss; batches of one fit differ by a tenth of that


class LossCourse:
    """Looks at every chunk of steps of a fit."""

    def __init__(self, learning_rate: float):
        """Take what the messages name."""
        self._rate = learning_rate
        self._first: tuple[int, float] | None = None
        self._told = False

    def check(self, metrics: StepMetrics, state: FitState, done: int) -> None:
        """Look at the losses of the steps after `done` and at the state that they end with.

        Warns, once, where a loss is far above the first one: such a fit may come back, to a worse
        end than one with smaller steps.

        Raises:
          TrainingError: a loss, a gradient or a parameter is not finite; names the step.
        """
        finite = np.isfinite(metrics.bits_per_dim) & np.isfinite(metrics.grad_norm)
        if not finite.all():
            bad = int(np.argmin(finite))
            raise TrainingError(
                f"the loss is not finite at step {done + bad + 1} "
                f"(bits/dim {metrics.bits_per_dim[bad]}, gradient norm {metrics.grad_norm[bad]}); "
                "stopped, no state from here on is saved. Lower train.learning_rate, or look for "
                "outliers in the embeddings"
            )
        params = jax.tree.leaves(state.variables["params"])
        if not all(bool(jnp.isfinite(p).all()) for p in params):
            raise TrainingError(
                f"a parameter is not finite after step {done + len(finite)}; stopped, no state "
                "from here on is saved. Lower train.learning_rate"
            )
        self._tell_rise(np.asarray(metrics.bits_per_dim), done)

    def _tell_rise(self, losses: np.ndarray, done: int) -> None:
        if self._told or not len(losses):
            return
        self._first = self._first or (done + 1, float(losses[0]))
        step, first = self._first
        highest = int(np.argmax(losses))
        if losses[highest] > first + _RISE:
            self._told = True
            _log.warning(
                "bits/dim rose from %.4f at step %d to %.4f at step %d: train.learning_rate=%g is "
                "too large for this flow; try a tenth of it",
                first,
                step,
                losses[highest],
                done + highest + 1,
                self._rate,
            )
