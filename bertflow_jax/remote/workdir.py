"""The workdir of a run in a bucket, and the temporary folder that the run works in.

There is no lock: one that is left by a killed run would stop the run that goes on from it. Instead
the run that began last has the workdir, and its name stands in the object `.owner`. A run that
finds another owner before an upload ends with an error.
"""

import json
import logging
import os
import shutil
import socket
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from bertflow_jax.checkpoint_paths import refuse_path
from bertflow_jax.errors import DataNotFoundError, WorkdirError
from bertflow_jax.remote.address import Address
from bertflow_jax.remote.bucket import BucketFolder
from bertflow_jax.remote.inventory import Inventory
from bertflow_jax.remote.steps import RemoteSteps
from bertflow_jax.remote.uploads import Uploads
from bertflow_jax.workdir import CHECKPOINTS, METRICS_FILE

_log = logging.getLogger(__name__)
_OWNER = ".owner"
_PROBE = ".write_test"
_ENCODER = "encoder"
_ENCODER_LAST = f"{_ENCODER}/config.json"  # without it a folder is no encoder
_BEFORE_A_CHECKPOINT = {_OWNER, _PROBE, METRICS_FILE, "tensorboard"}


def prepare_remote(address: Address, *, resume: bool, overwrite: bool) -> None:
    """Check a workdir in a bucket before long work; nothing in it changes.

    Raises:
      ConfigError: the extra `gcs` is missing.
      DataNotFoundError: no such bucket.
      WorkdirError: no credentials, not readable or writable; not empty and neither flag given;
        --overwrite of what is no run.
    """
    bucket = BucketFolder(address)
    names = bucket.names()
    if _holds_a_run(names) and not (resume or overwrite):
        raise WorkdirError(
            f"--workdir={address} is not empty: give --resume to go on with the run in it, "
            "--overwrite to delete it, or another folder"
        )
    if _holds_a_run(names) and overwrite and not _is_run(names):
        raise WorkdirError(
            f"--workdir={address} --overwrite would delete objects that are no run's, for there "
            f"are neither checkpoints of ours nor {METRICS_FILE}; delete them yourself, or name "
            "another address"
        )
    show_writable(bucket)


def show_writable(bucket: BucketFolder) -> None:
    """Write an object and delete it: raises WorkdirError before the work instead of after it."""
    bucket.put(_PROBE, b"")
    bucket.delete(_PROBE)


def require_run(address: Address) -> None:
    """Raise DataNotFoundError if there is no checkpoint at an address."""
    if not RemoteSteps(BucketFolder(address), Path()).steps():
        raise DataNotFoundError(
            f"--workdir={address} has no checkpoints/ and so no fitted flow; train first, or check "
            "the address"
        )


def _holds_a_run(names: dict[str, int]) -> bool:
    """Whether there is more than a run leaves that was stopped before its first checkpoint."""
    start, inside = f"{CHECKPOINTS}/", _checkpoints(names)
    beside = {name.split("/", 1)[0] for name in names if not name.startswith(start)}
    return bool(inside.steps() or inside.other or not beside <= _BEFORE_A_CHECKPOINT)


def _is_run(names: dict[str, int]) -> bool:
    """Whether a run has been there, as `bertflow_jax.workdir` has it for folders."""
    return bool(_checkpoints(names).files or not {_OWNER, METRICS_FILE}.isdisjoint(names))


def _checkpoints(names: dict[str, int]) -> Inventory:
    start = f"{CHECKPOINTS}/"
    return Inventory.of(n.removeprefix(start) for n in names if n.startswith(start))


class ReadWorkdir:
    """What a reader takes from a workdir in a bucket; a context that ends with its files.

    Attributes:
      folder: local and temporary.
      steps: the checkpoints.
    """

    def __init__(self, address: Address):
        """Make the folder; nothing is downloaded yet.

        Raises:
          WorkdirError: it cannot be made, or no checkpoint can be saved below its path.
        """
        refuse_path(Path(tempfile.gettempdir()), "the folder of temporary files (TMPDIR)")
        self._bucket = BucketFolder(address)
        self.folder = temporary_folder()
        self.steps = RemoteSteps(self._bucket, self.folder / CHECKPOINTS)

    def metrics(self, into: Path) -> Path | None:
        """Copy the run's metrics.jsonl into a local folder; None where there is none."""
        target = into / METRICS_FILE
        return target if self._bucket.get_file(METRICS_FILE, target) else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class RunWorkdir(ReadWorkdir):
    """The workdir of one run.

    After every checkpoint metrics.jsonl and the files of tensorboard/ go up too; `publish` sends
    the rest. The local folder goes with the context, unless something in it could not be uploaded.
    """

    def __init__(self, address: Address):
        """Take the workdir for this run; the metrics of the run before come down."""
        super().__init__(address)
        self.steps = RemoteSteps(
            self._bucket,
            self.folder / CHECKPOINTS,
            before_upload=self._check_owner,
            after_upload=self._send_beside,
        )
        self._uploads = Uploads(self._bucket, self.folder)
        self._failed = False
        name = {"host": socket.gethostname(), "process": os.getpid(), "folder": str(self.folder)}
        try:
            self._owner = self._bucket.put(_OWNER, json.dumps(name).encode())
            self.metrics(self.folder)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        _log.info("%s: this run works in %s", address, self.folder)

    def clear(self) -> None:
        """Delete everything below the address.

        Raises:
          WorkdirError: something cannot be deleted.
        """
        for name in self._bucket.names():
            if name != _OWNER:
                self._bucket.delete(name)
        self.steps.forget()
        (self.folder / METRICS_FILE).unlink(missing_ok=True)

    def publish(self) -> None:
        """Upload what is not in the bucket yet: metrics, tensorboard/, encoder/.

        Raises:
          WorkdirError: an upload failed, or another run has the workdir now.
        """
        try:
            self._check_owner()
            self._send_beside()
            self._send_encoder()
        except WorkdirError as error:
            self._failed = True
            raise WorkdirError(f"{error}; the files are kept in {self.folder}") from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and not self._incomplete:
            try:
                self._check_owner()
                self._send_beside()
            except WorkdirError as failed:
                _log.warning("%s", failed)  # beside the error that ends the run
                self._failed = True
        if self._incomplete:
            _log.warning("not everything is in %s: see %s", self._bucket.address, self.folder)
        else:
            super().__exit__(kind, error, trace)

    @property
    def _incomplete(self) -> bool:
        return self._failed or self.steps.failed

    def _check_owner(self) -> None:
        if self._bucket.generation(_OWNER) != self._owner:
            raise WorkdirError(
                f"--workdir={self._bucket.address}: another run began there and has it now (its "
                f"name is in {self._bucket.address}/{_OWNER}); this run ends"
            )

    def send_metrics(self) -> None:
        """Upload metrics.jsonl; raises WorkdirError."""
        self._uploads.send([self.folder / METRICS_FILE])

    def _send_beside(self) -> None:
        self.send_metrics()
        self._uploads.send((self.folder / "tensorboard").rglob("*"))

    def _send_encoder(self) -> None:
        files = [path for path in (self.folder / _ENCODER).rglob("*") if path.is_file()]
        if not files:
            return
        # An encoder folder that is half old and half new must not look like one.
        self._bucket.delete(_ENCODER_LAST)
        for name in self._bucket.names(f"{_ENCODER}/"):
            if not (self.folder / name).is_file():
                self._bucket.delete(name)
        last = self.folder / _ENCODER_LAST
        for path in sorted(files, key=lambda path: path == last):
            self._bucket.put(path.relative_to(self.folder).as_posix(), path)


def temporary_folder() -> Path:
    """Make a folder for files on their way to or from a bucket.

    Raises:
      WorkdirError: it cannot be made.
    """
    try:
        return Path(tempfile.mkdtemp(prefix="bertflow-"))
    except OSError as error:
        raise WorkdirError(
            f"no temporary folder can be made ({error.strerror or error}); set TMPDIR to one"
        ) from error
