"""GLUE's sentence pairs: QNLI, MRPC and QQP with a yes-or-no label, and STS-B in GLUE's layout."""

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from bertflow_jax.data.glue_files import GlueRows, glue_folder
from bertflow_jax.data.sts import ScoredPairs, StsTask, data_notes, gold_score
from bertflow_jax.data.sts_files import Row, check_splits
from bertflow_jax.data.tfds_builders import tfds_folder
from bertflow_jax.errors import DataError
from bertflow_jax.paths import user_path

BINARY_TASKS = ("qnli", "mrpc", "qqp")
# The positive label comes first: the sentence answers the question, the two mean the same.
LABELS = {"qnli": ("entailment", "not_entailment"), "mrpc": ("1", "0"), "qqp": ("1", "0")}
# How a pair without a label is written: no column in GLUE's files, -1 in TFDS.
_UNLABELLED = ("", "-1", "-1.0")


@dataclasses.dataclass(frozen=True)
class BinaryTask(StsTask):
    """A task whose pairs are labelled 1 or 0 (`ScoredPairs.scores`), scored by AUC.

    Attributes:
      threshold_pairs: the pairs that choose the thresholds of accuracy and F1.
      threshold_from: the split that they are; the evaluated one where there is no other.
    """

    threshold_pairs: ScoredPairs = dataclasses.field(kw_only=True)
    threshold_from: str = dataclasses.field(kw_only=True)

    @cached_property
    def sentences(self) -> list[str]:
        """The distinct sentences, those of the pairs that choose the thresholds among them."""
        pairs = (*self.subsets.values(), self.threshold_pairs)
        return list(dict.fromkeys(text for p in pairs for text in p.sentences1 + p.sentences2))

    @property
    def split(self) -> str:
        """The evaluated split; several are joined with +."""
        return "+".join(self.subsets)


class GlueSource(Protocol):
    """Where the splits of one set come from: `glue_files.GlueFolder` or `glue_tfds.GlueRecords`."""

    def has_gold(self, split: str) -> bool:
        """Return whether a split is there and has labels or scores."""

    def read(self, split: str) -> GlueRows:
        """Return its rows."""


def load_glue_task(
    name: str,
    data_dir: str | Path | None,
    splits: Sequence[str] | None = None,
    encoding: str = "utf-8",
) -> StsTask:
    """Read QNLI, MRPC, QQP, or STS-B in GLUE's layout.

    Args:
      name: one of `BINARY_TASKS`, or `stsb`.
      data_dir: folder with `QNLI/`, `MRPC/`, `QQP/`, `STS-B/`, or the task's own folder;
        `tfds:DIR` takes `glue/<name>` of prepared TFDS data in DIR.
      splits: of `train`, `dev`, `test`; several are joined into one set. None takes dev of QNLI and
        QQP, whose test labels are held back, and of MRPC and STS-B test where it has labels, dev
        otherwise.
      encoding: of the files.

    Returns:
      A `BinaryTask` with entailment, paraphrase or duplicate as label 1 (of stsb an `StsTask`). Its
      thresholds come from dev; from train where there is no dev (MRPC as it was published).

    Raises:
      DataError, DataNotFoundError: naming file and line, the folder that was looked for, or the
        split without labels.
    """
    source = glue_source(name, data_dir, encoding)
    if splits is None:
        wanted = ("test", "dev") if name in ("mrpc", "stsb") else ("dev",)
        splits = [next((split for split in wanted if source.has_gold(split)), wanted[-1])]
    check_splits(name, splits, "--splits")
    found = {split: source.read(split) for split in splits}
    rows = [row for split, part in found.items() for row in _labelled_rows(split, part)]
    subset = "+".join(splits)
    if name == "stsb":
        subsets = {subset: _pairs(subset, rows, [gold_score(row) for row in rows])}
        return StsTask(name, subsets, tuple(data_notes(name, subsets)))
    pairs = _pairs(subset, rows, _labels(name, rows))
    notes = data_notes(name, {subset: pairs})
    notes += [note for split, part in found.items() for note in _broken_note(split, part)]
    threshold = next((split for split in ("dev", "train") if source.has_gold(split)), subset)
    if threshold in splits:
        notes.append(
            f"the thresholds of accuracy and F1 are chosen on {threshold}, which is scored too: "
            "both are upper bounds"
        )
    chosen = pairs
    if threshold != subset:
        chosen_rows = _labelled_rows(threshold, source.read(threshold))
        chosen = _pairs(threshold, chosen_rows, _labels(name, chosen_rows))
    return BinaryTask(
        name, {subset: pairs}, tuple(notes), threshold_pairs=chosen, threshold_from=threshold
    )


def holds_glue_stsb(data_dir: str | Path) -> bool:
    """Return whether a folder holds `STS-B/` in GLUE's layout and no STS-B in SentEval's."""
    folder = Path(data_dir)
    if any(folder.glob("STSBenchmark")) or any(folder.glob("STS/STSBenchmark")):
        return False
    return any(folder.glob("STS-B/*.tsv")) or (
        folder.resolve().name == "STS-B" and any(folder.glob("*.tsv"))
    )


def glue_source(
    name: str, data_dir: str | Path | None, encoding: str = "utf-8", field: str = "--data_dir"
) -> GlueSource:
    """Return where the splits of a set come from; `field` is the flag or config field of data_dir.

    Raises:
      DataError, DataNotFoundError: an unknown set, or a folder without it.
    """
    if name not in (*BINARY_TASKS, "stsb"):
        raise DataError(
            f"unknown GLUE task {name!r} (--tasks); known: {', '.join(BINARY_TASKS)}, stsb"
        )
    if data_dir is None or not str(data_dir).strip():
        raise DataError(f"task {name} needs a data folder: give {field} (data_dir=...)")
    prepared = tfds_folder(data_dir, field)
    if prepared is None:
        return glue_folder(user_path(data_dir, field), name, encoding)
    # Imported here: only this path needs TFDS.
    from bertflow_jax.data.glue_tfds import GlueRecords

    return GlueRecords(name, prepared)


def _labelled_rows(split: str, found: GlueRows) -> list[Row]:
    """Return the rows; raises DataError for an empty split, or naming the first without label."""
    if not found.rows:
        raise DataError(f"{found.place}: no pair of split {split}; the file is empty or cut")
    for row in found.rows:
        if row.gold in _UNLABELLED:
            raise DataError(
                f"{row.place}: no label, so split {split} cannot be scored (GLUE holds back the "
                "labels of its test splits); set --splits=dev, or --splits=train"
            )
    return found.rows


def _labels(task: str, rows: Sequence[Row]) -> list[float]:
    positive, negative = LABELS[task]
    for row in rows:
        if row.gold not in (positive, negative):
            raise DataError(
                f"{row.place}: label {row.gold!r} is neither {positive!r} nor {negative!r}; "
                "is this file of another task?"
            )
    return [float(row.gold == positive) for row in rows]


def _pairs(name: str, rows: Sequence[Row], scores: Sequence[float]) -> ScoredPairs:
    first, second = [row.sentence1 for row in rows], [row.sentence2 for row in rows]
    return ScoredPairs(name, first, second, np.array(scores, np.float64))


def _broken_note(split: str, found: GlueRows) -> list[str]:
    if not found.broken:
        return []
    count = len(found.broken)
    return [
        f"{split}: {count} line{'s' * (count > 1)} with a wrong number of columns skipped, as the "
        f"official release has such lines (first: line {found.broken[0]})"
    ]
