"""Progress bars: redrawn on a terminal, a line now and then where stderr goes to a file."""

import sys
import time
from typing import Any, TextIO

from tqdm import tqdm

from bertflow_jax.checks import check_switch

LINE_SECONDS = 30.0


def progress_bar(**options: Any) -> tqdm:
    """Return a tqdm bar on stderr; takes tqdm's own options."""
    if not sys.stderr.isatty():
        options["file"] = LineFile(sys.stderr)
    return tqdm(**options)


class LineFile:
    """Takes the drawings of a bar and writes the newest one as a line of its own.

    A bar that is redrawn at every step fills a log file; here a line is written every
    `LINE_SECONDS` at most, and one when the bar ends.
    """

    def __init__(self, file: TextIO):
        """Take the file that gets the lines."""
        self._file = file
        self._newest = self._written = ""
        self._since = time.monotonic()

    def write(self, text: str) -> int:
        """Take one drawing, or the line end that closes a bar."""
        drawn = text.strip()
        self._newest = drawn or self._newest
        if text == "\n" or time.monotonic() - self._since >= LINE_SECONDS:
            self._since = time.monotonic()
            if self._newest != self._written:
                self._written = self._newest
                self._file.write(f"{self._newest}\n")
                self._file.flush()
        return len(text)

    def flush(self) -> None:
        """Do nothing: a line is flushed when it is written."""

    def isatty(self) -> bool:
        """Return False."""
        return False


def text_progress_bar(total: int | None, show: bool | None) -> tqdm:
    """Return the bar of a number of texts; None shows it on a terminal where there are many."""
    if show is not None:
        show = check_switch(show, "show_progress")
    # disable=None: tqdm shows the bar only on a terminal.
    disable = (None if total is None or total > 1000 else True) if show is None else not show
    return progress_bar(total=total, unit="text", desc="embed", disable=disable)
