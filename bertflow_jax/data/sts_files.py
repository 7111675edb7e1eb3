"""Where the STS data sets lie on disk and how their rows are written.

Layout as in SentEval (Conneau & Kiela, 2018): `STS/STSyy-en-test/`, `STSBenchmark/` and `SICK/`
side by side, or STSBenchmark inside STS. This module and `data.sts_years` read rows of strings;
`data.sts` turns the gold column into scores, `data.text` never looks at it.
"""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

from bertflow_jax.data.columns import place_of
from bertflow_jax.data.lines import read_lines
from bertflow_jax.errors import DataError, DataNotFoundError
from bertflow_jax.paths import refuse_unreadable

STS_YEARS = ("sts12", "sts13", "sts14", "sts15", "sts16")
STS_TASKS = (*STS_YEARS, "stsb", "sickr")

_FOLDERS = {"stsb": "STSBenchmark", "sickr": "SICK"} | {
    year: f"STS{year[3:]}-en-test" for year in STS_YEARS
}
_MARKERS = {"stsb": "sts-*.csv", "sickr": "SICK*.txt"} | dict.fromkeys(
    STS_YEARS, "STS*.input.*.txt"
)
_SPLITS = {"stsb": ("train", "dev", "test"), "sickr": ("train", "dev", "test")} | dict.fromkeys(
    STS_YEARS, ("test",)
)
SICK_SCORE = ("relatedness_score",)
SICK_ENTAILMENT = ("entailment_judgment", "entailment_label")  # 5-column files, 12-column SICK.txt
_SICK_FILES = {
    "train": "SICK_train.txt",
    "dev": "SICK_trial.txt",
    "test": "SICK_test_annotated.txt",
}
_SICK_LABELS = ("entailment_judgment", "entailment_label")


@dataclasses.dataclass(frozen=True)
class Row:
    """One pair as written.

    Attributes:
      sentence1: the first sentence.
      sentence2: the second.
      gold: the gold column, "" where blank.
      place: where it stands, for messages.
      subset: of a year its subset, of STS-B its genre.
      key: what the release calls the pair: a line number, STS-B's file, year and id, a pair_ID.
      entailment: the entailment label of SICK.
    """

    sentence1: str
    sentence2: str
    gold: str
    place: str
    subset: str = ""
    key: str = ""
    entailment: str = ""


def check_task(task: str) -> None:
    """Raise DataError for a name that is no STS task."""
    if task not in STS_TASKS:
        raise DataError(
            f"unknown STS task {task!r} (data.task, --tasks); known: {', '.join(STS_TASKS)}"
        )


def task_splits(task: str) -> tuple[str, ...]:
    """Return the splits that a task has, of train, dev and test."""
    return _SPLITS[task]


def folder_name(task: str) -> str:
    """Return the name of a task's folder in SentEval's layout."""
    return _FOLDERS[task]


def task_folder(data_dir: Path, task: str) -> Path:
    """Return the folder of a task, given the folder that holds it, its parent, or itself.

    Raises:
      DataError: the task is unknown.
      ConfigError: a folder may not be read.
      DataNotFoundError: the folder is missing; the text says where it was looked for.
    """
    check_task(task)
    if not os.path.isdir(data_dir):
        raise DataNotFoundError(f"{data_dir}: no such folder of STS data; check the path")
    name = _FOLDERS[task]
    candidates = [data_dir / name, data_dir / "STS" / name]
    # A year's own folder is known by its name alone: all years have files of the same pattern.
    if task not in STS_YEARS or data_dir.resolve().name == name:
        candidates.append(data_dir)
    for folder in candidates:
        refuse_unreadable(folder, str(folder))
        if os.path.isdir(folder) and any(folder.glob(_MARKERS[task])):
            return folder
    looked = ", ".join(str(folder / _MARKERS[task]) for folder in candidates)
    raise DataNotFoundError(
        f"{data_dir} holds no data of {task} (looked for {looked}); give the folder that holds "
        "STS/, STSBenchmark/ and SICK/ (a folder is read as STS data; text of your own is a file)"
    )


def check_splits(task: str, splits: Sequence[str], field: str) -> None:
    """Raise DataError, naming flag or config `field`, for a split not there or named twice."""
    known = _SPLITS.get(task, ("train", "dev", "test"))
    given = f"{field}={','.join(splits)}"
    unknown = [repr(split) for split in splits if split not in known]
    if unknown or not splits:
        fewer = " or fewer of them" if len(known) > 1 else ""
        raise DataError(
            f"{given}: {task} has no split {', '.join(unknown) or repr('')}; set "
            f"{field}={','.join(known)}{fewer}"
        )
    if len(set(splits)) < len(splits):
        raise DataError(f"{given}: a split of {task} is named twice")


def read_stsb_rows(folder: Path, split: str, encoding: str) -> list[Row]:
    """Return the rows of `sts-<split>.csv`: tab-separated whatever its name says, no quoting.

    Columns: genre, file, year, id, score, sentence1, sentence2, and sometimes sources after them.
    An empty line is no row.
    """
    path = folder / f"sts-{split}.csv"
    rows = []
    for number, line in enumerate(read_lines(path, encoding), 1):
        if not line:
            continue
        fields = line.split("\t")
        if len(fields) < 7:
            raise DataError(
                f"{path}, line {number}: {len(fields)} tab-separated columns where at least 7 "
                "are needed (genre, file, year, id, score, sentence1, sentence2)"
            )
        place, key = f"{path}, line {number}", "/".join(fields[1:4])
        rows.append(Row(fields[5], fields[6], fields[4].strip(), place, fields[0], key))
    return rows


def read_sick_rows(
    folder: Path, split: str, encoding: str, gold: Sequence[str] = SICK_SCORE
) -> list[Row]:
    """Return the rows of one SICK split, with columns found by the names in the header.

    The gold column is the first of `gold` that the header has: `SICK_SCORE` or `SICK_ENTAILMENT`.

    Reads the 5-column `SICK_train.txt`, `SICK_trial.txt`, `SICK_test_annotated.txt`, or else the
    12-column `SICK.txt` (where the entailment label stands before the score) by its SemEval_set.
    """
    path = folder / _SICK_FILES[split]
    if not path.exists() and (folder / "SICK.txt").exists():
        path = folder / "SICK.txt"
    lines = read_lines(path, encoding)
    header = lines[0].split("\t") if lines else []
    label = next((name for name in gold if name in header), gold[0])
    needed = ("sentence_A", "sentence_B", label)
    missing = [name for name in needed if name not in header]
    if missing:
        raise DataError(
            f"{path}, line 1: no column {', '.join(missing)}; the first line must be SICK's header "
            "(pair_ID, sentence_A, sentence_B, relatedness_score, ...), tab-separated"
        )
    first, second, score = (place_of(path, name, header) for name in needed)
    part = place_of(path, "SemEval_set", header) if "SemEval_set" in header else None
    # The 5-column files say entailment_judgment, SICK.txt entailment_label.
    labels = [at for at, name in enumerate(header) if name in _SICK_LABELS]
    key = place_of(path, "pair_ID", header) if "pair_ID" in header else None
    wanted = {"train": "TRAIN", "dev": "TRIAL", "test": "TEST"}[split]
    rows = []
    for number, line in enumerate(lines[1:], 2):
        if not line:
            continue
        fields = line.split("\t")
        if len(fields) != len(header):
            raise DataError(
                f"{path}, line {number}: {len(fields)} tab-separated columns, but the header has "
                f"{len(header)}"
            )
        if part is None or fields[part].strip() == wanted:
            rows.append(
                Row(
                    fields[first],
                    fields[second],
                    fields[score].strip(),
                    f"{path}, line {number}",
                    key=fields[key] if key is not None else str(number - 1),
                    entailment=fields[labels[0]].strip() if labels else "",
                )
            )
    return rows
