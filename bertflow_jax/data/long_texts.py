"""Texts for one call of the tokenizer, of long ones a beginning with the first tokens of all.

BERT's WordPiece makes tokens of one word after the other, and words end at white space, at
punctuation and around Chinese characters. So the text in front of such a character has the first
tokens of the text with what follows, unless the character is inside an added token ("<a b>").
A document of a megabyte then costs no more than its first few thousand characters.
"""

import json
import re
import string
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tokenizers

_PUNCTUATION = string.punctuation + "\u3001\u3002\uff0c\uff01\uff1f"
# A call of the tokenizer: what it returns takes far more memory than the ids.
_CHUNK = 1024  # texts, at most
_CHUNK_CHARACTERS = 2**20  # after which no text is added
_CHINESE = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF))


def word_ends(backend: tokenizers.Tokenizer) -> re.Pattern[str] | None:
    """Return what matches a character in front of which a text can be cut.

    None where no such character is known: for a tokenizer that is not BERT's, or one whose added
    tokens hold white space or depend on the words beside them.
    """
    content: dict[str, Any] = json.loads(backend.to_str())
    normalizer = content.get("normalizer") or {}
    if (
        (content["model"].get("type"), (content.get("pre_tokenizer") or {}).get("type"))
        != ("WordPiece", "BertPreTokenizer")
        or normalizer.get("type", "BertNormalizer") != "BertNormalizer"
        or any(token.get("single_word") for token in content["added_tokens"])
    ):
        return None
    added = [token["content"] for token in content["added_tokens"]]
    inside = {c for text in added for c in text[1:] + unicodedata.normalize("NFD", text)[1:]}
    if any(c.isspace() for c in inside):
        return None
    ends = [re.escape(c) for c in _PUNCTUATION if c not in inside]
    if normalizer.get("handle_chinese_chars"):
        ends += [
            f"{chr(low)}-{chr(high)}"
            for low, high in _CHINESE
            if not any(low <= ord(c) <= high for c in inside)
        ]
    return re.compile(rf"[ \t\n\r{''.join(ends)}]")


def beginning(text: str, length: int, ends: re.Pattern[str] | None) -> str:
    """Return at least `length` characters of a text, up to the next end of a word."""
    found = ends.search(text, length) if ends is not None and len(text) > length else None
    return text if found is None else text[: found.start()]


def special_ids(backend: tokenizers.Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Return what the tokenizer puts before and behind a text, int32[a] and int32[b]."""
    encoding = backend.encode("a")
    ids, special = (
        np.asarray(encoding.ids, np.int32),
        np.asarray(encoding.special_tokens_mask, bool),
    )
    text = np.flatnonzero(~special)
    first, stop = (text[0], text[-1] + 1) if len(text) else (len(ids), len(ids))
    return ids[:first], ids[stop:]


def chunks(
    places: Iterable[int], texts: Sequence[str], length: int, ends: re.Pattern[str] | None
) -> Iterator[tuple[list[int], list[str]]]:
    """Yield texts for one call of the tokenizer, long ones cut, with their places."""
    group: list[int] = []
    parts: list[str] = []
    size = 0
    for place in places:
        group.append(place)
        parts.append(beginning(texts[place], length, ends))
        size += len(parts[-1])
        if len(group) == _CHUNK or size >= _CHUNK_CHARACTERS:
            yield group, parts
            group, parts, size = [], [], 0
    if group:
        yield group, parts
