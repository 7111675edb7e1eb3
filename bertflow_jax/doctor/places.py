"""Folders that are filled while the package works: where, writable, and how much room."""

import os
import shutil
import stat
import tempfile
from pathlib import Path

from bertflow_jax.doctor.finding import Finding
from bertflow_jax.errors import ConfigError
from bertflow_jax.paths import compilation_cache_dir, default_cache_dir, lost_folder, user_path

_LEAST = 100 * 2**20  # bytes: less room than a small encoder and its compiled programs take


def find_places() -> list[Finding]:
    """Return the caches, and a current folder that is gone; nothing is made."""
    lost = lost_folder()
    found = [Finding("caches", "current folder", "gone", lost)] if lost else []
    for name, find, remedy in (
        (
            "Hub cache",
            _hub,
            "set HF_HUB_CACHE to another folder, or give encoders as local folders",
        ),
        ("compiled programs", _xla, "set BERTFLOW_COMPILATION_CACHE to another folder, or to off"),
        (
            "embeddings",
            default_cache_dir,
            "set XDG_CACHE_HOME, or --config.cache_dir and --cache_dir",
        ),
        ("TFDS data", _tfds, "set TFDS_DATA_DIR, or give --data_dir=tfds:DIR"),
    ):
        try:
            folder = find()
        except ConfigError as error:
            found.append(Finding("caches", name, "unknown", str(error)))
            continue
        if folder is None:
            found.append(Finding("caches", name, "off"))
        else:
            value, problem = look_at(folder)
            problem = problem and f"{name}: {folder} {problem}: {remedy}"
            found.append(Finding("caches", name, f"{folder} ({value})", problem))
    return found


def look_at(folder: Path) -> tuple[str, str]:
    """Return what is to be said of a folder, and what is wrong with it or ""."""
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        return f"{there} is no folder", f"cannot be used, because {there} is no folder"
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
        free = shutil.disk_usage(there).free
        mode = stat.S_IMODE(there.stat().st_mode)
    except OSError as error:
        said = error.strerror or str(error)
        return f"not writable: {said}", f"is not writable ({said})"
    state = f"permissions {mode:03o}" if there == folder else "not made yet"
    value = f"{state}, writable, {free / 2**30:.1f} GiB free"
    if free < _LEAST:
        return value, f"has {free // 2**20} MiB free, too few"
    if there == folder and mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        return value, f"can be written by every user of this machine (chmod o-w {folder})"
    return value, ""


def _hub() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def _xla() -> Path | None:
    # JAX's own variable comes before ours.
    own = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if own and "://" not in own:
        return Path(own)
    return compilation_cache_dir()


def _tfds() -> Path:
    return user_path(
        os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets", "TFDS_DATA_DIR", reading=False
    )
