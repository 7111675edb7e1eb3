"""Locks of outputs: files that exist while a job runs, held with flock and gone afterwards.

A lock ends with its process, however that ends; a file that a killed process leaves is taken over.
File systems without flock (some of those that several hosts share) are used without a lock.

A lock file begins with who made it, so that only files of ours are ever deleted. An empty one that
was there is used and left empty: it may be the lock of a run, or of other software.
"""

import contextlib
import errno
import fcntl
import logging
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from bertflow_jax.errors import WorkdirError

LOCK = ".lock"  # in an output folder
_log = logging.getLogger(__name__)
# How a lock file begins, the second one where it stays; of one length, because a job's identity
# follows at a fixed place.
_MADE, KEPT = b"bertflow_jax made  ", b"bertflow_jax found "
_OLDER = re.compile(rb"[0-9a-f]{64}")  # a whole file of an older version
_HOW = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # no wait at a pipe
_ENOUGH = 1000  # bytes that hold a mark and an identity


def lock_of(path: Path) -> Path:
    """Return the lock file of who writes an output file."""
    return path.with_name(f".{path.name}{LOCK}")


@contextlib.contextmanager
def sole_writer(path: Path, flag: str) -> Iterator[None]:
    """Hold a lock file; whoever else wants it is refused.

    Raises:
      WorkdirError: another process holds it, or it is not one of ours; names `flag` (as
        --output=FILE).
    """
    handle = _open(path, flag)
    try:
        while _lock(handle, fcntl.LOCK_EX, flag) and not _is_there(handle, path):
            handle = _reopened(handle, path, flag)  # its last holder has deleted it
        if not _content(handle):
            os.pwrite(handle, KEPT, 0)
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
      WorkdirError: processes of another job hold it, or it is not one of ours.
    """
    handle = _open(path, flag)
    try:
        while True:
            with contextlib.suppress(WorkdirError):
                # The first to come says whose the folder is, and lets its fellows in.
                if not _lock(handle, fcntl.LOCK_EX, flag):
                    break
                if _is_there(handle, path):
                    found = _content(handle)
                    mark = KEPT if not found or found.startswith(KEPT) else _MADE
                    os.truncate(handle, os.pwrite(handle, mark + identity.encode(), 0))
            fcntl.flock(handle, fcntl.LOCK_SH)
            if _is_there(handle, path):
                if _content(handle)[len(_MADE) :] == identity.encode():
                    break
                raise _in_use(flag)
            handle = _reopened(handle, path, flag)
        yield
    finally:
        _delete_if_sole(handle, path)
        os.close(handle)


def refuse_foreign_lock(path: Path, flag: str) -> None:
    """Raise WorkdirError for a lock file that is not one of ours, before any work; none is held.

    Args:
      path: of the lock file, which need not be there.
      flag: for the message, as --output=FOLDER.
    """
    if os.path.lexists(path):
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            os.close(_open_found(path, flag))


def _open(path: Path, flag: str) -> int:
    """Open a lock file, made if it is not there; raises WorkdirError for what is not ours."""
    while True:
        try:
            handle = os.open(path, _HOW | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                return _open_found(path, flag)
        else:
            try:
                os.pwrite(handle, _MADE, 0)
            except OSError as error:  # a full disk
                path.unlink(missing_ok=True)
                os.close(handle)
                raise WorkdirError(f"{flag}: {path} cannot be written: {error.strerror}") from error
            return handle


def _open_found(path: Path, flag: str) -> int:
    try:
        handle = os.open(path, _HOW)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise WorkdirError(f"{flag}: {path} cannot be opened: {error.strerror}") from error
        kind = "a link" if error.errno == errno.ELOOP else "no file"
        raise _not_ours(path, flag, kind) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _not_ours(path, flag, "no file")
    found = _content(handle)
    if found and not found.startswith((_MADE, KEPT)) and not _OLDER.fullmatch(found):
        os.close(handle)
        raise _not_ours(path, flag, "not a lock of ours")
    return handle


def _not_ours(path: Path, flag: str, what: str) -> WorkdirError:
    return WorkdirError(
        f"{flag}: {path} is {what}; if nothing else uses it, move it away, or name another output"
    )


def _reopened(handle: int, path: Path, flag: str) -> int:
    new = _open(path, flag)
    os.close(handle)
    return new


def _content(handle: int) -> bytes:
    return os.pread(handle, _ENOUGH, 0)


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
        return os.path.samestat(os.fstat(handle), os.lstat(path))
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
            if _content(handle).startswith(KEPT):
                os.truncate(handle, 0)
            else:
                path.unlink()
