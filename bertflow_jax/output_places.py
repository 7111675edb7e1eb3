"""Where outputs may not go: through links to files, in circles, among the checkpoints of a run."""

import errno
import os
import tempfile
from pathlib import Path

from bertflow_jax.errors import WorkdirError
from bertflow_jax.made_folders import make_folder
from bertflow_jax.paths import user_path

UNFINISHED = ".unfinished-"  # begins the name of a folder that `staging` fills


def refuse_link(path: Path, shown: str) -> None:
    """Raise WorkdirError where an output file is a link; `shown` is what the message calls it.

    To replace the link would leave the old content where the user looks for the new, and to write
    through it would change what may be used elsewhere, as the files of a cache are.
    """
    if os.path.islink(path):  # Path.is_symlink raises where the name is too long
        raise WorkdirError(
            f"{shown} is a link to {os.readlink(path)}{_how_it_ends(path)}; name what it leads to, "
            "or delete the link"
        )


def output_folder(folder: str | os.PathLike[str], flag: str = "--output") -> Path:
    """Return the absolute folder, made and shown to be writable.

    A folder may be a link to another one.

    Raises:
      WorkdirError: blank, a file, below a file, or not writable; it, or a folder above it, is a
        link in a circle or to nothing, or holds the checkpoints of a run; names `flag`.
    """
    path = user_path(folder, flag, reading=False).absolute()
    if not str(folder).strip():
        raise WorkdirError(f"{flag} is blank; name a folder")
    if "://" in str(folder):
        raise WorkdirError(f"{flag}={folder} is no folder of this machine, and no other is written")
    if os.path.isfile(path):
        raise WorkdirError(f"{flag}={folder} is a file; name a folder")
    check_ways(path, f"{flag}={folder}")
    try:
        make_folder(path)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        raise WorkdirError(
            f"{flag}={folder} is not writable ({error.strerror or error}); choose another folder"
        ) from error


def check_ways(path: Path, given: str) -> None:
    """Raise WorkdirError, which begins with `given`, for what may not lie on the way to a folder.

    Those are links in a circle or to nothing, and the checkpoints of a run.
    """
    for place in (path, *path.parents):
        end = _how_it_ends(place) if os.path.islink(place) else ""
        if end:
            raise WorkdirError(
                f"{given}: {place} is a link to {os.readlink(place)}{end}; name another folder, or "
                "delete the link"
            )
    real = Path(os.path.realpath(path))
    for place in (real, *real.parents):
        if _holds_checkpoints(place):
            raise WorkdirError(
                f"{given} lies in {place}, among the checkpoints of a run; name another folder"
            )


def check_empty(path: Path, given: str) -> None:
    """Raise WorkdirError, which shows `given`, where a folder is there and holds something."""
    # What `staging` leaves of a run that was killed is nothing.
    if path.is_dir() and any(not p.name.startswith(UNFINISHED) for p in path.iterdir()):
        raise WorkdirError(f"{given} is not empty; name another folder, or delete it")


def check_output_file(path: Path, flag: str) -> None:
    """Make the folder of an output file.

    Raises:
      WorkdirError: as `output_folder` and `refuse_link`.
    """
    refuse_link(path, f"{flag}={path}")
    output_folder(path.absolute().parent, f"the folder of {flag}")


def _how_it_ends(link: Path) -> str:
    """Return what a message adds about a link that leads to nothing, or ""."""
    try:
        os.stat(link)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return ", in a circle"
        return ", which is not there" if error.errno == errno.ENOENT else ""
    return ""


def _holds_checkpoints(folder: Path) -> bool:
    """Whether a folder is the checkpoints/ of a run, in which every step has its `state`."""
    if folder.name != "checkpoints":
        return False
    try:
        return any(
            name.isdecimal() and (folder / name / "state").is_dir() for name in os.listdir(folder)
        )
    except OSError:  # it is not there, or `output_folder` says why it cannot be used
        return False
