"""That a step holds its own files and no others, looked at before orbax opens any of them.

A digest says what was read, but only afterwards: a link leads orbax out of the run, a pipe or a
device is waited for without end, and of a huge file the memory is taken at once.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

RECORDS = 1 << 26  # bytes that no record, and no description of arrays, comes near
_MOST_ENTRIES = 1 << 20


def check_files(step: Path, most: Mapping[str, int]) -> None:
    """Raise ValueError that names a file that is not one of the step's own.

    Args:
      step: folder of the step.
      most: name of an item that is read -> bytes that a file of it may have (`largest`).

    Raises:
      ValueError: a link, a pipe or a device, or a file that is larger than it can be.
      OSError: it cannot be looked at, or is not there.
    """
    if step.is_symlink():
        raise ValueError("it is a link; a step is a folder")
    entries = 0
    with os.scandir(step) as found:
        waiting = [(entry, most.get(entry.name)) for entry in found]
    while waiting:
        entry, bound = waiting.pop()
        if (entries := entries + 1) > _MOST_ENTRIES:
            raise ValueError(f"it holds more than {_MOST_ENTRIES} files")
        kind = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(kind.st_mode):
            if bound is None:
                continue  # an item that nobody reads
            with os.scandir(entry.path) as found:
                waiting += [(inner, bound) for inner in found]
            continue
        name = Path(entry.path).relative_to(step)
        if stat.S_ISLNK(kind.st_mode):
            raise ValueError(f"{name} is a link to {os.readlink(entry.path)}; files are needed")
        if not stat.S_ISREG(kind.st_mode):
            raise ValueError(f"{name} is a pipe or a device")
        # Arrays lie in folders `d`, and of those files parts are read; any other is read whole.
        bound = (bound or RECORDS) if name.parent.name == "d" else RECORDS
        if kind.st_size > bound:
            raise ValueError(f"{name} has {kind.st_size} bytes, and can have {bound} at most")


def largest(nbytes: int) -> int:
    """Return the bytes that a file of an item can have whose arrays have so many."""
    # Compressed arrays are about as large as they at worst; the rest is what describes them.
    return 2 * nbytes + RECORDS
