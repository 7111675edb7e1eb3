"""Damaged files for every reader: an error of ours that names the file, or the right numbers.

    python -m benchmarks.fuzz --inputs=1200 --seed=0 [--only=weights|data|checkpoints]

Each part (`fuzz_weights`, `fuzz_data`, `fuzz_checkpoints`) is an endless stream of damaged inputs
(`fuzz_case.Case`); one seed gives one stream (of checkpoints only one like it). An input fails when
anything but a `BertFlowError` escapes its reader, when it reads and the part finds the values
wrong, when a file outside its folder is written or the working directory does not stay empty, when
the reader takes more than 4 GiB or more than a minute.
Prints every failure and what became of the others; exit code 1 where an input failed.
"""

import argparse
import collections
import contextlib
import dataclasses
import importlib
import io
import itertools
import logging
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.fuzz_case import Case
from bertflow_jax.errors import BertFlowError

PARTS = ("weights", "data", "checkpoints")
_MEMORY = 4 << 30  # bytes of address space that one input may take
_SECONDS = 60


@dataclasses.dataclass
class Report:
    """What became of the inputs.

    Attributes:
      inputs: how many were read.
      ends: name of our error, or `read` -> how many inputs.
      failures: a text for each input that failed.
    """

    inputs: int = 0
    ends: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    failures: list[str] = dataclasses.field(default_factory=list)


def fuzz(part: str, inputs: int, seed: int, place: Path) -> Report:
    """Read so many damaged inputs of one part; `place` is an empty folder for them."""
    cases = importlib.import_module(f"benchmarks.fuzz_{part}").cases
    (place / "inputs").mkdir()
    (place / "empty").mkdir()
    report = Report()
    with contextlib.chdir(place / "empty"), warnings.catch_warnings(), _quiet():
        warnings.simplefilter("ignore")
        for case in itertools.islice(cases(place / "inputs", np.random.default_rng(seed)), inputs):
            report.inputs += 1
            before = tree(place, case.folder)
            end, failure = _read(case)
            report.ends[end] += 1
            after = tree(place, case.folder)
            if not failure and after != before:
                failure = f"written outside its folder: {sorted(set(after) ^ set(before))}"
            if failure:
                report.failures.append(f"{case.name}: {failure}")
    return report


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Show no warnings of the package, as of every damaged step that is passed over."""
    logger = logging.getLogger("bertflow_jax")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _read(case: Case) -> tuple[str, str | None]:
    """Return how reading a case ended, and what is wrong with that."""
    try:
        with limits(), contextlib.redirect_stdout(io.StringIO()):
            case.read()
    except BertFlowError as error:
        return type(error).__name__, None
    except Exception as error:  # any other one is what is looked for
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {str(error)[:300]} ({where.filename}:{where.lineno})"
        return "failed", text
    return "read", None


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """Make what takes too much memory a MemoryError, and what takes too long a TimeoutError."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"more than {_SECONDS} s")

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + _MEMORY
    handler = signal.signal(signal.SIGALRM, late)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def tree(place: Path, without: Path | None = None) -> dict[str, tuple[int, int]]:
    """Return path -> (size, time of change in ns) of every file, `without` one folder's."""
    found = {}
    for folder, names, files in os.walk(place):
        names[:] = [name for name in names if Path(folder, name) != without]
        for name in (*names, *files):
            status = os.lstat(os.path.join(folder, name))
            size = 0 if name in names else status.st_size
            found[os.path.join(folder, name)] = (size, status.st_mtime_ns * (name in files))
    return found


def main() -> None:
    """Run all parts, or the one that is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--inputs", type=int, default=1200, help="damaged inputs of each part; default: 1200"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the damage; default: 0")
    parser.add_argument("--only", choices=PARTS, help="one part alone; default: all")
    options = parser.parse_args()
    failed = False
    for part in [options.only] if options.only else PARTS:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="bertflow-jax-fuzz-") as place:
            report = fuzz(part, options.inputs, options.seed, Path(place))
        seconds = time.perf_counter() - start
        ends = ", ".join(f"{count} {end}" for end, count in report.ends.most_common())
        print(f"{part}: {report.inputs} inputs in {seconds:.0f} s: {ends}")
        for failure in report.failures:
            print(f"  failed: {failure}")
        failed |= bool(report.failures)
    sys.exit(failed)


if __name__ == "__main__":
    main()
