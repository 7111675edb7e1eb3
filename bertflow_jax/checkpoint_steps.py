"""The step folders of one workdir: which are complete, and how one goes.

`remote.steps.RemoteSteps` is the same for a workdir in a bucket.
"""

import logging
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from bertflow_jax.checkpoint_paths import refuse_path
from bertflow_jax.errors import WorkdirError
from bertflow_jax.step_names import UNFINISHED_SAVE, is_step
from bertflow_jax.workdir import listed
from bertflow_jax.workdir_lock import run_at_work

_log = logging.getLogger(__name__)
_DYING = ".deleted"  # a step on its way out


class LocalSteps:
    """Step folders on a disk.

    Attributes:
      folder: absolute path of WORKDIR/checkpoints, where steps are written and read.
      place: what messages call it.
    """

    def __init__(self, folder: Path, check: Callable[[], None] | None = None):
        """Take the folder, which need not be there yet.

        `check` raises WorkdirError where it may no longer be written to.
        """
        self._check = check
        self.folder = folder
        self.place = str(folder)

    def steps(self) -> list[int]:
        """Return the complete steps in ascending order; raises WorkdirError, as `listed`."""
        names = [path.name for path in listed(self.folder) if path.is_dir()]
        return sorted(int(name) for name in names if is_step(name))

    def look_again(self) -> list[int]:
        """Return the complete steps of now, where another process changes them."""
        return self.steps()

    def is_gone(self, step: int) -> bool:
        """Return whether nothing is left of a step that was there."""
        return not os.path.lexists(self.folder / str(step))

    def run_at_work(self) -> bool:
        """Return whether another process is seen to be a run in this workdir."""
        return run_at_work(self.folder.parent)

    def clean(self) -> None:
        """Delete what killed saves have left."""
        for path in [*unfinished(self.folder), *_named(self.folder, _DYING)]:
            _log.warning("%s is what a stopped run left of a save: deleted", path)
            if path.is_symlink():  # what it leads to is not ours
                path.unlink()
            else:
                shutil.rmtree(path, ignore_errors=True)

    def ready(self) -> None:
        """Raise WorkdirError where a step may not be written."""
        refuse_path(self.folder, f"checkpoints in {self.folder}")
        if self._check is not None:
            self._check()

    def need(self, step: int, items: Iterable[str]) -> Path:
        """Return the folder of a step, in which these items can be read.

        Raises:
          CheckpointError: they are damaged (RemoteSteps).
          WorkdirError: they cannot be fetched (RemoteSteps), or not be read below such a path.
        """
        refuse_path(self.folder, f"checkpoints in {self.folder}", reading=True)
        return self.folder / str(step)

    def written(self, step: int) -> None:
        """Take note of a step that was written into the folder.

        Raises:
          WorkdirError: it is missing, or (RemoteSteps) cannot be uploaded.
        """
        self.ready()
        if step not in self.steps():
            raise WorkdirError(f"checkpoint {self.folder / str(step)} is missing after the save")

    def delete(self, step: int) -> None:
        """Delete a step.

        Raises:
          WorkdirError: it cannot be deleted.
        """
        path = self.folder / str(step)
        if path.is_symlink() or not (path / "state").is_dir():
            _log.warning("%s is no checkpoint of ours and stays", path)
            return
        # Renamed first: a run killed here must not leave a damaged step.
        dying = self.folder / f"{step}{_DYING}"
        try:
            path.rename(dying)
            shutil.rmtree(dying)
        except OSError as error:
            raise WorkdirError(
                f"checkpoint {path} could not be deleted: {error}; the newer ones are kept"
            ) from error

    def set_aside(self, step: int) -> str:
        """Rename a step so that it counts no more; return where it is now.

        Raises:
          WorkdirError: it cannot be renamed.
        """
        aside = self.folder / f"{step}.passed_over"
        try:
            if aside.is_dir():
                shutil.rmtree(aside)
            (self.folder / str(step)).rename(aside)
        except OSError as error:
            raise WorkdirError(
                f"checkpoint {self.folder / str(step)} cannot be renamed to {aside}: {error}"
            ) from error
        return str(aside)


def unfinished(folder: Path) -> list[Path]:
    """Return what killed saves have left in a folder of checkpoints."""
    return _named(folder, UNFINISHED_SAVE)


def _named(folder: Path, mark: str) -> list[Path]:
    """Return the folders named with a step and what follows it; others are not ours to delete."""
    if not folder.is_dir():
        return []
    found = [(path, path.name.partition(mark)) for path in listed(folder)]
    return sorted(path for path, (step, marked, _) in found if marked and is_step(step))
