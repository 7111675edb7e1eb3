"""Files written whole or not at all, with the permissions of other outputs."""

import os
import tempfile
from pathlib import Path

from bertflow_jax.errors import WorkdirError
from bertflow_jax.interrupt import held
from bertflow_jax.output_places import refuse_link


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
    """Write a UTF-8 file as `write_bytes` does.

    A lone surrogate, as in a path whose bytes are not UTF-8, is written as its escape.

    Raises:
      WorkdirError: the file cannot be written, or is a link.
    """
    # In JSON the escape that this makes of a surrogate means that surrogate.
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file through a temporary one beside it, so that no half file is ever left.

    Raises:
      WorkdirError: the file cannot be written, or is a link.
    """
    refuse_link(path, str(path))
    temporary = None
    try:
        with held():
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            share(Path(temporary))
            os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise WorkdirError(f"{path} cannot be written: {error.strerror or error}") from error
