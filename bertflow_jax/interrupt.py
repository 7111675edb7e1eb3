"""Ctrl-C at a place where nothing is lost."""

import contextlib
import os
import signal
import threading
from typing import Any


class Interrupt:
    """Ctrl-C as a request that a loop looks at between two chunks.

    Raised wherever it happens to arrive, KeyboardInterrupt can be swallowed by a callback inside
    JAX, and the run would go on. A second Ctrl-C is raised at once.
    """

    def __init__(self, notice: str = "") -> None:
        """Take a notice that the first Ctrl-C writes to stderr."""
        self.requested = False
        self._notice = notice.encode()
        self._before: Any = None

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: object) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        with contextlib.suppress(OSError):  # stderr may be closed
            os.write(2, self._notice)  # a print could come in the middle of another one

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed."""
        if self.requested:
            raise KeyboardInterrupt
