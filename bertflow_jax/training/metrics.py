"""Where a fit's numbers go: JSON lines and TensorBoard event files."""

import json
from pathlib import Path
from types import TracebackType

METRICS_FILE = "metrics.jsonl"


class MetricsWriter:
    """Append metrics to WORKDIR/metrics.jsonl and, if asked, WORKDIR/tensorboard.

    A resumed run drops the lines after the step it resumes from, so that every step stands in the
    file once.
    """

    def __init__(self, workdir: Path, *, tensorboard: bool, resume_step: int = 0):
        """Open both for a run that goes on after `resume_step` (0: from the start)."""
        self.path = workdir / METRICS_FILE
        self._keep_until(resume_step)
        self._file = self.path.open("a", encoding="utf-8")
        self._events = None
        if tensorboard:
            from tensorboardX import SummaryWriter  # which loads torch where that is installed

            folder = str(workdir / "tensorboard")
            self._events = SummaryWriter(folder, purge_step=resume_step + 1)

    def _keep_until(self, step: int) -> None:
        if not self.path.is_file():
            return
        kept = []
        for line in self.path.read_text("utf-8", errors="replace").splitlines():
            try:
                if json.loads(line)["step"] <= step:
                    kept.append(line + "\n")
            except (ValueError, KeyError, TypeError):
                continue  # the half line of a run that was killed while writing it
        # Renamed into place: a run killed here must not lose its history.
        rewritten = self.path.with_suffix(".tmp")
        rewritten.write_text("".join(kept), "utf-8")
        rewritten.replace(self.path)

    def write(self, step: int, values: dict[str, float]) -> None:
        """Write the metrics of one step."""
        self._file.write(json.dumps({"step": step, **values}) + "\n")
        self._file.flush()
        if self._events is not None:
            for name, value in values.items():
                self._events.add_scalar(name, value, step)

    def __enter__(self) -> "MetricsWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        if self._events is not None:
            self._events.close()
