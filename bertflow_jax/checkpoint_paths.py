"""Paths that checkpoints cannot be saved below: TensorStore and orbax take them for others."""

import re
from pathlib import Path

from bertflow_jax.errors import WorkdirError
from bertflow_jax.paths import is_utf8


def refuse_path(folder: Path, given: str, *, reading: bool = False) -> None:
    r"""Raise WorkdirError, which begins with `given`, where no checkpoint can be in a folder.

    TensorStore takes a backslash for a slash, and so would write into another folder; `[...]` for a
    pattern of what an older save has left; and orbax a folder named `gs:` for a bucket.

    Args:
      folder: absolute.
      given: what the message begins with.
      reading: whether checkpoints are only read, which `[...]` does not hinder.
    """
    path = f"{folder}/"  # there is always something below it
    if not is_utf8(path):
        fault = "is not valid UTF-8"
    elif "\\" in path:
        fault = "holds a backslash"
    elif not reading and re.search(r"\[.*\]", path, re.DOTALL):
        fault = "holds [ and, later, ]"
    elif "gs:/" in path:
        fault = "has a folder whose name ends in gs:"
    else:
        return
    what = "read" if reading else "saved"
    raise WorkdirError(
        f"{given}: the path {folder} {fault}, and below such a path no checkpoint can be {what}; "
        "rename it, or name another folder"
    )
