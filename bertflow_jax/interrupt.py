"""Ctrl-C and SIGTERM: never swallowed, and at a place where no rows or steps are lost.

SIGTERM is how a scheduler tells that the machine is wanted elsewhere. Where nothing is at stake
(loading, embedding) it ends the process as ever, which a shell sees as exit code 143.
"""

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
_command = threading.Event()  # set inside `heeded`


class Preempted(KeyboardInterrupt):
    """SIGTERM came; like Ctrl-C it passes every `except Exception`."""


class Interrupt:
    """Ctrl-C and SIGTERM as requests that a loop looks at between two chunks.

    Raised wherever it happens to arrive, KeyboardInterrupt can be swallowed by a callback inside
    JAX, and the run would go on. A second Ctrl-C is raised at once; a second SIGTERM changes
    nothing, because schedulers send several and what is being saved must be completed.

    Attributes:
      requested: whether either has come.
      terminated: whether SIGTERM came first.
    """

    def __init__(self, notice: str = "", *, preemptible: bool = True, alone: bool = True) -> None:
        """Take a notice that the first request writes to stderr.

        Args:
          notice: the text.
          preemptible: take SIGTERM too; False where there is nothing to save. A program that
            handles SIGTERM itself keeps its handler.
          alone: False where other processes must stop at the same place: a second Ctrl-C then
            waits for it too.
        """
        self.requested = False
        self.terminated = False
        self._notice = notice.encode()
        self._preemptible, self._alone = preemptible, alone
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interrupt":
        self.requested = _pressed.is_set()  # where a library has caught it
        if threading.current_thread() is threading.main_thread():
            self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._handle)
            if self._preemptible and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                self._before[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            # A command on its way out after SIGTERM is not killed by the next one.
            if not (number == signal.SIGTERM and self.terminated and _command.is_set()):
                signal.signal(number, handler)

    def _handle(self, number: int, frame: object) -> None:
        if self.requested and number == signal.SIGINT and self._alone:
            raise KeyboardInterrupt
        if self.requested:
            return
        self.requested = True
        self.terminated = number == signal.SIGTERM
        # The loop may have looked for the last time: whoever called it still has to know.
        if _command.is_set() and not self.terminated:
            _pressed.set()
        with contextlib.suppress(OSError):  # stderr may be closed
            os.write(2, self._notice)  # a print could come in the middle of another one

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed, Preempted if SIGTERM came first."""
        if self.terminated:
            raise Preempted
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
    terminate = signal.getsignal(signal.SIGTERM)
    _pressed.clear()
    _command.set()
    sys.unraisablehook = send_again
    try:
        if ours:
            signal.signal(signal.SIGINT, press)
        yield
    finally:
        _command.clear()
        tasks.disabled = False
        sys.unraisablehook = hook
        if ours:
            signal.signal(signal.SIGINT, before)
        if signal.getsignal(signal.SIGTERM) is not terminate:
            signal.signal(signal.SIGTERM, terminate)
        _pressed.clear()


def was_pressed() -> bool:
    """Whether Ctrl-C was pressed inside `heeded`."""
    return _pressed.is_set()
