"""Output folders: checked and made before any long work, without loading JAX."""

import contextlib
import dataclasses
import errno
import fcntl
import logging
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from bertflow_jax.errors import ConfigError, WorkdirError
from bertflow_jax.interrupt import held
from bertflow_jax.output_locks import KEPT, LOCK
from bertflow_jax.paths import user_path
from bertflow_jax.remote.address import Address, remote_address

_log = logging.getLogger(__name__)
CHECKPOINTS = "checkpoints"
_made: list[Path] | None = None  # folders that `make_folder` has made, inside `folders_undone`
METRICS_FILE = "metrics.jsonl"
_BEFORE_A_CHECKPOINT = {LOCK, METRICS_FILE, "metrics.tmp", "tensorboard", CHECKPOINTS}
UNFINISHED = ".unfinished-"  # begins the name of a folder that `staging` fills
UNFINISHED_SAVE = ".orbax-checkpoint-tmp"  # in the name of a folder that orbax is still writing


def prepare_output(folder: str | os.PathLike[str], flag: str = "--output") -> Path:
    """Return the absolute folder, made and shown to be writable.

    Raises:
      WorkdirError: blank, a file, below a file, or not writable; names `flag`.
    """
    path = user_path(folder, flag).absolute()
    if not str(folder).strip():
        raise WorkdirError(f"{flag} is blank; name a folder")
    if "://" in str(folder):
        raise WorkdirError(f"{flag}={folder} is no folder of this machine, and no other is written")
    if os.path.isfile(path):
        raise WorkdirError(f"{flag}={folder} is a file; name a folder")
    try:
        make_folder(path)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        raise WorkdirError(
            f"{flag}={folder} is not writable ({error.strerror or error}); choose another folder"
        ) from error


def check_empty(path: Path, given: str) -> None:
    """Raise WorkdirError, which shows `given`, where a folder is there and holds something."""
    # What `staging` leaves of a run that was killed is nothing.
    if path.is_dir() and any(not p.name.startswith(UNFINISHED) for p in path.iterdir()):
        raise WorkdirError(f"{given} is not empty; name another folder, or delete it")


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, that `folders_undone` deletes if they stay empty.

    Raises:
      OSError: it cannot be made.
    """
    if _made is not None:
        for place in (path, *path.parents):
            if os.path.lexists(place):
                break
            _made.append(place)
    path.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def folders_undone() -> Iterator[None]:
    """Delete the folders that were made inside and are still empty, where that ends with an error.

    A command that is refused leaves nothing. A lock file that no other run holds is nothing.
    """
    global _made
    before, _made = _made, []
    try:
        yield
    except BaseException:
        for folder in sorted(_made, key=lambda path: len(path.parts), reverse=True):
            # Empty ones that a library has made inside go too.
            for place, _, _ in os.walk(folder, topdown=False):
                _remove_if_empty(Path(place))
        raise
    finally:
        _made = before


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):  # it holds something, or is gone
        if os.listdir(folder) == [LOCK]:
            with (folder / LOCK).open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (folder / LOCK).unlink()
        folder.rmdir()


def prepare_workdir(workdir: str | Path, *, resume: bool, overwrite: bool) -> Path | Address:
    """Return the absolute workdir of a run; nothing in it is touched yet.

    Raises:
      ConfigError: both flags are given; an address without the extra `gcs`.
      DataNotFoundError: an address in a bucket that does not exist.
      WorkdirError: as `prepare_output`; not empty and neither flag given; --overwrite of a folder
        that holds other things than a run, or that the current or the home folder lies in.
    """
    if resume and overwrite:
        raise ConfigError("--resume and --overwrite exclude each other: give one")
    if (address := remote_address(workdir, "--workdir")) is not None:
        from bertflow_jax.remote.workdir import prepare_remote

        prepare_remote(address, resume=resume, overwrite=overwrite)
        return address
    folder = prepare_output(workdir, "--workdir")
    saves = folder / CHECKPOINTS
    if os.path.lexists(saves) and not saves.is_dir():
        raise WorkdirError(f"--workdir={workdir}: {saves} is no folder; move it away")
    if resume or not _holds_a_run(folder):
        return folder
    if not overwrite:
        raise WorkdirError(
            f"--workdir={workdir} is not empty: give --resume to go on with the run in it, "
            "--overwrite to delete it, or another folder"
        )
    for kept in (os.getcwd(), os.path.expanduser("~")):  # Path.home fails where there is none
        if Path(kept).resolve().is_relative_to(folder.resolve()):
            raise WorkdirError(f"--workdir={workdir} --overwrite would delete {kept}")
    if not _is_run(folder):
        raise WorkdirError(
            f"--workdir={workdir} --overwrite would delete a folder that is no run's, for it has "
            f"neither checkpoints of ours nor {METRICS_FILE}; empty it yourself, or name another"
        )
    return folder


def _holds_a_run(folder: Path) -> bool:
    """Return whether there is more than a run leaves that was stopped before its first checkpoint.

    Killed inside that save, it leaves the save's temporary folder.
    """
    if not {path.name for path in folder.iterdir()} <= _BEFORE_A_CHECKPOINT:
        return True
    saves = folder / CHECKPOINTS
    return saves.is_dir() and any(UNFINISHED_SAVE not in path.name for path in saves.iterdir())


def _is_run(folder: Path) -> bool:
    """Return whether a run has been in a folder: it may have been one of the user's, mistyped."""
    saves = folder / CHECKPOINTS
    return (folder / METRICS_FILE).is_file() or (
        saves.is_dir()
        and any(path.name.isdecimal() or UNFINISHED_SAVE in path.name for path in saves.iterdir())
    )


def clear_workdir(folder: Path) -> None:
    """Delete what is in a folder, not the folder itself (it may be a link or a mount).

    Raises:
      WorkdirError: something in it cannot be deleted.
    """
    try:
        for path in [path for path in folder.iterdir() if path.name != LOCK]:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    except OSError as error:
        raise WorkdirError(f"--workdir={folder} cannot be emptied: {error}") from error


def check_inputs_outside(folder: Path | Address, inputs: Mapping[str, str]) -> None:
    """Raise WorkdirError if --overwrite of a folder would delete an input of the run.

    Args:
      folder: the workdir; in a bucket there are no inputs.
      inputs: name of the config field -> path; what is no path on this machine is ignored.
    """
    if isinstance(folder, Address):
        return
    for name, path in inputs.items():
        if path and os.path.exists(path) and Path(path).resolve().is_relative_to(folder.resolve()):
            raise WorkdirError(f"--workdir={folder} --overwrite would delete {name}={path}")


@dataclasses.dataclass(frozen=True)
class WorkdirLock:
    """The lock of a workdir that is held."""

    path: Path
    token: str
    given: str

    def check(self) -> None:
        """Raise WorkdirError where the workdir is no longer the one that was locked.

        What is written to its path then would mix with another run, or make half a workdir.
        """
        try:
            held = self.path.read_text("utf-8", errors="replace") == self.token
        except (FileNotFoundError, NotADirectoryError):
            held = False
        except OSError:  # which says nothing of whose it is
            return
        if not held:
            raise WorkdirError(
                f"{self.given} was moved, deleted or replaced while this run was at work: nothing "
                "more is written there; what had been saved is where the folder went"
            )


@contextlib.contextmanager
def lock_workdir(folder: Path, flag: str = "--workdir") -> Iterator[WorkdirLock]:
    """Hold a workdir for one run; the lock ends with the process, however it ends.

    Raises:
      WorkdirError: another run holds it; names `flag`.
    """
    token = KEPT.decode() + uuid.uuid4().hex
    lock = WorkdirLock(folder / LOCK, token, f"{flag}={folder}")
    try:
        # A link would have the token written to where it leads.
        handle = os.open(lock.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        why = "it is a link; move it away" if error.errno == errno.ELOOP else error.strerror
        raise WorkdirError(f"{lock.given}: {lock.path} cannot be opened ({why})") from error
    with open(handle, "r+b", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise WorkdirError(
                f"{lock.given} is in use by another run; wait for it, or name another folder"
            ) from error
        except OSError as error:  # a file system without locks, as some that hosts share
            _log.warning(
                "%s is not locked: %s; let one run at a time write there",
                lock.given,
                error.strerror,
            )
        if file.read(len(KEPT)) not in (b"", KEPT):
            raise WorkdirError(
                f"{lock.given}: {lock.path} is not a lock of ours; move it away, or name another "
                "folder"
            )
        try:
            file.truncate(0)
            file.seek(0)
            file.write(lock.token.encode())
        except OSError as error:
            raise WorkdirError(
                f"{lock.given}: {lock.path} cannot be written ({error.strerror})"
            ) from error
        yield lock


def share(path: Path) -> None:
    """Give a file or folder that was made private the permissions of any other new one.

    What makes a temporary file makes it private; results are for sharing, as the user's mask says.

    Raises:
      OSError: it is gone, or another user's.
    """
    mask = os.umask(0)
    os.umask(mask)
    path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file through a temporary one beside it, so that no half file is ever left.

    A lone surrogate, as in a path whose bytes are not UTF-8, is written as its escape.

    Raises:
      WorkdirError: the file cannot be written.
    """
    temporary = None
    try:
        with held():
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            # In JSON the escape that this makes of a surrogate means that surrogate.
            with os.fdopen(handle, "w", -1, "utf-8", "backslashreplace", "\n") as file:
                file.write(text)
            share(Path(temporary))
            os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise WorkdirError(f"{path} cannot be written: {error.strerror or error}") from error
