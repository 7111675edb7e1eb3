"""Links that pyarrow passes over, or follows without end, and names that it cannot read."""

import os
from collections.abc import Callable

from bertflow_jax.errors import DataError, DataNotFoundError
from bertflow_jax.paths import is_utf8


def check_links(root: str, meant: Callable[[str], bool], recursive: bool) -> None:
    """Raise for a link whose file is lost, or that leads back to a folder that it lies in, ...

    ... and for an input whose name, or that of a folder above it, is not UTF-8.

    Args:
      root: folder of this machine; one that is not there has no links.
      meant: whether a path is one of the inputs.
      recursive: whether the folders below are looked through too.

    Raises:
      DataNotFoundError: a link to nothing; its rows would be missing from the outputs.
      DataError: a circle; its files would be found as often as the system follows it. Or a name
        that pyarrow cannot read.
    """
    for folder, names, files in os.walk(root, followlinks=recursive):
        if not recursive:
            names.clear()
        for name in list(names):
            path = os.path.join(folder, name)
            if name.startswith(("_", ".")):
                names.remove(name)
            elif os.path.islink(path) and os.path.realpath(path) in _ancestors(root, folder):
                raise DataError(
                    f"{path} is a link to {os.readlink(path)}, a folder that it lies in; delete "
                    "the link, or name the files by a glob without **"
                )
        for name in files:
            path = os.path.join(folder, name)
            if not is_utf8(path) and meant(path):
                raise DataError(
                    f"{path}: the path is not valid UTF-8, and Arrow knows no other; rename it"
                )
            if os.path.islink(path) and not os.path.exists(path) and meant(path):
                raise DataNotFoundError(
                    f"{path} is a link to {os.readlink(path)}, which is not there; bring the file "
                    "back, or delete the link"
                )


def _ancestors(root: str, folder: str) -> set[str]:
    """Return where a folder and those above it really are, up to the root."""
    found = {os.path.realpath(root)}
    while len(folder) > len(root):
        found.add(os.path.realpath(folder))
        folder = os.path.dirname(folder)
    return found
