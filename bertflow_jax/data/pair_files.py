"""Sentence pairs with a gold column in files of their own: TSV, CSV and JSON lines.

    snli_1.0_train.jsonl, multinli_1.0_train.jsonl   keys gold_label, sentence1, sentence2
    snli_1.0_train.txt, GLUE's MNLI/train.tsv        tabs, header with the same names
    AllNLI.tsv                                       columns split, sentence1, sentence2, label
    SICK_train.txt                                   sentence_A, sentence_B, entailment_judgment
    any other                                        columns named by the caller

This module reads strings; `data.nli` and `data.supervision` say what the gold column means. All
files may be compressed (.gz).
"""

import dataclasses
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bertflow_jax.data import columns
from bertflow_jax.data.file_names import unpacked_name
from bertflow_jax.data.json_files import parse_json_line
from bertflow_jax.data.lines import iter_lines
from bertflow_jax.data.sts_files import Row
from bertflow_jax.errors import DataError

SUFFIXES = {".tsv": "tsv", ".txt": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".json": "jsonl"}
_SPLIT = "split"
_SENTENCES = (("sentence1", "sentence2"), ("premise", "hypothesis"), ("sentence_A", "sentence_B"))


@dataclasses.dataclass(frozen=True)
class PairColumns:
    """Where the sentences and the gold label of a pair stand.

    Attributes:
      sentences: two names, or () for the pair of names that the file has (`sentence1, sentence2`,
        `premise, hypothesis` or `sentence_A, sentence_B`).
      gold: name of the gold column, or "" for the first of `gold_names` that the file has.
      gold_names: what the gold column may be called.
      splits: of a file with a column `split` (AllNLI): the rows wanted, () for all. Every row of
        such a file must name its split.
      field: prefix of the config's fields, for messages.
    """

    sentences: tuple[str, ...]
    gold: str
    gold_names: tuple[str, ...]
    splits: tuple[str, ...] = ()
    field: str = "supervision."

    def resolve(self, path: Path, found: Sequence[str]) -> list[str]:
        """Return the three names meant, given the names that the file has.

        Raises DataError if there are no such columns; lists those there are.
        """
        sentences = self.sentences or next(
            (names for names in _SENTENCES if set(names) <= set(found)), ()
        )
        gold = self.gold or next((name for name in self.gold_names if name in found), "")
        if not sentences or not gold:
            missing = "label" if sentences else "sentences"
            raise DataError(
                f"{path}, line 1: no column of the {missing} known among "
                f"{columns.shown(list(found))}; set {self.field}columns (two names) and "
                f"{self.field}label_column"
            )
        return [*sentences, gold]


def file_format(path: Path) -> str | None:
    """Return the format that a file's name says, None where it says none."""
    return SUFFIXES.get(unpacked_name(path).suffix.lower())


def read_pairs(path: Path, kind: str, wanted: PairColumns, encoding: str) -> Iterator[Row]:
    """Yield the pairs of a file, with the gold column as written and their place.

    Args:
      path: of the file.
      kind: `tsv`, `csv` or `jsonl`.
      wanted: the columns.
      encoding: of the file.

    Raises:
      DataError, DataNotFoundError: naming file and line.
    """
    if kind == "jsonl":
        return _jsonl(path, wanted, encoding)
    return _table(path, wanted, _table_rows(path, kind, encoding))


def has_split(path: Path, kind: str, given: Sequence[str], encoding: str) -> bool:
    """Return whether `read_pairs` finds a column (key) `split` in a file.

    Args:
      path: of the file.
      kind: `tsv`, `csv` or `jsonl`.
      given: sentence columns and gold column as the caller names them; "" where he does not.
      encoding: of the file.

    Raises:
      DataError, DataNotFoundError: as `read_pairs`, of the first row.
    """
    if kind == "jsonl":
        return any(_SPLIT in found for _, found in itertools.islice(_objects(path, encoding), 1))
    number, first = next(_table_rows(path, kind, encoding), (0, []))
    columns.refuse_empty(path, number)
    if _all_given(given) and not columns.pick(path, list(given), first)[1]:
        return False
    return _SPLIT in first


def _table_rows(path: Path, kind: str, encoding: str) -> Iterator[tuple[int, list[str]]]:
    lines = iter_lines(path, encoding)
    return columns.tsv_rows(lines) if kind == "tsv" else columns.csv_rows(path, lines)


def _objects(path: Path, encoding: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place, object) of every line that is not blank."""
    for number, line in enumerate(iter_lines(path, encoding), 1):
        if line.strip():
            place = f"{path}, line {number}"
            yield place, parse_json_line(line, place)


def _jsonl(path: Path, wanted: PairColumns, encoding: str) -> Iterator[Row]:
    names: list[str] = []
    splits = False
    for place, found in _objects(path, encoding):
        if not names:
            names, splits = wanted.resolve(path, list(found)), _SPLIT in found
        missing = [name for name in names if name not in found]
        if missing:
            raise DataError(
                f"{place}: no key {missing[0]!r} among {columns.shown(list(found))}; every line "
                "needs the same keys"
            )
        first, second, gold = (found[name] for name in names)
        for name, text in zip(names, (first, second), strict=False):
            if not isinstance(text, str):
                raise DataError(f"{place}: {name!r} is {json.dumps(text)[:80]}, not a string")
        if splits != (_SPLIT in found):
            raise DataError(
                f"{place}: {'no' if splits else 'a'} key {_SPLIT!r}, unlike the first line; every "
                "line needs it, or none"
            )
        if not splits or _in_split(found[_SPLIT], wanted, place):
            yield Row(first, second, _gold_text(gold, names[2], place), place)


def _gold_text(gold: Any, name: str, place: str) -> str:
    if isinstance(gold, bool) or not isinstance(gold, str | int | float):
        raise DataError(f"{place}: {name!r} is {json.dumps(gold)[:80]}, not a string or a number")
    return str(gold).strip()


def _in_split(value: Any, wanted: PairColumns, place: str) -> bool:
    if not isinstance(value, str) or not value.strip():
        raise DataError(
            f"{place}: its {_SPLIT!r} is {json.dumps(value)[:80]}, not the name of a split as train"
        )
    return not wanted.splits or value in wanted.splits


def _all_given(given: Sequence[str]) -> bool:
    # By number only where all three are: a number is no name of a header here.
    return len(given) == 3 and all(given)


def _table(path: Path, wanted: PairColumns, rows: Iterator[tuple[int, list[str]]]) -> Iterator[Row]:
    """Pick the columns; there is a header unless all three are given by number."""
    number, first = next(rows, (0, []))
    columns.refuse_empty(path, number)
    given = [*wanted.sentences, wanted.gold]
    if _all_given(given):
        picked, has_header = columns.pick(path, given, first)
    else:
        picked, has_header = columns.pick(path, wanted.resolve(path, first), first)
    divided = has_header and _SPLIT in first
    split = columns.place_of(path, _SPLIT, first) if divided else None
    for number, fields in rows if has_header else itertools.chain([(1, first)], rows):
        if not any(fields):
            continue
        # The official files leave out empty columns at the end of a row.
        if len(fields) > len(first) or len(fields) <= max(picked):
            raise DataError(
                f"{path}, line {number}: {len(fields)} columns, but the first line has "
                f"{len(first)}; every row needs the same number"
            )
        place = f"{path}, line {number}"
        own = "" if split is None or split >= len(fields) else fields[split]
        if split is None or _in_split(own, wanted, place):
            one, two, gold = (fields[index] for index in picked)
            yield Row(one, two, gold.strip(), place)
