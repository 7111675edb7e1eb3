"""Output folders: checked and made before any long work, without loading JAX."""

import os
import shutil
import tempfile
from pathlib import Path

from bertflow_jax.errors import ConfigError, WorkdirError


def prepare_output(folder: str | Path, flag: str = "--output") -> Path:
    """Return the absolute folder, made and shown to be writable.

    Raises:
      WorkdirError: blank, a file, below a file, or not writable; names `flag`.
    """
    if not str(folder).strip():
        raise WorkdirError(f"{flag} is blank; name a folder")
    path = Path(folder).expanduser().absolute()
    if os.path.isfile(path):
        raise WorkdirError(f"{flag}={folder} is a file; name a folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        raise WorkdirError(
            f"{flag}={folder} is not writable ({error.strerror or error}); choose another folder"
        ) from error


def prepare_workdir(workdir: str | Path, *, resume: bool, overwrite: bool) -> Path:
    """Return the absolute workdir of a run, emptied if asked.

    Raises:
      ConfigError: both flags are given.
      WorkdirError: as `prepare_output`, or not empty and neither flag given.
    """
    if resume and overwrite:
        raise ConfigError("--resume and --overwrite exclude each other: give one")
    folder = prepare_output(workdir, "--workdir")
    if any(folder.iterdir()) and not resume:
        if not overwrite:
            raise WorkdirError(
                f"--workdir={workdir} is not empty: give --resume to go on with the run in it, "
                "--overwrite to delete it, or another folder"
            )
        shutil.rmtree(folder)
        folder.mkdir()
    return folder
