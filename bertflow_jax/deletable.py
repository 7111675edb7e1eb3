"""Whether all that lies in a folder can be deleted, known before the first deletion."""

import os
import stat
from pathlib import Path

from bertflow_jax.errors import WorkdirError
from bertflow_jax.paths import may


def check_deletable(folder: Path, given: str) -> None:
    """Raise WorkdirError, which begins with `given`, where something in a folder cannot be deleted.

    What had been deleted until then would be lost, and what is left would be half a run. A folder
    needs to be listed, searched and written; of a sticky one (as /tmp) each deletes the own files.
    Links are deleted, not followed.

    Args:
      folder: that is emptied; it stays itself.
      given: what the message begins with, as --workdir=FOLDER.
    """

    def refuse(path: str | Path, why: str) -> None:
        raise WorkdirError(
            f"{given}: {path} cannot be deleted ({why}), so nothing was; mend that, delete it "
            "yourself, or name another folder"
        )

    def unlisted(error: OSError) -> None:
        refuse(error.filename, error.strerror or str(error))

    for place, folders, files in os.walk(folder, onerror=unlisted):
        if not folders and not files:
            continue
        if not may(place, os.W_OK | os.X_OK):
            refuse(Path(place) / min([*files, *folders]), f"{place} is read-only")
        for name in (*folders, *files):
            path = Path(place) / name
            if os.path.ismount(path):
                refuse(path, "another file system is mounted there")
            if _is_of_another(place, path):
                refuse(path, f"it belongs to another user, and {place} is sticky")


def _is_of_another(place: str, path: Path) -> bool:
    """Return whether the sticky bit of a folder keeps this user from deleting what is in it."""
    above = os.stat(place)
    owners = (0, above.st_uid)
    if not above.st_mode & stat.S_ISVTX or os.geteuid() in owners:
        return False
    return os.geteuid() != os.lstat(path).st_uid
