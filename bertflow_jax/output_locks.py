"""Locks of outputs: files that exist while a job runs, held with flock and gone afterwards.

A lock ends with its process, however that ends; a file that a killed process leaves is taken over.
File systems without flock (some of those that several hosts share) are used without a lock.
"""

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from bertflow_jax.errors import WorkdirError

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def sole_writer(path: Path, flag: str) -> Iterator[None]:
    """Hold a lock file; whoever else wants it is refused.

    Raises:
      WorkdirError: another process holds it; names `flag` (as --output=FILE).
    """
    handle = _open(path)
    try:
        while _lock(handle, fcntl.LOCK_EX, flag) and not _is_there(handle, path):
            os.close(handle)  # its last holder has deleted it
            handle = _open(path)
        yield
    finally:
        _delete_if_sole(handle, path)
        os.close(handle)


@contextlib.contextmanager
def same_job(path: Path, identity: str, flag: str) -> Iterator[None]:
    """Hold a lock file together with the other processes of one job; another job is refused.

    Args:
      path: of the lock file, which says whose it is.
      identity: of the job.
      flag: for the message, as --output=FOLDER.

    Raises:
      WorkdirError: processes of another job hold it.
    """
    handle = _open(path)
    try:
        while True:
            with contextlib.suppress(WorkdirError):
                # The first to come says whose the folder is, and lets its fellows in.
                if not _lock(handle, fcntl.LOCK_EX, flag):
                    break
                if _is_there(handle, path):
                    os.truncate(handle, 0)
                    os.pwrite(handle, identity.encode(), 0)
            fcntl.flock(handle, fcntl.LOCK_SH)
            if _is_there(handle, path):
                if os.pread(handle, 1000, 0) == identity.encode():
                    break
                raise _in_use(flag)
            os.close(handle)
            handle = _open(path)
        yield
    finally:
        _delete_if_sole(handle, path)
        os.close(handle)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def _lock(handle: int, kind: int, flag: str) -> bool:
    """Lock a file; return False where its file system knows no locks."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise _in_use(flag) from error
    except OSError as error:
        _log.warning("%s is not locked: %s; run one job at a time there", flag, error.strerror)
        return False
    return True


def _in_use(flag: str) -> WorkdirError:
    return WorkdirError(
        f"{flag} is being written by another job; wait for it, or name another output"
    )


def _is_there(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _delete_if_sole(handle: int, path: Path) -> None:
    with contextlib.suppress(OSError):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # held by a fellow, who deletes it
        except OSError:
            pass  # no locks here: nobody holds it
        if _is_there(handle, path):
            path.unlink()
