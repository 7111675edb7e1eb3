"""Where a fit's numbers go: JSON lines and TensorBoard event files."""

import json
import logging
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from bertflow_jax.data.json_files import parse_json
from bertflow_jax.errors import WorkdirError
from bertflow_jax.workdir import METRICS_FILE, NEW_METRICS

_log = logging.getLogger(__name__)


def metric_records(path: Path) -> list[dict[str, Any]]:
    """Return the records of a metrics.jsonl, each an object with an integer "step".

    Whatever else stands there is left out, as the half line of a run that was killed while writing
    it, or the zero bytes that a machine without power leaves.

    Raises:
      OSError: the file cannot be read.
    """
    records = []
    for line in path.read_text("utf-8", errors="replace").splitlines():
        try:
            record = parse_json(line)
        except ValueError:
            continue
        if isinstance(record, dict) and type(record.get("step")) is int:
            records.append(record)
    return records


class MetricsWriter:
    """Append metrics to WORKDIR/metrics.jsonl and, if asked, WORKDIR/tensorboard.

    A resumed run drops the lines after the step it resumes from, so that every step stands in the
    file once. Metrics that cannot be written (a full disk) cost a warning and the metrics, never
    the run: what matters is in the checkpoints, and a full disk ends the run there.
    """

    def __init__(self, workdir: Path, *, tensorboard: bool, resume_step: int = 0):
        """Open both for a run that goes on after `resume_step` (0: from the start).

        Raises:
          WorkdirError: one of them cannot be opened.
        """
        self.path = workdir / METRICS_FILE
        self._events: EventFile | None = None
        try:
            self._keep_until(resume_step)
            self._file: Any = self.path.open("a", encoding="utf-8")
            if tensorboard:
                self._events = EventFile(workdir / "tensorboard", resume_step + 1)
        except OSError as error:
            raise WorkdirError(
                f"metrics cannot be written to {workdir}: {error.strerror or error} "
                f"({error.filename})"
            ) from error

    def _keep_until(self, step: int) -> None:
        if not self.path.is_file():
            return
        records = metric_records(self.path)
        kept = [json.dumps(record) + "\n" for record in records if record["step"] <= step]
        # Renamed into place: a run killed here must not lose its history.
        rewritten = self.path.with_name(NEW_METRICS)
        rewritten.write_text("".join(kept), "utf-8")
        rewritten.replace(self.path)

    def write(self, step: int, values: dict[str, float]) -> None:
        """Write the metrics of one step."""
        try:
            if self._file is not None:
                self._file.write(json.dumps({"step": step, **values}) + "\n")
                self._file.flush()
        except OSError as error:
            self._give_up(step, error)
        try:
            if self._events is not None:
                self._events.write(step, values)
        except OSError as error:
            _log.warning("step %d: no TensorBoard events from here on (%s)", step, error)
            self._events = None

    def _give_up(self, step: int, error: OSError) -> None:
        _log.warning("step %d: %s gets no more metrics (%s)", step, self.path, error)
        self._close(self._file)
        self._file = None

    def _close(self, file: Any) -> None:
        try:
            if file is not None:
                file.close()
        except OSError as error:
            _log.warning("the end of %s is missing (%s)", self.path, error)

    def __enter__(self) -> "MetricsWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close(self._file)
        self._close(self._events)


class EventFile:
    """A TensorBoard event file, written by the caller itself.

    tensorboardX's SummaryWriter writes in a thread; when that thread ends (a full disk) its queue
    fills up and the next metric waits for ever.
    """

    def __init__(self, folder: Path, first_step: int):
        """Open a new file in a folder; TensorBoard forgets what other files say from a step on."""
        from tensorboardX.proto import event_pb2  # which loads torch where that is installed
        from tensorboardX.record_writer import RecordWriter
        from tensorboardX.summary import scalar

        self._event, self._scalar = event_pb2.Event, scalar
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns()}.{os.uname().nodename}"
        self._records = RecordWriter(str(folder / name))
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._put(file_version="brain.Event:2")
        self._put(step=first_step, session_log=start)

    def _put(self, **fields: Any) -> None:
        event = self._event(wall_time=time.time(), **fields)
        self._records.write(event.SerializeToString())

    def write(self, step: int, values: dict[str, float]) -> None:
        """Write the scalars of one step."""
        for name, value in values.items():
            self._put(step=step, summary=self._scalar(name, value))
        self._records._writer.flush()

    def close(self) -> None:
        """End the file."""
        self._records.close()
