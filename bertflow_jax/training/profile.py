"""A profiler trace of some steps of a run, for TensorBoard's profile page.

A config says `profile_steps="10:15"`: the trace starts once 10 steps are made and ends once 15 are,
so that it holds 5 steps, those that metrics.jsonl numbers 11 to 15. "" traces nothing. Steps 0 to 2
or so are poor ones to look at: buffers are still being allocated.
"""

import logging
import os
from types import TracebackType

import jax

from bertflow_jax import distributed
from bertflow_jax.checks import parse_profile_steps

_log = logging.getLogger(__name__)


class Profiler:
    """Starts and ends the trace of a loop that tells it how many steps are made.

    ```
    with Profiler(config.profile_steps, workdir / "tensorboard") as profiler:
        profiler.at(done)
        while done < last:
            boundary = profiler.stop_before(done)  # a loop in chunks stops there
            ...
            done += count
            profiler.at(done)
    ```

    `at` is called when the device is done with the steps: what is still queued belongs to nobody's
    trace. A run that is resumed between START and STOP traces what is left; one that ends there, by
    an error too, leaves what was traced. A trace that cannot be written costs a warning, no run.
    """

    def __init__(
        self,
        spec: str,
        folder: str | os.PathLike[str],
        *,
        field: str = "profile_steps",
        writes: bool | None = None,
    ):
        """Trace as the config says.

        Args:
          spec: see `checks.parse_profile_steps`.
          folder: of TensorBoard's files; the trace comes into its plugins/profile.
          field: name of the spec in messages.
          writes: whether this process traces; None: the first of `jax.distributed` does.

        Raises:
          ConfigError: an impossible spec.
        """
        steps = parse_profile_steps(spec, field)
        if writes is None and steps is not None:
            writes = distributed.is_first()
        self._start, self._stop = steps if steps is not None else (0, 0)
        self._waiting = steps is not None
        self._writes, self._field = bool(writes), f"{field}={spec}"
        self._folder = os.fspath(folder)
        self._tracing = False

    def stop_before(self, step: int) -> int | None:
        """Return the next number of steps, above `step`, where the trace starts or ends.

        It is the same in every process, so that all of them make chunks of the same length. None
        when nothing is left to come.
        """
        ahead = [bound for bound in (self._start, self._stop) if bound > step]
        return min(ahead, default=None)

    def at(self, step: int) -> None:
        """Start or end the trace if `step` steps made are where that is due."""
        if self._tracing and step >= self._stop:
            self._end()
        elif self._waiting and self._start <= step < self._stop:
            self._waiting = False
            if self._writes:
                self._begin()

    def close(self) -> None:
        """End a trace that is still running; say so if none was ever due."""
        if self._tracing:
            self._end()
        elif self._waiting and self._writes:
            _log.warning("%s: the run made no such steps, there is no trace", self._field)
        self._waiting = False

    def __enter__(self) -> "Profiler":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self) -> None:
        try:
            jax.profiler.start_trace(self._folder)
        except (RuntimeError, OSError) as error:
            _log.warning("%s: no trace can be started (%s)", self._field, error)
        else:
            self._tracing = True

    def _end(self) -> None:
        self._tracing = False
        try:
            jax.profiler.stop_trace()
        except (RuntimeError, OSError) as error:
            _log.warning("%s: the trace could not be written (%s)", self._field, error)
        else:
            _log.info("%s: the trace is in %s/plugins/profile", self._field, self._folder)
