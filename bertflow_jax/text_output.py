"""Text written to files whole or not at all, with the permissions of other outputs."""

import os
import tempfile
from pathlib import Path

from bertflow_jax.errors import WorkdirError
from bertflow_jax.interrupt import held


def share(path: Path) -> None:
    """Give a file or folder that was made private the permissions of any other new one.

    What makes a temporary file makes it private; results are for sharing, as the user's mask says.

    Raises:
      OSError: it is gone, or another user's.
    """
    mask = os.umask(0)
    os.umask(mask)
    path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file through a temporary one beside it, so that no half file is ever left.

    A lone surrogate, as in a path whose bytes are not UTF-8, is written as its escape.

    Raises:
      WorkdirError: the file cannot be written.
    """
    temporary = None
    try:
        with held():
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            # In JSON the escape that this makes of a surrogate means that surrogate.
            with os.fdopen(handle, "w", -1, "utf-8", "backslashreplace", "\n") as file:
                file.write(text)
            share(Path(temporary))
            os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise WorkdirError(f"{path} cannot be written: {error.strerror or error}") from error
