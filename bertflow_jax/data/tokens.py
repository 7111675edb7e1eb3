"""From texts to padded int32 arrays of token ids, in a bounded set of shapes.

Special tokens written out in a text ("[SEP]", "[PAD]") become those tokens, as with Hugging
Face's fast tokenizers; the attention mask marks real tokens by position, never by their id.
"""

import dataclasses
import hashlib
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from bertflow_jax.data.tokenizer_files import (
    TokenizerFiles,
    read_tokenizer,
    tokenizer_content,
    write_tokenizer,
)
from bertflow_jax.errors import ConfigError, InputError

BUCKETS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclasses.dataclass(frozen=True)
class TokenRows:
    """Tokenized texts, not padded.

    Attributes:
      ids: one int32[t] a text, [CLS] and [SEP] included.
      truncated: how many texts were longer than the limit.
    """

    ids: list[np.ndarray]
    truncated: int


@dataclasses.dataclass(frozen=True)
class TokenBatch:
    """One device call.

    Attributes:
      rows: int64[n], the place in the input of the first n rows; the others are padding.
      input_ids: int32[R, T], filled up with the tokenizer's padding id.
      attention_mask: int32[R, T], 1 for a token and 0 for padding.
    """

    rows: np.ndarray
    input_ids: np.ndarray
    attention_mask: np.ndarray


class TextTokenizer:
    """A tokenizer with the limits of one encoder.

    Attributes:
      max_length: tokens a text, [CLS] and [SEP] included.
      pad_id: id of the padding token.
    """

    def __init__(
        self, files: TokenizerFiles, max_length: int, vocab_size: int, lower_first: bool = False
    ):
        self._files = files
        self._vocab_size = vocab_size
        self._lower_first = lower_first
        self.max_length = max_length
        self.pad_id = files.pad_id
        files.backend.enable_truncation(max_length, direction=files.truncation_side)

    @classmethod
    def from_folder(
        cls,
        folder: Path,
        *,
        vocab_size: int,
        positions: int,
        max_length: int | None = None,
        default_max_length: int | None = None,
        do_lower_case: bool | None = None,
        lower_first: bool = False,
    ) -> "TextTokenizer":
        """Read a folder's tokenizer.

        Args:
          folder: see `read_tokenizer`.
          vocab_size: rows of the embedding table; a larger token id is an error.
          positions: rows of the position table.
          max_length: the caller's limit; one above `positions` is a ConfigError.
          default_max_length: the folder's own limit (`max_seq_length` of sentence-transformers),
            used when the caller gives none.
          do_lower_case: see `read_tokenizer`.
          lower_first: lower-case the text before the tokenizer sees it.
        """
        files = read_tokenizer(folder, do_lower_case)
        limit = _max_length(max_length, default_max_length, files.model_max_length, positions)
        return cls(files, limit, vocab_size, lower_first)

    def __call__(self, texts: Sequence[str]) -> TokenRows:
        """Tokenize texts; a text above max_length is cut, its [SEP] kept.

        Raises InputError for a token id beyond the embedding table.
        """
        texts = _without_surrogates(texts)
        if self._lower_first:
            texts = [text.lower() for text in texts]
        encodings = self._files.backend.encode_batch(texts)
        rows = [np.asarray(encoding.ids, np.int32) for encoding in encodings]
        for i, ids in enumerate(rows):
            if ids.max(initial=0) >= self._vocab_size:
                token = self._files.backend.id_to_token(int(ids.max()))
                raise InputError(
                    f"row {i}: token {token!r} has id {ids.max()}, but the encoder's embedding "
                    f"table has {self._vocab_size} rows; tokenizer and weights do not belong "
                    "together"
                )
        return TokenRows(rows, sum(bool(encoding.overflowing) for encoding in encodings))

    def digest(self) -> str:
        """Return the sha256 of everything that decides the ids, but not of max_length."""
        content = {
            k: v for k, v in tokenizer_content(self._files.backend).items() if k != "version"
        }
        content |= {"lower_first": self._lower_first, "side": self._files.truncation_side}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def save(self, folder: Path) -> None:
        """Write the tokenizer's files in Hugging Face layout."""
        write_tokenizer(self._files, folder, self.max_length)


def _max_length(user: int | None, folder: int | None, tokenizer: int | None, table: int) -> int:
    if user is not None:
        if isinstance(user, bool) or not isinstance(user, int) or user < 3:
            raise ConfigError(f"max_length={user!r} must be an integer >= 3: [CLS], a token, [SEP]")
        if user > table:
            raise ConfigError(
                f"max_length={user} is beyond the encoder's position table of {table} rows"
            )
        if tokenizer is not None and user > tokenizer:
            warnings.warn(
                f"max_length={user} is above the tokenizer's model_max_length; using {tokenizer}",
                stacklevel=2,
            )
    asked = user if user is not None else folder
    return min(limit for limit in (asked, tokenizer, table) if limit is not None)


def check_texts(texts: Iterable[object]) -> list[str]:
    """Return the texts as a list.

    Raises InputError naming row and type for anything that is not a str (None, NaN, bytes).
    """
    try:
        # Not a test for Iterable, which an array of no dimension passes.
        rows = None if isinstance(texts, bytes | bytearray | Mapping | set) else iter(texts)
    except TypeError:
        rows = None
    if rows is None:
        raise InputError(f"a list of str is expected, not {type(texts).__name__}")
    checked: list[str] = []
    for i, text in enumerate(rows):
        if not isinstance(text, str):
            shown = " (nan)" if isinstance(text, float) and text != text else ""
            raise InputError(f"row {i} is {type(text).__name__}{shown}, not str")
        checked.append(text)
    return checked


def _without_surrogates(texts: Sequence[str]) -> list[str]:
    """Join surrogate pairs into characters; replace lone surrogates with U+FFFD and warn."""
    repaired = list(texts)
    damaged = []
    for i, text in enumerate(texts):
        if _SURROGATE.search(text):
            repaired[i] = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            damaged.append(i)
    if damaged:
        warnings.warn(
            f"{len(damaged)} text(s) hold UTF-16 surrogates, the first in row {damaged[0]}; "
            "pairs were joined, lone ones replaced",
            stacklevel=3,
        )
    return repaired


def buckets(max_length: int) -> tuple[int, ...]:
    """Return the padded lengths T in use: those of `BUCKETS` below max_length, and max_length."""
    return (*(bucket for bucket in BUCKETS if bucket < max_length), max_length)


def batch_rows(bucket: int, batch_size: int) -> tuple[int, ...]:
    """Return the row counts R in use for a bucket, largest first.

    The largest keeps the tokens of a call at those of `batch_size` sentences of the shortest
    bucket; an eighth of it and 1 spare a short list most of the padding.
    """
    full = max(1, batch_size * BUCKETS[0] // bucket)
    return tuple(sorted({full, max(1, full // 8), 1}, reverse=True))


def make_batches(
    rows: Sequence[np.ndarray], pad_id: int, batch_size: int, max_length: int
) -> Iterator[TokenBatch]:
    """Group rows of similar length into padded batches, longest first.

    Args:
      rows: int32[t] token ids each, t <= max_length.
      pad_id: fills up the rest.
      batch_size: sentences a batch in the shortest bucket; longer buckets get fewer.
      max_length: the longest row allowed.

    Yields:
      batches whose `rows` together are 0 .. len(rows) - 1, each once. Their shapes [R, T] have T
      from `buckets` and R from `batch_rows`.
    """
    sizes = np.asarray(buckets(max_length))
    which = np.searchsorted(sizes, [len(ids) for ids in rows])
    for b in reversed(range(len(sizes))):
        members = np.flatnonzero(which == b)
        for start, count, size in _split(len(members), batch_rows(int(sizes[b]), batch_size)):
            yield _pad(rows, members[start : start + count], (size, int(sizes[b])), pad_id)


def _split(total: int, sizes: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    """Cut `total` rows into (start, rows, padded rows) with padded rows among `sizes`."""
    full, small = sizes[0], sizes[min(1, len(sizes) - 1)]
    start = 0
    while start < total:
        left = total - start
        size = full if 2 * left > full else 1 if left == 1 else small
        yield start, min(left, size), size
        start += size


def _pad(
    rows: Sequence[np.ndarray], members: np.ndarray, shape: tuple[int, int], pad_id: int
) -> TokenBatch:
    input_ids = np.full(shape, pad_id, np.int32)
    mask = np.zeros(shape, np.int32)
    for i, row in enumerate(members):
        ids = rows[row]
        input_ids[i, : len(ids)] = ids
        mask[i, : len(ids)] = 1
    return TokenBatch(members, input_ids, mask)
