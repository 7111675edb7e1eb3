"""Ctrl-C and SIGTERM: never swallowed, and at a place where no rows or steps are lost.

SIGTERM is how a scheduler tells that the machine is wanted elsewhere. Where there is nothing to
save, a command tidies up like after Ctrl-C (temporary files, processes of its own) and then dies of
it, which a shell sees as exit code 143.
"""

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

_AGAIN = 0.05  # seconds after which a signal that was swallowed is sent again
_PATIENCE = 10  # seconds in which SIGTERM must get through to Python, as it cannot in a device call
_pressed = threading.Event()
_terminated = threading.Event()
_command = threading.Event()  # set inside `heeded`


class Preempted(KeyboardInterrupt):
    """SIGTERM came and all is saved; like Ctrl-C it passes every `except Exception`."""


class Terminated(KeyboardInterrupt):
    """SIGTERM came where there is nothing to save."""


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
        # Where a library has caught it.
        self.terminated = _terminated.is_set()
        self.requested = self.terminated or _pressed.is_set()
        if threading.current_thread() is threading.main_thread():
            self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._handle)
            free = signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, _terminate)
            if self._preemptible and free:
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
def held() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait to the end of a few short steps that belong together.

    For files that change places, or one that is made and noted down: what the signals would cut in
    two. Other threads than the main one are never cut, and nothing is done there.
    """
    came: list[int] = []
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for kind in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(kind) not in (signal.SIG_IGN, None):
                before[kind] = signal.signal(kind, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in reversed(before.items()):
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


@contextlib.contextmanager
def handlers_kept() -> Iterator[None]:
    """Put back the handlers of Ctrl-C and SIGTERM that a library replaces inside."""
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


@contextlib.contextmanager
def heeded() -> Iterator[None]:
    """Let no Ctrl-C and no SIGTERM be swallowed, for the time of a command.

    Where Python cannot raise them (in a callback of the garbage collector, in a `__del__`) it
    prints "Exception ignored in" and goes on; here the signal is then sent once more.
    """
    hook, ended = sys.unraisablehook, False

    def send_again(unraisable: Any) -> None:
        number = signal.SIGINT
        if ended:  # somebody's own hook still leads here
            hook(unraisable)
            return
        if issubclass(unraisable.exc_type, Terminated):
            _terminated.clear()
            number = signal.SIGTERM
        elif not issubclass(unraisable.exc_type, KeyboardInterrupt):
            hook(unraisable)
            return
        threading.Timer(_AGAIN, os.kill, (os.getpid(), number)).start()

    _pressed.clear()
    _terminated.clear()
    _command.set()
    sys.unraisablehook = send_again
    try:
        with handlers_kept(), _watched():
            # A process started in the background ignores Ctrl-C, which is meant for another one.
            if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _end):
                signal.signal(signal.SIGINT, _press)
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, _terminate)
            yield
    finally:
        _command.clear()
        logging.getLogger("asyncio").disabled = False
        ended = True
        # A filter that was put before it inside is still needed: what it is for comes from threads
        # that end later than the command.
        if sys.unraisablehook is send_again:
            sys.unraisablehook = hook
        _pressed.clear()
        _terminated.clear()


def _press(number: int, frame: object) -> None:
    _pressed.set()
    # A checkpoint that is being read or written leaves tasks behind, told of with tracebacks.
    logging.getLogger("asyncio").disabled = True
    raise KeyboardInterrupt


def _terminate(number: int, frame: object) -> None:
    # Schedulers send several; the second one must not cut short what tidies up after the first.
    if not _terminated.is_set():
        _terminated.set()
        logging.getLogger("asyncio").disabled = True
        raise Terminated


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    """End the process where SIGTERM does not get through, as while it waits for other processes."""
    seen, told = os.pipe()
    os.set_blocking(told, False)
    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(seen,), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(told)


def _watch(seen: int) -> None:
    while number := os.read(seen, 1):
        if number[0] != signal.SIGTERM or _terminated.wait(_PATIENCE):
            continue
        if signal.getsignal(signal.SIGTERM) is _terminate:  # else somebody saves, or holds it
            os._exit(128 + signal.SIGTERM)
    os.close(seen)


def was_pressed() -> bool:
    """Whether Ctrl-C was pressed inside `heeded`."""
    return _pressed.is_set()


def was_terminated() -> bool:
    """Whether SIGTERM came inside `heeded`, with nothing to save."""
    return _terminated.is_set()


def die_terminated() -> NoReturn:
    """Die of SIGTERM, as if nobody had caught it."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.raise_signal(signal.SIGTERM)
    raise AssertionError("SIGTERM ends the process")
