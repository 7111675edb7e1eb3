"""Columns of TSV and CSV files: rows, and which column is meant."""

import csv
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bertflow_jax.errors import BertFlowWarning, DataError

# Python's default refuses a field of more than 131,072 characters.
csv.field_size_limit(2**31 - 1)


def tsv_rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, fields); a TSV has no quoting, quotes are text."""
    for number, line in enumerate(lines, 1):
        yield number, line.split("\t")


def csv_rows(path: Path, lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number of its start, fields); raises DataError for quotes that do not close."""
    reader = csv.reader((line + "\n" for line in lines), strict=True)
    start = 1
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                f"{path}, row that starts on line {start}: {error}; close the quotes, or set "
                "data.format=tsv (--format=tsv) for a file whose quotes are text"
            ) from error
        yield start, fields
        start = reader.line_num + 1


def refuse_empty(path: Path, number: int) -> None:
    """Raise DataError for a table that has no first line: its number is 0."""
    if not number:
        raise DataError(f"{path} is empty: a table has a row, or a header, at least")


def pick(
    path: Path, names: list[str], first: list[str], flags: Sequence[str] = ()
) -> tuple[list[int], bool]:
    """Return the places of columns, and whether the first line is a header.

    A column is given by a name of the first line or a number from 0, in plain digits; where all are
    numbers the first line is a row like any other. Warns where a number is a cell of it too. Of
    `flags` there is one a name, for messages.

    Raises:
      DataError: there is no such column; lists those there are.
    """
    said = flags or [""] * len(names)
    picked = [_index(path, name, first, flag) for name, flag in zip(names, said, strict=True)]
    return picked, not all(_is_number(name, first) for name in names)


def _index(path: Path, name: str, first: list[str], flag: str) -> int:
    if _is_number(name, first):
        if name in first:
            warnings.warn(
                f"{path}, line 1: {name!r} is taken as the number of a column, counted from 0, "
                "though the first line holds it too; if that line is a header and the name is "
                "meant, rename the column",
                BertFlowWarning,
                stacklevel=2,
            )
        return int(name)
    if name in first:
        return place_of(path, name, first)
    tabs = len(first) == 1 and "\t" in first[0]
    hint = ", and set data.format=tsv (--format=tsv): the line holds tabs" if tabs else ""
    raise DataError(
        f"{path}, line 1: no column {_cut(name)!r} among {len(first)} ({shown(first)}); "
        f"{f'set {flag}' if flag else 'name another'}{hint}"
    )


def place_of(path: Path, name: str, header: list[str]) -> int:
    """Return the place of a name that is in a header; raises DataError where it is there twice."""
    if header.count(name) > 1:
        raise DataError(
            f"{path}, line 1: {header.count(name)} columns are called {name!r}, and only one can "
            "be meant; give them different names"
        )
    return header.index(name)


def _is_number(name: str, first: list[str]) -> bool:
    # Not isdecimal(): the digits of other scripts, and 01, are names.
    return re.fullmatch("0|[1-9][0-9]{0,8}", name) is not None and int(name) < len(first)


def check_width(path: Path, number: int, fields: list[str], first: list[str]) -> None:
    """Raise DataError for a row with another number of fields than the first line."""
    if len(fields) != len(first):
        raise DataError(
            f"{path}, line {number}: {len(fields)} columns, but the first line has {len(first)}; "
            "every row needs the same number"
        )


def shown(fields: list[str]) -> str:
    """Return the fields of a line, cut to what fits a message."""
    return _cut(", ".join(map(_visible, fields)))


def _visible(name: str) -> str:
    """Return a name as it is, in quotes where blanks or what is not seen would mislead."""
    return name if name.isprintable() and name == " ".join(name.split()) != "" else repr(name)


def _cut(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:196]} ..."
