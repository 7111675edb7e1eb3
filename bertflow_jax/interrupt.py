"""Ctrl-C: never swallowed, and where rows or steps are at stake, at a place where none are lost."""

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

_AGAIN = 0.05  # seconds after which a Ctrl-C that was swallowed is sent again
_pressed = threading.Event()
_heeding = threading.Event()


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
        self.requested = _pressed.is_set()  # where a library has caught it
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
        # The loop may have looked for the last time: whoever called it still has to know.
        if _heeding.is_set():
            _pressed.set()
        with contextlib.suppress(OSError):  # stderr may be closed
            os.write(2, self._notice)  # a print could come in the middle of another one

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed."""
        if self.requested:
            raise KeyboardInterrupt


def end_at_once() -> None:
    """Let Ctrl-C end the process with exit code 130, until `heeded`: nothing is at stake yet."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def _end(number: int, frame: object) -> None:
    with contextlib.suppress(OSError):
        os.write(2, b"interrupted\n")
    os._exit(130)


@contextlib.contextmanager
def heeded() -> Iterator[None]:
    """Let no Ctrl-C be swallowed, for the time of a command.

    Where Python cannot raise it (in a callback of the garbage collector, in a `__del__`) it prints
    "Exception ignored in" and goes on; here the signal is then sent once more.
    """
    hook, before = sys.unraisablehook, signal.getsignal(signal.SIGINT)

    tasks = logging.getLogger("asyncio")

    def press(number: int, frame: object) -> None:
        _pressed.set()
        # A checkpoint that is being read or written leaves tasks behind, told of with tracebacks.
        tasks.disabled = True
        raise KeyboardInterrupt

    def send_again(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            threading.Timer(_AGAIN, os.kill, (os.getpid(), signal.SIGINT)).start()
        else:
            hook(unraisable)

    # A process started in the background ignores Ctrl-C, which is meant for another one.
    ours = before in (signal.default_int_handler, _end)
    _pressed.clear()
    _heeding.set()
    sys.unraisablehook = send_again
    try:
        if ours:
            signal.signal(signal.SIGINT, press)
        yield
    finally:
        _heeding.clear()
        tasks.disabled = False
        sys.unraisablehook = hook
        if ours:
            signal.signal(signal.SIGINT, before)
        _pressed.clear()


def was_pressed() -> bool:
    """Whether Ctrl-C was pressed inside `heeded`."""
    return _pressed.is_set()
