"""The lock of a workdir: one run at a time, which others can see."""

import contextlib
import dataclasses
import errno
import fcntl
import logging
import os
import stat
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from bertflow_jax.errors import WorkdirError
from bertflow_jax.output_locks import KEPT, LOCK

_log = logging.getLogger(__name__)
_held: set[Path] = set()  # by this process
_LOOKS, _LOOK = 4, 0.05  # tries, and seconds between them


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
    if not stat.S_ISREG(os.fstat(handle).st_mode):  # to read a pipe would never end
        os.close(handle)
        why = "it is a pipe or a device; move it away"
        raise WorkdirError(f"{lock.given}: {lock.path} cannot be opened ({why})")
    with open(handle, "r+b", buffering=0) as file:
        try:
            _hold(file.fileno())
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
        _held.add(lock.path)
        try:
            yield lock
        finally:
            _held.discard(lock.path)


def _hold(handle: int) -> None:
    """Take the lock; raises BlockingIOError where another run has it.

    `run_at_work` of another process has it too, for less than a millisecond.
    """
    for _ in range(_LOOKS):
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOOK)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def run_at_work(folder: Path) -> bool:
    """Return whether another process holds a workdir, as far as can be seen; nothing is changed.

    The lock is asked for and given back at once, shared, so that others may look at the same time.
    """
    path = folder / LOCK
    if path in _held:
        return False
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # no run has been here, or it is no lock
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(handle)
    return False
