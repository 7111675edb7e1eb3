"""Scored sentence pairs: STS 2012 to 2016, STS Benchmark, SICK-R and the bundled pairs."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.data import sts_files, sts_years
from bertflow_jax.data.lines import digest, read_lines
from bertflow_jax.data.published_sizes import data_note
from bertflow_jax.data.sts_files import STS_YEARS, Row
from bertflow_jax.data.tfds_builders import reader, tfds_folder
from bertflow_jax.errors import DataError
from bertflow_jax.paths import user_path

EVERYDAY = Path(__file__).parent / "corpus" / "everyday.tsv"
TASKS = ("stsb", "sickr", *STS_YEARS, "everyday")
_MAX_SCORE = 5.0


@dataclasses.dataclass(frozen=True)
class ScoredPairs:
    """The scored pairs of one subset, in file order, repeated pairs included.

    Attributes:
      name: of the subset.
      sentences1: N texts.
      sentences2: N texts.
      scores: float64[N], gold similarity from 0 (unrelated) to 5 (same meaning).
    """

    name: str
    sentences1: list[str]
    sentences2: list[str]
    scores: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.sentences1)


@dataclasses.dataclass(frozen=True)
class StsTask:
    """A task: one or more subsets that are scored one by one and together.

    Attributes:
      name: one of `TASKS`.
      subsets: by name; never empty, but a subset may hold no scored pair.
      notes: what a reader of the scores should know about the data, in plain sentences.
    """

    name: str
    subsets: dict[str, ScoredPairs]
    notes: tuple[str, ...] = ()

    @cached_property
    def sentences(self) -> list[str]:
        """The distinct sentences of the scored pairs, in an order fixed by the files."""
        texts = (
            text for pairs in self.subsets.values() for text in pairs.sentences1 + pairs.sentences2
        )
        return list(dict.fromkeys(texts))

    @property
    def pairs(self) -> int:
        """Number of scored pairs."""
        return sum(len(pairs) for pairs in self.subsets.values())

    @cached_property
    def sha256(self) -> str:
        """Digest of subset names, sentences and scores: two equal digests are the same task."""
        return digest(
            (name, first, second, repr(float(score)))
            for name, pairs in self.subsets.items()
            for first, second, score in zip(
                pairs.sentences1, pairs.sentences2, pairs.scores, strict=True
            )
        )


def load_task(
    name: str,
    data_dir: str | Path | None = None,
    splits: Sequence[str] = ("test",),
    smt: bool = False,
    encoding: str = "utf-8",
) -> StsTask:
    """Read a task.

    Args:
      name: one of `TASKS`. `everyday`, the bundled pairs, needs no data_dir and has no splits.
      data_dir: folder with `STS/`, `STSBenchmark/` and `SICK/`, or the task's own folder;
        `tfds:DIR` takes data prepared by `data.tfds_builders` (or GLUE's stsb) in DIR.
      splits: of `train`, `dev`, `test`; several are joined into one set. Years have `test` only.
      smt: whether STS 2013 includes its SMT subset, where it is present.
      encoding: of the text files.

    Returns:
      The scored pairs. A blank gold score means "not scored": the pair is left out and counted in
      the notes. The sizes of the published sets: STS12 3108, STS13 1500, STS14 3750, STS15 3000,
      STS16 1186, STS-B 5749 / 1500 / 1379, SICK 4500 / 500 / 4927.

    Raises:
      DataError, DataNotFoundError: naming the file and line, or the folder that was looked for.
    """
    if name == "everyday":
        return StsTask(name, {name: _scored(name, _everyday_rows())})
    if data_dir is None or not str(data_dir).strip():
        raise DataError(f"task {name} needs a data folder: give --data_dir (data_dir=...)")
    prepared = tfds_folder(data_dir, "--data_dir")
    if prepared is not None:
        rows = reader.read_rows(prepared, name, splits, "--splits")
    else:
        rows = read_task_rows(user_path(data_dir, "--data_dir"), name, splits, smt, encoding)
    subsets = {subset: _scored(subset, kept) for subset, kept in rows.items()}
    unscored = _unscored_note([row for kept in rows.values() for row in kept])
    return StsTask(name, subsets, (*data_notes(name, subsets), *unscored))


def read_task_rows(
    data_dir: Path, name: str, splits: Sequence[str], smt: bool = False, encoding: str = "utf-8"
) -> dict[str, list[Row]]:
    """Return the rows of a task's text files by subset; see `load_task`.

    A year has its subsets, in sorted order; STS-B and SICK have one, named after the splits.
    """
    folder = sts_files.task_folder(data_dir, name)
    sts_files.check_splits(name, splits, "--splits")
    if name in STS_YEARS:
        names = sts_years.subset_names(folder, smt)
        if not names:
            raise DataError(f"{folder} holds no subset of {name} besides ALL and SMT")
        return {subset: sts_years.read_year_rows(folder, subset, encoding) for subset in names}
    read = sts_files.read_stsb_rows if name == "stsb" else sts_files.read_sick_rows
    return {"+".join(splits): [row for split in splits for row in read(folder, split, encoding)]}


def data_notes(name: str, subsets: Mapping[str, ScoredPairs]) -> list[str]:
    """Return what a reader of the scores should know of which pairs there are."""
    unlike = data_note(name, {subset: len(pairs) for subset, pairs in subsets.items()})
    notes = [] if unlike is None else [unlike]
    if name == "sts13" and "SMT" not in subsets:
        notes.append("the SMT subset is left out, as in the published scores")
    return notes


def _unscored_note(rows: Sequence[Row]) -> tuple[str, ...]:
    blank = sum(not row.gold for row in rows)
    if not blank:
        return ()
    return (f"{blank} of {len(rows)} pairs have a blank gold score and are not scored",)


def _scored(name: str, rows: Sequence[Row]) -> ScoredPairs:
    kept = [row for row in rows if row.gold]
    return ScoredPairs(
        name,
        [row.sentence1 for row in kept],
        [row.sentence2 for row in kept],
        np.array([gold_score(row) for row in kept], dtype=np.float64),
    )


def gold_score(row: Row) -> float:
    """Return the gold score of a row, or raise DataError naming its place if it is none."""
    try:
        # float() also takes 0_5 and digits of other scripts.
        score = float(row.gold) if row.gold.isascii() and "_" not in row.gold else math.nan
    except ValueError:
        score = math.nan
    # The range check also rejects NaN, and catches a column read in the wrong place.
    if not 0.0 <= score <= _MAX_SCORE:
        raise DataError(
            f"{row.place}: gold score {row.gold!r} is not a number from 0 to {_MAX_SCORE:g}; "
            "leave it blank for a pair that is not scored"
        )
    return score


def _everyday_rows() -> list[Row]:
    header, *lines = (line.split("\t") for line in read_lines(EVERYDAY))
    first, second, score = (header.index(name) for name in ("sentence1", "sentence2", "score"))
    return [
        Row(fields[first], fields[second], fields[score], f"{EVERYDAY}, line {number}")
        for number, fields in enumerate(lines, 2)
    ]
