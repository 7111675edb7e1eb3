"""What an export is for and where it goes, checked without loading JAX."""

import os
from collections.abc import Sequence
from pathlib import Path

from bertflow_jax.errors import ConfigError, WorkdirError
from bertflow_jax.output_places import check_empty, output_folder
from bertflow_jax.paths import user_path

PLATFORMS = ("cpu", "cuda", "tpu")
_KNOWN = (*PLATFORMS, "rocm")


def check_platforms(platforms: Sequence[str], name: str = "platforms") -> tuple[str, ...]:
    """Return the platforms; raises ConfigError for none, one twice, or an unknown one."""
    listed = isinstance(platforms, list | tuple) and all(isinstance(p, str) for p in platforms)
    if not listed or not platforms or set(platforms) - set(_KNOWN):
        given = ",".join(platforms) if listed else platforms
        raise ConfigError(f"{name}={given}: must be some of {', '.join(_KNOWN)}")
    if len(set(platforms)) < len(platforms):
        raise ConfigError(f"{name}={','.join(platforms)}: one is named twice")
    return tuple(platforms)


def place_of(folder: str | os.PathLike[str], flag: str = "--output") -> Path:
    """Return the absolute folder to write, which is not there yet or empty; its parent is made.

    Raises:
      WorkdirError: it holds something, is no folder, or its parent is not writable; names `flag`.
    """
    if not str(folder).strip():
        raise WorkdirError(f"{flag} is blank; name a folder")
    if "://" in str(folder):
        raise WorkdirError(f"{flag}={folder} is no folder of this machine, and no other is written")
    path = Path(os.path.abspath(user_path(folder, flag, reading=False)))
    target = output_folder(path.parent, flag) / path.name
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise WorkdirError(f"{flag}={folder} is no folder; name one that is not there yet")
    check_empty(target, f"{flag}={folder}")
    return target
