"""One piece of work at a time, beside the caller."""

import threading
from collections.abc import Callable


class Background:
    """Runs functions one after the other in a thread; what one raises comes out of the next wait.

    The thread is no daemon: an interpreter that ends by itself waits for it.
    """

    def __init__(self, name: str):
        """Take the name of the threads."""
        self._name = name
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Begin a piece of work once the one before has ended.

        Raises:
          BaseException: what the one before raised; `work` is not begun then.
        """
        self.wait()

        def run() -> None:
            try:
                work()
            except BaseException as error:
                self._error = error  # raised by `wait`, where somebody hears it

        self._thread = threading.Thread(target=run, name=self._name)
        self._thread.start()

    def wait(self) -> None:
        """Wait for the work under way; raise what it raised, once."""
        # From inside the work itself there is nothing to wait for.
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error
