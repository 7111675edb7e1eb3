"""Outputs of several files: written aside, then moved to their place together.

What ends a command before that (an error, Ctrl-C, SIGTERM) leaves the place as it was, and nothing
beside it. Only SIGKILL leaves a folder whose name begins with a dot, which no reader takes for an
output.
"""

import contextlib
import errno
import glob
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bertflow_jax.errors import WorkdirError, refusal
from bertflow_jax.interrupt import held
from bertflow_jax.output_places import UNFINISHED, refuse_link
from bertflow_jax.text_output import share

_RANDOM = re.compile(r"[a-z0-9_]{8}")  # what mkstemp puts behind a prefix


def new_beside(path: Path) -> Path:
    """Return a new empty file `.NAME.unfinished-...` beside a path, private until it is shared.

    Its name cannot be known before, so that no link lies there which leads elsewhere.

    Raises:
      OSError: it cannot be made.
    """
    handle, made = tempfile.mkstemp(prefix=_prefix(path), dir=path.parent)
    os.close(handle)
    return Path(made)


def remove_left_beside(path: Path) -> None:
    """Delete what `new_beside` made for a path in a process that was killed.

    For who holds the lock of the path alone.

    Raises:
      OSError: one cannot be deleted.
    """
    for left in path.parent.glob(f"{glob.escape(_prefix(path))}*"):
        if _RANDOM.fullmatch(left.name.removeprefix(_prefix(path))) and not left.is_symlink():
            left.unlink(missing_ok=True)


def _prefix(path: Path) -> str:
    return f".{path.name}{UNFINISHED}"


@contextlib.contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """Yield a new folder that takes the target's place at the end.

    Args:
      target: not there yet, or an empty folder; its parent is there.

    Raises:
      WorkdirError: something cannot be written.
    """
    try:
        with _temporary(target.parent, f".{target.name}{UNFINISHED}") as new:
            with _named(new, target):
                yield new
            with held():
                share(new)
                os.rename(new, target)  # an empty folder gives way
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise WorkdirError(
                f"{target} was written by another command meanwhile and stays as it is; name "
                "another folder"
            ) from error
        raise WorkdirError(f"{target} cannot be written: {refusal(error)}") from error


@contextlib.contextmanager
def files_together(folder: Path, before: Callable[[], object] = lambda: None) -> Iterator[Path]:
    """Yield a new folder whose files move into a folder that is there, all of them at the end.

    Files of the same names are replaced, others stay.

    Args:
      folder: where they go.
      before: called just before they move, to delete what is not to stay beside them.

    Raises:
      OSError: something cannot be written.
      WorkdirError: a file that is to be replaced, or a folder inside, is a link; nothing has moved
        then.
    """
    with _temporary(folder, UNFINISHED) as new:
        with _named(new, folder):
            yield new
        with held():
            for path in sorted(new.rglob("*")):
                place = folder / path.relative_to(new)
                refuse_link(place, str(place))
            before()
            for path in sorted(new.rglob("*")):  # folders before what is in them
                place = folder / path.relative_to(new)
                if path.is_dir():
                    place.mkdir(exist_ok=True)
                else:
                    os.replace(path, place)


@contextlib.contextmanager
def _named(new: Path, final: Path) -> Iterator[None]:
    """Let messages name the folder that was asked for: the other one is gone when they are read."""
    try:
        yield
    except WorkdirError as error:
        raise WorkdirError(str(error).replace(str(new), str(final))) from error


@contextlib.contextmanager
def _temporary(parent: Path, prefix: str) -> Iterator[Path]:
    new = None
    try:
        with held():  # it is made and known, or neither
            new = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        yield new
    finally:
        with held():
            if new is not None:
                shutil.rmtree(new, ignore_errors=True)
