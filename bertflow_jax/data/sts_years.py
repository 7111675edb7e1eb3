"""Rows of the years' subsets: `STS.input.<subset>.txt` and, line by line beside it, `STS.gs...`.

The files of 2016 are called `STS2016.input.*.txt` in the organisers' archive and `STS.input.*.txt`
in SentEval; both are read, a mixture too.
"""

import os
from pathlib import Path

from bertflow_jax.data.lines import read_lines
from bertflow_jax.data.sts_files import Row
from bertflow_jax.errors import DataError

_PREFIXES = ("STS", "STS2016")


def subset_names(folder: Path, smt: bool) -> list[str]:
    """Return the subsets of a year's folder, sorted, without ALL and (unless asked for) SMT."""
    found = {
        path.name.split(".input.", 1)[1].removesuffix(".txt")
        for prefix in _PREFIXES
        for path in folder.glob(f"{prefix}.input.*.txt")
    }
    return sorted(found - ({"ALL"} if smt else {"ALL", "SMT"}))


def _year_file(folder: Path, kind: str, subset: str, encoding: str) -> Path:
    """Return the input or gs file of a subset, under whichever of its two names it is there.

    Raises:
      DataError: it is there under both, with different lines.
    """
    paths = [folder / f"{prefix}.{kind}.{subset}.txt" for prefix in _PREFIXES]
    there = [path for path in paths if os.path.lexists(path)]
    if len(there) > 1 and read_lines(there[0], encoding) != read_lines(there[1], encoding):
        raise DataError(
            f"{there[0]} and {there[1].name} beside it are the same subset with different lines; "
            "delete the one that is wrong"
        )
    return there[0] if there else paths[0]


def read_year_sentences(folder: Path, subset: str, encoding: str) -> list[tuple[str, str]]:
    """Return every pair of `STS.input.<subset>.txt`, scored or not (later columns: sources)."""
    return _read_pairs(_year_file(folder, "input", subset, encoding), encoding)


def _read_pairs(path: Path, encoding: str) -> list[tuple[str, str]]:
    pairs = []
    for number, line in enumerate(read_lines(path, encoding), 1):
        fields = line.split("\t")
        if len(fields) < 2:
            raise DataError(
                f"{path}, line {number}: two sentences separated by a tab are needed, found "
                f"{len(fields)} column"
            )
        pairs.append((fields[0], fields[1]))
    return pairs


def read_year_rows(folder: Path, subset: str, encoding: str) -> list[Row]:
    """Return the pairs of one subset with their gold lines, paired by line number.

    Raises:
      DataError: the two files have unequal numbers of lines (both are named).
    """
    input_path = _year_file(folder, "input", subset, encoding)
    pairs = _read_pairs(input_path, encoding)
    gold_path = _year_file(folder, "gs", subset, encoding)
    if not os.path.lexists(gold_path):
        gold_path = folder / input_path.name.replace(".input.", ".gs.", 1)
    golds = read_lines(gold_path, encoding)
    if len(golds) != len(pairs):
        raise DataError(
            f"{gold_path} has {len(golds)} lines but {input_path.name} has {len(pairs)}; "
            "they must pair up line by line, so one of them is damaged"
        )
    return [
        Row(first, second, gold.strip(), f"{gold_path}, line {number}", subset, str(number))
        for number, ((first, second), gold) in enumerate(zip(pairs, golds, strict=True), 1)
    ]
