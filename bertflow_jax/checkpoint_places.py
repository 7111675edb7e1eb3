"""Folders in which no checkpoint can be written, whatever they hold."""

import re
from pathlib import Path

from bertflow_jax.errors import WorkdirError

# TensorStore takes a backslash for a slash, and so writes into another folder; orbax looks for what
# it has written with a pattern of the shell's.
_UNUSABLE = (("a backslash", re.compile(r"\\")), ("a pair of brackets", re.compile(r"\[.*\]")))


def check_place(folder: Path, given: str) -> None:
    """Raise WorkdirError where checkpoints below a folder would go elsewhere or could not be read.

    Args:
      folder: absolute.
      given: what the message begins with.
    """
    path = str(folder)
    found = [what for what, pattern in _UNUSABLE if pattern.search(path)]
    try:
        path.encode()
    except UnicodeEncodeError:
        found.append("a byte that is not UTF-8")
    if found:
        shown = path.encode(errors="backslashreplace").decode()
        raise WorkdirError(
            f"{given}: the path {shown} has {' and '.join(found)} in it, and checkpoints cannot be "
            "written there; name another folder"
        )
