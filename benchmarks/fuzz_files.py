"""Damage to one file of a folder, for the parts of `benchmarks.fuzz` that read whole folders.

Each takes the file, the folder (for the text) and random numbers, and says what it did.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.fuzz_weight_damage import damages


def swap(file: Path, files: Sequence[Path], folder: Path, rng: np.random.Generator) -> str:
    """Give a file the content of one of `files`, and that one its own."""
    beside = files[rng.integers(len(files))]
    first, second = file.read_bytes(), beside.read_bytes()
    file.write_bytes(second)
    beside.write_bytes(first)
    return f"{file.relative_to(folder)} and {beside.relative_to(folder)} swapped"


def replace(file: Path, folder: Path, rng: np.random.Generator) -> str:
    """Put a folder, a link to itself or nothing in a file's place."""
    file.unlink()
    kind = rng.integers(3)
    if kind == 0:
        file.mkdir()
    elif kind == 1:
        file.symlink_to(file.name)
    return f"{file.relative_to(folder)} is {('a folder', 'a link to itself', 'missing')[kind]}"


def change(file: Path, folder: Path, rng: np.random.Generator, name: str) -> str:
    """Change a file's content by one of the damages that a file called `name` can have."""
    data = file.read_bytes()
    known = damages(name, data)
    how = list(known)[rng.integers(len(known))]
    file.write_bytes(known[how](data or b"\0", rng))
    return f"{file.relative_to(folder)}: {how}"
