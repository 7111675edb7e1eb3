"""One damaged input of the fuzz benchmark: what is read, and where a reader may write."""

import dataclasses
from collections.abc import Callable
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Case:
    """One input: `read()` reads it and returns what it read or raises an error of ours.

    `name` says which reader and which damage, so that a failure can be made again from the seed;
    `folder` holds the input, and nothing may be written outside it. `read` raises AssertionError
    where a file reads but gives rows of the wrong types or values.
    """

    name: str
    read: Callable[[], object]
    folder: Path
