"""Standard output and error that do not end a command: a reader that has gone, a full disk."""

import contextlib
import io
import os
import sys
from typing import Any

from bertflow_jax.errors import WorkdirError


class _Steady(io.FileIO):
    """A descriptor whose output is dropped once nobody reads it, as after `| head`."""

    def write(self, content: Any) -> int:
        """Write; raises WorkdirError, once, where the descriptor is of a disk that is full."""
        try:
            return super().write(content) or 0
        except OSError as error:
            # What is still to come goes nowhere: it would fail again while the process ends.
            with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), self.fileno())
            if isinstance(error, BrokenPipeError):
                return len(content)
            raise WorkdirError(
                f"standard output or error cannot be written: {error.strerror}"
            ) from error


def steady_streams() -> None:
    """Make sys.stdout and sys.stderr steady, and able to show any path.

    The work of a command is in its files: it goes on where nobody reads what it prints.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller, as with >&-
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif type(stream) is io.TextIOWrapper and stream is getattr(sys, f"__{name}__"):
            stream.flush()
            raw = _Steady(stream.fileno(), "wb", closefd=False)
            steady = io.TextIOWrapper(
                io.BufferedWriter(raw),
                stream.encoding,
                "backslashreplace",
                line_buffering=stream.line_buffering,
                write_through=stream.write_through,
            )
            setattr(sys, name, steady)
        elif isinstance(stream, io.TextIOWrapper):
            # A path that the terminal's encoding cannot show must not end the run.
            stream.reconfigure(errors="backslashreplace")
