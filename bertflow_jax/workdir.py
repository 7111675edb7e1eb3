"""Workdirs of runs: checked, locked and emptied before any long work, without loading JAX."""

import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from bertflow_jax.checkpoint_paths import refuse_path
from bertflow_jax.deletable import check_deletable
from bertflow_jax.errors import ConfigError, WorkdirError
from bertflow_jax.output_locks import LOCK
from bertflow_jax.output_places import output_folder, refuse_link
from bertflow_jax.paths import file_kind
from bertflow_jax.remote.address import Address, remote_address
from bertflow_jax.step_names import UNFINISHED_SAVE, is_step
from bertflow_jax.supervision_config import comma_separated

_log = logging.getLogger(__name__)
CHECKPOINTS = "checkpoints"
METRICS_FILE = "metrics.jsonl"
NEW_METRICS = "metrics.tmp"  # of a run that goes on, until it takes the place of the older ones
ENCODER_FOLDER = "encoder"  # of a run that trains one
NEW_ENCODER = f"{ENCODER_FOLDER}.new"
_REPLACED = (METRICS_FILE, NEW_METRICS, ENCODER_FOLDER, NEW_ENCODER)
_BEFORE_A_CHECKPOINT = {LOCK, METRICS_FILE, NEW_METRICS, "tensorboard", CHECKPOINTS}


def prepare_workdir(workdir: str | Path, *, resume: bool, overwrite: bool) -> Path | Address:
    """Return the absolute workdir of a run; nothing in it is touched yet.

    Raises:
      ConfigError: both flags are given; an address without the extra `gcs`.
      DataNotFoundError: an address in a bucket that does not exist.
      WorkdirError: as `output_folder` and `refuse_path`; a file that is replaced is a link or a
        pipe; not empty and neither flag given; --overwrite of a folder that holds other things than
        a run, that the current or the home folder lies in, or that cannot be emptied.
    """
    if resume and overwrite:
        raise ConfigError("--resume and --overwrite exclude each other: give one")
    if (address := remote_address(workdir, "--workdir")) is not None:
        from bertflow_jax.remote.workdir import prepare_remote

        prepare_remote(address, resume=resume, overwrite=overwrite)
        return address
    folder = output_folder(workdir, "--workdir")
    refuse_path(folder, f"--workdir={workdir}")
    saves = folder / CHECKPOINTS
    if os.path.lexists(saves) and not saves.is_dir():
        raise WorkdirError(f"--workdir={workdir}: {saves} is no folder; move it away")
    if resume or not _holds_a_run(folder):
        for name in () if overwrite else _REPLACED:  # --overwrite deletes links too
            refuse_link(folder / name, f"--workdir={workdir}: {name}")
            if file_kind(folder / name) == "other":
                raise WorkdirError(
                    f"--workdir={workdir}: {name} is a pipe or a device; move it away"
                )
        if overwrite:
            check_deletable(folder, f"--workdir={workdir} --overwrite")
        return folder
    if not overwrite:
        raise WorkdirError(
            f"--workdir={workdir} is not empty: give --resume to go on with the run in it, "
            "--overwrite to delete it, or another folder"
        )
    for kept in (os.getcwd(), os.path.expanduser("~")):  # Path.home fails where there is none
        if Path(kept).resolve().is_relative_to(folder.resolve()):
            raise WorkdirError(f"--workdir={workdir} --overwrite would delete {kept}")
    if not _is_run(folder):
        raise WorkdirError(
            f"--workdir={workdir} --overwrite would delete a folder that is no run's, for it has "
            f"neither checkpoints of ours nor {METRICS_FILE}; empty it yourself, or name another"
        )
    check_deletable(folder, f"--workdir={workdir} --overwrite")
    return folder


def _holds_a_run(folder: Path) -> bool:
    """Return whether there is more than a run leaves that was stopped before its first checkpoint.

    Killed inside that save, it leaves the save's temporary folder.
    """
    if not {path.name for path in listed(folder)} <= _BEFORE_A_CHECKPOINT:
        return True
    saves = folder / CHECKPOINTS
    return saves.is_dir() and any(UNFINISHED_SAVE not in path.name for path in listed(saves))


def folder_to_save(folder: str | os.PathLike[str], flag: str = "--output") -> Path:
    """Return `output_folder` of a model: no run's, whose next start would delete the model.

    Raises:
      WorkdirError: as `output_folder`, or it is the workdir of a run.
    """
    path = output_folder(folder, flag)
    if _is_run(path):
        raise WorkdirError(
            f"{flag}={folder} is the folder of a run, whose next start with --overwrite "
            "would delete what is saved there; name another folder"
        )
    return path


def _is_run(folder: Path) -> bool:
    """Return whether a run has been in a folder: it may have been one of the user's, mistyped."""
    saves = folder / CHECKPOINTS
    return (folder / METRICS_FILE).is_file() or (
        saves.is_dir()
        and any(is_step(path.name) or UNFINISHED_SAVE in path.name for path in listed(saves))
    )


def listed(folder: Path) -> list[Path]:
    """Return what lies in a folder of a run, [] where there is none, or it was deleted just now.

    Raises:
      WorkdirError: that cannot be known.
    """
    try:
        os.stat(f"{folder}/.")  # of what lies in one that can only be listed nothing can be known
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise WorkdirError(
            f"{folder} cannot be read: {error.strerror}; mend that, or name another folder"
        ) from error


def clear_workdir(folder: Path) -> None:
    """Delete what is in a folder, not the folder itself (it may be a link or a mount).

    Raises:
      WorkdirError: something in it cannot be deleted; where that can be known before, nothing is.
    """
    check_deletable(folder, f"--workdir={folder}")
    try:
        for path in [path for path in folder.iterdir() if path.name != LOCK]:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    except OSError as error:
        raise WorkdirError(f"--workdir={folder} cannot be emptied: {error}") from error


def check_inputs_outside(folder: Path | Address, inputs: Mapping[str, str]) -> None:
    """Raise WorkdirError if --overwrite of a folder would delete an input of the run.

    Args:
      folder: the workdir; in a bucket there are no inputs.
      inputs: name of the config field -> path, or several with commas between them; what is no
        path on this machine is ignored.
    """
    if isinstance(folder, Address):
        return
    for name, given in inputs.items():
        for path in [given] if os.path.exists(given) else comma_separated(given):
            if os.path.exists(path) and Path(path).resolve().is_relative_to(folder.resolve()):
                raise WorkdirError(f"--workdir={folder} --overwrite would delete {name}={path}")
