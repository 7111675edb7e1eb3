"""What the first process of a run does for all: the workdir, its checkpoints and its metrics."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from bertflow_jax import distributed
from bertflow_jax.checkpoint import CheckpointStore, Records
from bertflow_jax.checkpoint_steps import LocalSteps
from bertflow_jax.config import Config
from bertflow_jax.errors import BertFlowError, ConfigError, DataError, WorkdirError
from bertflow_jax.interrupt import Interrupt
from bertflow_jax.remote.address import Address, remote_address
from bertflow_jax.scores import Score
from bertflow_jax.training.metrics import MetricsWriter
from bertflow_jax.workdir import CHECKPOINTS, METRICS_FILE, clear_workdir, prepare_workdir
from bertflow_jax.workdir_lock import lock_workdir

_log = logging.getLogger(__name__)
if TYPE_CHECKING:
    from bertflow_jax.remote.workdir import RunWorkdir


def shared_workdir(workdir: str | Path, *, resume: bool, overwrite: bool) -> Path | Address:
    """Return the absolute workdir as the first process sees it; see `workdir.prepare_workdir`.

    Raises:
      ConfigError: the processes were not given the same flags; besides what prepare_workdir raises.
    """
    flags = distributed.share(lambda: [resume, overwrite])
    if distributed.any_process(flags != [resume, overwrite])[0]:
        raise ConfigError("give --resume or --overwrite to all processes of a run, or to none")
    place = distributed.share(
        lambda: str(prepare_workdir(workdir, resume=resume, overwrite=overwrite))
    )
    return remote_address(place, "--workdir") or Path(place)


@dataclasses.dataclass(frozen=True)
class Held:
    """A workdir that this run holds.

    Attributes:
      place: as `shared_workdir` gave it.
      folder: where the first process reads and writes: the workdir itself, or for one in a bucket
        a temporary folder, see `remote`.
      remote: in the first process, of a workdir in a bucket.
      steps: in the first process, of a local workdir; nothing is written to one that is lost.
    """

    place: Path | Address
    folder: Path
    remote: "RunWorkdir | None" = None
    steps: LocalSteps | None = None

    def store(self, keep: int | None, keep_best: int) -> CheckpointStore:
        """Return the checkpoints of the workdir."""
        steps = self.steps if self.remote is None else self.remote.steps
        return CheckpointStore(self.folder, keep, keep_best, steps)

    def begin(self, store: CheckpointStore, *, resume: bool) -> bool:
        """Return whether the run goes on from a checkpoint; leave a trace that it has begun.

        A run that was killed before its first checkpoint, also while it embedded, has left its
        metrics file alone: --resume starts anew. Without a trace of a run the folder is a mistake,
        which `CheckpointStore` names.

        Raises:
          WorkdirError: the trace cannot be written.
        """
        metrics = self.folder / METRICS_FILE

        def find() -> bool:
            if resume and (store.steps() or not metrics.is_file()):
                return True
            if resume:
                _log.warning(
                    "%s: no checkpoint was saved before the run was stopped: it starts anew",
                    self.place,
                )
            try:
                metrics.touch()
            except OSError as error:
                raise WorkdirError(f"{metrics} cannot be made: {error.strerror}") from error
            if self.remote is not None:
                self.remote.send_metrics()
            return False

        return distributed.share(find)

    def forget(self) -> None:
        """Delete the trace of a run that was refused before its first step."""
        metrics = self.folder / METRICS_FILE
        if distributed.is_first() and metrics.is_file() and not metrics.stat().st_size:
            metrics.unlink()

    def clear(self) -> None:
        """Delete what is in the workdir; all processes call it, the first one acts.

        Raises:
          WorkdirError: it is no longer the one that was locked, or cannot be emptied.
        """

        def act() -> None:
            if self.remote is not None:
                self.remote.clear()
            elif self.steps is not None:
                self.steps.ready()
                clear_workdir(self.folder)

        distributed.share(act)

    def publish(self) -> None:
        """Upload what is not in the bucket yet; all processes call it when the run is done.

        Raises:
          WorkdirError: in every process, where the first one could not upload something.
        """
        distributed.share(lambda: None if self.remote is None else self.remote.publish())


@contextlib.contextmanager
def first_holds(place: Path | Address) -> Iterator[Held]:
    """Hold the workdir in the first process; see `workdir_lock` and `remote.workdir`."""
    remote: RunWorkdir | None = None
    steps: LocalSteps | None = None
    with contextlib.ExitStack() as stack:

        def hold() -> str:
            nonlocal remote, steps
            if not isinstance(place, Address):
                lock = stack.enter_context(lock_workdir(place))
                steps = LocalSteps(place / CHECKPOINTS, lock.check)
                return str(place)
            from bertflow_jax.remote.workdir import RunWorkdir

            remote = stack.enter_context(RunWorkdir(place))
            return str(remote.folder)

        held = Held(place, Path(distributed.share(hold)), remote, steps)
        try:
            yield held
        except BertFlowError:
            held.forget()
            raise


@contextlib.contextmanager
def first_writes_metrics(config: Config, folder: Path, step: int) -> Iterator[MetricsWriter | None]:
    """Yield the writer of a run that goes on after `step`; None in the other processes."""
    sink: MetricsWriter | None = None
    with contextlib.ExitStack() as stack:

        def start() -> None:
            nonlocal sink
            tensorboard = config.train.tensorboard
            writer = MetricsWriter(folder, tensorboard=tensorboard, resume_step=step)
            sink = stack.enter_context(writer)

        distributed.share(start)
        yield sink


def check_same_input(config: Config, identity: dict[str, Any], manifest: dict[str, Any]) -> None:
    """Raise DataError where a process has another config, encoder or text than the first one.

    Where files lie may differ from machine to machine.
    """
    if not distributed.several():
        return
    fields = config.to_dict()
    for section, field in (("encoder", "path"), ("data", "path"), ("supervision", "path")):
        del fields[section][field]
    del fields["supervision"]["dev_path"], fields["cache_dir"]
    own = {
        "config": fields,
        "encoder": {k: v for k, v in identity.items() if k != "path"},
        "text": {k: v for k, v in manifest.items() if k != "source"},
    }
    first = distributed.share(lambda: own)
    different = [name for name, value in first.items() if value != own[name]]
    if distributed.any_process(bool(different))[0]:
        what = f"its {' and '.join(different)}" if different else "another one's input"
        raise DataError(
            f"process {jax.process_index()} of {jax.process_count()}: {what} differs from that of "
            "the first process; give all of them the same files and flags"
        )


def check_together(interrupt: Interrupt) -> None:
    """Raise in every process what Ctrl-C or SIGTERM asked of one; see `Interrupt.check`."""
    if distributed.several():
        requested, terminated = distributed.any_process(interrupt.requested, interrupt.terminated)
        if not requested:
            return  # what came here meanwhile is told to all before the next step
        interrupt.requested, interrupt.terminated = requested, terminated
    interrupt.check()


def best_shared(store: CheckpointStore) -> tuple[int, Score] | None:
    """Return `CheckpointStore.best` of the first process."""

    def best() -> list[Any] | None:
        found = store.best()
        return None if found is None else [found[0], found[1].to_record()]

    found = distributed.share(best)
    return None if found is None else (found[0], Score(**found[1]))


def restore_shared(
    store: CheckpointStore, wanted: dict[str, Any], check: Callable[[Records], None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return arrays and state record of the newest good step; the first process reads it.

    Steps after it are set aside: the run will write its own.

    Args:
      store: of the workdir.
      wanted: item -> tree of ShapeDtypeStruct.
      check: raises where the step is of another run; nothing has been changed then.
    """
    arrays: Any = None

    def read() -> dict[str, Any]:
        nonlocal arrays
        arrays, records = store.newest_good(lambda step: store.restore(step, lambda _: wanted))
        check(records)
        store.set_aside_after(records.state["step"])
        return records.state

    record = distributed.share(read)
    if arrays is None:
        arrays = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), wanted)
    return distributed.share_arrays(arrays), record
