"""Texts as callers give them: which things hold texts, and what is no text."""

import logging
import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.errors import BertFlowWarning, InputError

_log = logging.getLogger(__name__)
_SURROGATE = re.compile("[\ud800-\udfff]")


def iter_texts(texts: Iterable[object]) -> Iterator[object]:
    """Return an iterator over a list, an iterator, a pandas or a pyarrow column.

    Raises InputError for what is no such thing: bytes, a mapping, a set, a number, a table.
    """
    # A pyarrow column iterates over scalars; this makes them str and None.
    to_list = getattr(texts, "to_pylist", None)
    try:
        # Not a test for Iterable, which an array of no dimension passes.
        if not isinstance(texts, str | bytes | bytearray | Mapping | set | frozenset) and getattr(
            texts, "ndim", 1
        ) in (0, 1):  # a data frame iterates over its columns' names
            return iter(to_list() if to_list is not None else texts)
    except TypeError:
        pass
    raise InputError(f"a list of str is expected, not {type(texts).__name__}")


def check_text(text: object, row: int) -> str:
    """Return the text; raises InputError naming row and type if it is no str (None, NaN, bytes)."""
    if not isinstance(text, str):
        shown = " (nan)" if isinstance(text, float) and text != text else ""
        raise InputError(f"row {row} is {type(text).__name__}{shown}, not str")
    return text


def without_surrogates(texts: Sequence[str], first_row: int) -> list[str]:
    """Join surrogate pairs into characters; replace lone surrogates with U+FFFD and warn."""
    repaired = list(texts)
    damaged = []
    for i, text in enumerate(texts):
        if _SURROGATE.search(text):
            repaired[i] = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            damaged.append(i)
    if damaged:
        warnings.warn(
            f"{len(damaged)} text(s) hold UTF-16 surrogates, the first in row "
            f"{first_row + damaged[0]}; "
            "pairs were joined, lone ones replaced",
            BertFlowWarning,
            stacklevel=3,
        )
    return repaired


def alike(texts: Sequence[str]) -> NDArray[np.int32]:
    """Return int32[U]: equal numbers for texts that an encoder may give one vector.

    Those differ in case, accents, compatibility forms, white space or what does not print alone:
    tokenizers without case take the first two off, and all of them the last, and split at
    punctuation. An encoder that tells them apart puts them near each other all the same.
    """
    numbers: dict[str, int] = {}
    kinds = (numbers.setdefault(_plain(text), len(numbers)) for text in texts)
    return np.fromiter(kinds, np.int32, len(texts))


def _plain(text: str) -> str:
    if not (text.isascii() and text.isprintable()):
        # Variation selectors and some vowel signs are Mn, but have the combining class 0.
        text = "".join(letter for letter in unicodedata.normalize("NFKD", text) if _shows(letter))
    return "".join(text.casefold().split())


def _shows(letter: str) -> bool:
    kind = unicodedata.category(letter)
    return (
        kind != "Mn" and kind[0] != "C" and not unicodedata.combining(letter) and letter != "\ufffd"
    )


def tell_of_empty(place: str, texts: Sequence[str] = (), *, empty: int = 0, total: int = 0) -> None:
    """Warn of texts that are empty or white space alone, if there are any.

    Args:
      place: where they are from.
      texts: that are counted; or else
      empty: how many there are,
      total: of how many.
    """
    empty += sum(not text.strip() for text in texts)
    if empty:
        told = "%s: %d of %d texts are empty: all of them get one and the same vector"
        _log.warning(told, place, empty, total + len(texts))
