"""Folders that a command makes, and deletes again where it is refused."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from bertflow_jax.output_locks import LOCK

_made: list[Path] | None = None  # folders that `make_folder` has made, inside `folders_undone`


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
