"""Damaged data files of every kind that is read: what comes out is rows, or an error of ours.

A source writes valid files once; each case is a copy of them with one file damaged. Used by
`benchmarks.fuzz` together with the damaged weights of an encoder.
"""

import dataclasses
import functools
import gzip
import itertools
import logging
import math
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fuzz_case import Case
from benchmarks.fuzz_data_damage import Rng, damages_of
from bertflow_jax.data.sts import StsTask


@dataclasses.dataclass(frozen=True)
class Source:
    """Files that one reader reads.

    Attributes:
      name: of the reader.
      write: writes valid files into a folder.
      read: reads that folder, and checks what it gives.
    """

    name: str
    write: Callable[[Path], None]
    read: Callable[[Path], object]


def cases(folder: Path, rng: Rng) -> Iterator[Case]:
    """Yield damaged inputs without end, every kind of file in turn.

    Args:
      folder: an empty one; every case gets a folder of its own below it, which goes when the next
        case is asked for.
      rng: decides everything: the same state gives the same inputs.
    """
    from benchmarks import fuzz_data_folders, fuzz_data_texts

    sources = [*fuzz_data_texts.SOURCES, *fuzz_data_folders.sources()]
    templates = folder / "valid"
    for source in sources:
        (templates / source.name).mkdir(parents=True)
        source.write(templates / source.name)
        whole = folder / "whole" / source.name
        shutil.copytree(templates / source.name, whole)
        source.read(whole)  # what is whole must be read
        shutil.rmtree(whole)
    start = int(rng.integers(2**32))
    for number in itertools.count():
        # A generator of its own: a file that is longer today changes no other case.
        rng = np.random.default_rng((start, number))
        source = sources[number % len(sources)]
        place = folder / f"{number:06d}"
        shutil.copytree(templates / source.name, place)
        files = sorted(path for path in place.rglob("*") if path.is_file())
        path = files[int(rng.integers(len(files)))]
        damages = damages_of(path.name)
        damage = damages[int(rng.integers(len(damages)))]
        path.write_bytes(damage(rng, path.read_bytes()))
        what = f"{number}: {source.name}, {path.relative_to(place)} {damage.__name__}"
        yield Case(what, functools.partial(_read_quietly, source, place), place)
        shutil.rmtree(place)  # thousands of cases would be tens of thousands of files


def _read_quietly(source: Source, place: Path) -> object:
    """Read without the warnings, of which damaged files cause thousands."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        return source.read(place)
    finally:
        logging.disable(before)


def check_texts(texts: Iterable[object]) -> None:
    """Raise AssertionError unless all are strings of one line's or one field's text."""
    for text in texts:
        assert type(text) is str, f"a text is {type(text).__name__}"
        assert "\0" not in text, "a text holds a zero byte"


def check_numbers(values: Iterable[Any], low: float, high: float) -> None:
    """Raise AssertionError unless all are finite and in the range."""
    for value in values:
        assert math.isfinite(value), f"a score is {value}"
        assert low <= value <= high, f"a score is {value}, not from {low} to {high}"


def check_task(task: StsTask, high: float = 5.0) -> StsTask:
    """Check the pairs of a task."""
    for pairs in task.subsets.values():
        assert len(pairs.sentences1) == len(pairs.sentences2) == len(pairs.scores)
        assert pairs.scores.dtype == np.float64
        check_texts((*pairs.sentences1, *pairs.sentences2))
        check_numbers(pairs.scores, 0.0, high)
    assert len(task.sha256) == 64
    return task


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file, compressed where its name ends in .gz, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
