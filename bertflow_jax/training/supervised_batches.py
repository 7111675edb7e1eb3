"""Batches of labelled pairs as token ids: a pure function of seed and step."""

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import flax.struct
import numpy as np
from numpy.typing import NDArray

from bertflow_jax.data.supervision import LabelledPairs
from bertflow_jax.data.tokens import TextTokenizer
from bertflow_jax.errors import ConfigError
from bertflow_jax.training.order import ExampleOrder

_log = logging.getLogger(__name__)
# Few lengths, so that few shapes compile; close enough that a short batch costs little padding.
LENGTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
_LABEL_STREAM, _MASK_STREAM = 4, 5  # of the random numbers; 0 to 2 are those of a fit's data


@flax.struct.dataclass
class PairBatch:
    """One step's examples; every array is split along its first axis over the devices.

    Attributes:
      input_ids: int32[B, 2, T], both sentences of every pair.
      attention_mask: int32[B, 2, T], 1 for a token and 0 for padding.
      targets: int32[B] classes or float32[B] cosines.
      labelled: float32[B], 1 where the target may be used and 0 where it may not.
    """

    input_ids: Any
    attention_mask: Any
    targets: Any
    labelled: Any


@dataclasses.dataclass(frozen=True)
class TokenTable:
    """Token ids of many texts in one array.

    Attributes:
      ids: int32[sum of lengths].
      offsets: int64[U + 1], where each text starts.
      truncated: how many texts were cut at the tokenizer's maximum length.
    """

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    truncated: int

    @classmethod
    def build(cls, texts: Sequence[str], tokenizer: TextTokenizer) -> "TokenTable":
        """Tokenize the texts."""
        rows = tokenizer(texts)
        lengths = [0, *(len(ids) for ids in rows.ids)]
        flat = np.concatenate(rows.ids) if rows.ids else np.zeros(0, np.int32)
        return cls(flat, np.cumsum(lengths, dtype=np.int64), rows.truncated)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each text, int64[U]."""
        return np.diff(self.offsets)

    def __getitem__(self, text: int) -> NDArray[np.int32]:
        return self.ids[self.offsets[text] : self.offsets[text + 1]]


def choose_labelled(examples: int, labelled: int, seed: int) -> NDArray[np.bool_]:
    """Return which examples keep their label, bool[N]: `labelled` of them by the seed; 0 is all.

    Raises:
      ConfigError: there are fewer examples.
    """
    if labelled > examples:
        raise ConfigError(
            f"supervision.labelled={labelled}: there are {examples} labelled examples; give fewer, "
            "or 0 for all"
        )
    if not labelled:
        return np.ones(examples, bool)
    kept = np.zeros(examples, bool)
    kept[np.random.default_rng([seed, _LABEL_STREAM]).permutation(examples)[:labelled]] = True
    return kept


def padded_length(longest: int, max_length: int) -> int:
    """Return T for a batch whose longest text has so many tokens: the next of `LENGTHS`.

    Above the last of them it doubles; never above the encoder's max_length.
    """
    for length in LENGTHS:
        if longest <= length:
            return min(length, max_length)
    length = LENGTHS[-1]
    while length < longest:
        length *= 2
    return min(length, max_length)


def padded(
    rows: Sequence[Sequence[NDArray[np.int32]]], pad_id: int, length: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return ids and mask of B examples of S texts each, int32[B, S, T], T the length."""
    shape = (len(rows), len(rows[0]), length)
    input_ids, mask = np.full(shape, pad_id, np.int32), np.zeros(shape, np.int32)
    for i, texts in enumerate(rows):
        for side, ids in enumerate(texts):
            input_ids[i, side, : len(ids)] = ids
            mask[i, side, : len(ids)] = 1
    return input_ids, mask


class PairBatches:
    """The batches of a run.

    An example is a pair, or with `duplicate` copies one copy of it: the first is the pair as it
    is, in every other one random token of each sentence is [MASK] (never [CLS], [SEP] or padding;
    the same token whenever the copy comes by).

    Attributes:
      order: which examples a step sees.
      truncated: distinct sentences that were cut at the maximum length.
    """

    def __init__(
        self,
        pairs: LabelledPairs,
        labelled: NDArray[np.bool_],
        tokenizer: TextTokenizer,
        *,
        batch_size: int,
        duplicate: int,
        seed: int,
    ):
        """Tokenize every distinct sentence once.

        Raises:
          ConfigError: `duplicate` and a vocabulary without [MASK].
        """
        self._seed, self._pairs, self._duplicate = seed, len(pairs), duplicate
        self._targets, self._labelled = pairs.targets, labelled.astype(np.float32)
        self._pad_id, self._max_length = tokenizer.pad_id, tokenizer.max_length
        mask_id = tokenizer.special_id("mask_token")
        kept = [tokenizer.special_id(name) for name in ("cls_token", "sep_token", "pad_token")]
        self._never_masked = np.asarray([token for token in kept if token is not None], np.int32)
        self._mask_id = -1 if mask_id is None else mask_id
        if duplicate > 1 and mask_id is None:
            raise ConfigError(
                f"supervision.duplicate={duplicate}: the encoder's vocabulary has no [MASK]"
            )
        numbers: dict[str, int] = {}
        both = (pairs.sentences1, pairs.sentences2)
        sides = [[numbers.setdefault(text, len(numbers)) for text in side] for side in both]
        self._texts = np.asarray(sides, np.int64).T  # [N, 2]
        self._table = TokenTable.build(list(numbers), tokenizer)
        self.truncated = self._table.truncated
        if self.truncated:
            _log.warning(
                "%d of %d sentences are longer than %d tokens and were cut",
                self.truncated,
                len(numbers),
                self._max_length,
            )
        examples = len(pairs) * duplicate
        if examples < batch_size:
            _log.warning("train.batch_size=%d is cut to the %d examples", batch_size, examples)
        self.order = ExampleOrder(examples, min(batch_size, examples), seed)

    def batch(self, step: int, wanted: slice = slice(None)) -> PairBatch:
        """Return the examples of the step after `step` steps, or the wanted ones of them.

        T is that of the whole batch.
        """
        examples = self.order.batches(step, 1)[0]
        longest = int(self._table.lengths[self._texts[examples % self._pairs]].max())
        examples = examples[wanted]
        rows = [self.tokens(int(example)) for example in examples]
        input_ids, mask = padded(rows, self._pad_id, padded_length(longest, self._max_length))
        pairs = examples % self._pairs
        return PairBatch(input_ids, mask, self._targets[pairs], self._labelled[pairs])

    def tokens(self, example: int) -> list[NDArray[np.int32]]:
        """Return the token ids of both sentences of an example, int32[t] each."""
        copy, pair = divmod(example, self._pairs)
        rows = [self._table[text] for text in self._texts[pair]]
        if copy == 0:
            return rows
        return [self._masked(ids, pair, copy, side) for side, ids in enumerate(rows)]

    def _masked(self, ids: NDArray[np.int32], pair: int, copy: int, side: int) -> NDArray[np.int32]:
        places = np.flatnonzero(~np.isin(ids, self._never_masked))
        if not len(places):
            return ids  # an empty sentence
        rng = np.random.default_rng([self._seed, _MASK_STREAM, pair, copy, side])
        masked = ids.copy()
        masked[rng.choice(places)] = self._mask_id
        return masked
