"""One Arrow type for the ids of a text file, found in the first reading."""

import math
from collections.abc import Callable
from typing import Any

from bertflow_jax.errors import DataError

_KINDS = {bool: "bool", int: "int", float: "float", str: "str"}
_EXACT = 2**53  # integers beyond it lose digits among floats


class JsonIds:
    """The type of ids as JSON has them: true, numbers, strings, and null in any of these."""

    def __init__(self, place: Callable[[int], str], column: str):
        self._place, self._column = place, column
        self._first: dict[str, int] = {}  # kind of value -> first row that has it
        self._least = self._most = 0

    def add(self, keys: list[Any], start: int) -> None:
        """Look at the ids of rows from `start` on.

        Raises:
          DataError: an id that no column can hold beside those before it; names the line.
        """
        for row, key in enumerate(keys, start):
            if key is None:
                continue
            kind = _KINDS.get(type(key))
            if kind is None:
                raise self._refusal(row, f"is {_json_name(key)}; an id is a string or a number")
            if kind not in self._first:
                self._first[kind] = row
                self._check_kinds(kind, row)
            if kind == "str" and not key.isascii():
                self._check_str(key, row)
            elif kind == "float" and math.isinf(key):
                raise self._refusal(row, "is a number beyond float64; write ids as strings")
            elif kind == "int" and not self._least <= key <= self._most:
                self._widen(key, row)

    def type_name(self) -> str:
        """Return the name that pyarrow has for the type; int64 where there are no ids at all."""
        if "str" in self._first:
            return "string"
        if "float" in self._first:
            return "float64"
        if "bool" in self._first:
            return "bool"
        return "uint64" if self._most >= 2**63 else "int64"

    def _check_kinds(self, kind: str, row: int) -> None:
        others = [other for other in self._first if other != kind]
        if others and {kind, *others} != {"int", "float"}:
            before = self._place(self._first[others[0]]).rpartition(", ")[2]
            raise self._refusal(row, f"is {kind}, that of {before} {others[0]}; make them one")
        self._check_range(row)

    def _check_str(self, key: str, row: int) -> None:
        try:
            key.encode()
        except UnicodeEncodeError as error:
            raise self._refusal(row, "holds a lone UTF-16 surrogate, which is no text") from error

    def _widen(self, key: int, row: int) -> None:
        if key < self._least:
            self._least = key
        else:
            self._most = key
        self._check_range(row)

    def _check_range(self, row: int) -> None:
        if "float" in self._first and max(self._most, -self._least) > _EXACT:
            raise self._refusal(
                row, "makes integers beyond 2**53 and fractions one column, which loses digits"
            )
        if self._least < -(2**63) or self._most >= 2**64 or (self._least < 0 < self._most >> 63):
            raise self._refusal(row, "needs an integer of more than 64 bits; write ids as strings")

    def _refusal(self, row: int, what: str) -> DataError:
        return DataError(f"{self._place(row)}: the id ({self._column!r}) {what}")


def _json_name(key: object) -> str:
    return "an array" if isinstance(key, list) else "an object"
