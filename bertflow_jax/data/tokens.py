"""From texts to token ids.

Special tokens written out in a text ("[SEP]", "[PAD]") become those tokens, as with Hugging
Face's fast tokenizers; the attention mask marks real tokens by position, never by their id.
"""

import dataclasses
import functools
import hashlib
import json
import numbers
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertflow_jax.data.json_files import is_there
from bertflow_jax.data.long_texts import chunks, special_ids, word_ends
from bertflow_jax.data.texts import without_surrogates
from bertflow_jax.data.tokenizer_files import (
    TokenizerFiles,
    hugging_face_tokenizer,
    read_tokenizer,
    standalone_tokenizer,
    tokenizer_content,
    write_tokenizer,
)
from bertflow_jax.data.vocabulary import check_size
from bertflow_jax.errors import BertFlowWarning, ConfigError, InputError, shown

OVERFLOW = ("warn", "error", "ignore")  # what may be done about texts that are cut
_CHARACTERS = 8  # a token, of a long text that is looked at first: more than words have


@dataclasses.dataclass(frozen=True)
class TokenRows:
    """Tokenized texts, not padded.

    Attributes:
      ids: one int32[t] a text, [CLS] and [SEP] included.
      truncated: how many texts were longer than the limit.
    """

    ids: list[np.ndarray]
    truncated: int


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
        self._around = special_ids(files.backend)

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
        name: str = "",
    ) -> "TextTokenizer":
        """Read a folder's tokenizer.

        Args:
          folder: see `read_tokenizer`.
          vocab_size: rows of the embedding table; a vocabulary with more tokens is a ConfigError,
            one with fewer a warning.
          positions: rows of the position table.
          max_length: the caller's limit; one above `positions` is a ConfigError.
          default_max_length: the folder's own limit (`max_seq_length` of sentence-transformers),
            used when the caller gives none. One above the tokenizer's stands in its place.
          do_lower_case: see `read_tokenizer`.
          lower_first: lower-case the text before the tokenizer sees it.
          name: of the vocabulary, for messages; default: its file.
        """
        files = read_tokenizer(folder, do_lower_case)
        pad = (files.special["pad_token"], files.pad_id)
        json_too = is_there(folder / "tokenizer.json")
        source = name or str(folder / ("tokenizer.json" if json_too else "vocab.txt"))
        check_size(files.backend, pad, vocab_size, source)
        if default_max_length is not None and files.model_max_length is not None:
            # sentence-transformers cuts at the former, whatever the tokenizer's files say.
            most = max(default_max_length, files.model_max_length)
            files = dataclasses.replace(files, model_max_length=most)
        limit = _max_length(max_length, default_max_length, files.model_max_length, positions)
        return cls(files, limit, vocab_size, lower_first)

    def limited(self, max_length: int, positions: int) -> "TextTokenizer":
        """Return the same tokenizer with another limit; raises ConfigError as `from_folder`."""
        limit = _max_length(max_length, None, self._files.model_max_length, positions)
        return TextTokenizer(self._files, limit, self._vocab_size, self._lower_first)

    def to_hugging_face(self) -> Any:
        """Return it as a `transformers.PreTrainedTokenizerFast`, a copy."""
        return hugging_face_tokenizer(self._files, self.max_length, self._lower_first)

    def __call__(self, texts: Sequence[str], first_row: int = 0) -> TokenRows:
        """Tokenize texts; a text above max_length is cut, its [SEP] kept.

        `first_row` is the row number of the first text, for messages. Raises InputError for a
        token id beyond the embedding table.
        """
        texts = without_surrogates(texts, first_row)
        if self._lower_first:
            texts = [text.lower() for text in texts]
        rows, truncated = self._first_tokens(texts)
        for i, ids in enumerate(rows):
            if ids.max(initial=0) >= self._vocab_size:
                token = self._files.backend.id_to_token(int(ids.max()))
                raise InputError(
                    f"row {first_row + i}: token {token!r} has id {ids.max()}, but the encoder's "
                    f"embedding table has {self._vocab_size} rows; tokenizer and weights do not "
                    "belong together"
                )
        return TokenRows(rows, truncated)

    def text_ids(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids of texts of any length, int32[t] each: nothing is added, nothing cut."""
        texts = without_surrogates(texts, 0)
        if self._lower_first:
            texts = [text.lower() for text in texts]
        encodings = self._files.backend.encode_batch_fast(texts, add_special_tokens=False)
        return [np.asarray(encoding.ids, np.int32) for encoding in encodings]

    def _first_tokens(self, texts: Sequence[str]) -> tuple[list[np.ndarray], int]:
        """Return int32[t] a text, t <= max_length, and how many texts have more tokens.

        The tokenizer's own truncation would build every piece that it cuts off.
        """
        before, after = self._around
        room = max(0, self.max_length - len(before) - len(after))
        rows, truncated = [before] * len(texts), 0
        left: Sequence[int] = range(len(texts))
        length = 64 + _CHARACTERS * self.max_length
        while left:
            again = []
            for places, parts in chunks(left, texts, length, self._ends):
                encodings = self._files.backend.encode_batch_fast(parts, add_special_tokens=False)
                for place, part, encoding in zip(places, parts, encodings, strict=True):
                    ids = np.asarray(encoding.ids, np.int32)
                    if len(ids) <= room and len(part) < len(texts[place]):
                        again.append(place)
                        continue
                    truncated += len(ids) > room
                    kept = ids[:room] if self._from_left else ids[len(ids) - min(len(ids), room) :]
                    rows[place] = np.concatenate([before, kept, after])
            left, length = again, 8 * length
        return rows, truncated

    @functools.cached_property
    def _ends(self) -> re.Pattern[str] | None:
        return word_ends(self._files.backend) if self._from_left else None

    @property
    def _from_left(self) -> bool:
        """Whether the first tokens of a text are kept, not the last ones."""
        return self._files.truncation_side == "right"

    def word_ids(self) -> np.ndarray:
        """Return the ids that stand for text, int64[W] ascending: no special, no unused tokens."""
        special = set(self._files.special.values())
        return np.array(
            sorted(
                number
                for token, number in self._files.backend.get_vocab().items()
                if token not in special and not re.fullmatch(r"\[unused\d+\]", token)
            ),
            np.int64,
        )

    def special_id(self, name: str) -> int | None:
        """Return the id of `mask_token`, `cls_token`, ...; None where the vocabulary lacks it."""
        return self._files.backend.token_to_id(self._files.special[name])

    def digest(self, *, spelling: bool = True) -> str:
        """Return the sha256 of all that decides the ids, but max_length.

        Args:
          spelling: whether it depends on how the tokens around a text are written down. Those of
            BERT have several spellings, of which transformers writes another.
        """
        content = tokenizer_content(self._files.backend)
        del content["version"]
        if not spelling:
            del content["post_processor"]
            around = [ids.tolist() for ids in special_ids(self._files.backend)]
            if around != [[self.special_id(name)] for name in ("cls_token", "sep_token")]:
                content["around"] = around
        content |= {"lower_first": self._lower_first, "side": self._files.truncation_side}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def save(self, folder: Path) -> None:
        """Write the tokenizer's files in Hugging Face layout."""
        write_tokenizer(self._files, folder, self.max_length)

    def standalone(self, multiple: int) -> str:
        """Return a tokenizer.json that cuts at max_length and pads to a `multiple` by itself.

        What `lower_first` does is left to whoever uses it.
        """
        return standalone_tokenizer(self._files, self.max_length, multiple)


def _max_length(user: int | None, folder: int | None, tokenizer: int | None, table: int) -> int:
    if user is not None:
        user = check_max_length(user)
        if user > table:
            raise ConfigError(
                f"max_length={shown(user)} is beyond the encoder's position table of {table} rows"
            )
        if tokenizer is not None and user > tokenizer:
            warnings.warn(
                f"max_length={user} is above the tokenizer's model_max_length; using {tokenizer}",
                BertFlowWarning,
                stacklevel=2,
            )
    asked = user if user is not None else folder
    return min(limit for limit in (asked, tokenizer, table) if limit is not None)


def check_max_length(value: object) -> int:
    """Return a caller's max_length; raises ConfigError unless it is an integer >= 3."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 3:
        raise ConfigError(
            f"max_length={shown(value)} must be an integer >= 3: [CLS], a token, [SEP]"
        )
    return int(value)
