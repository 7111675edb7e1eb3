"""From token ids of any length to batches in a few shapes known beforehand, almost unpadded.

A batch is int32[R, T]. A row holds several texts one after the other (they do not see each other,
see `encoder.bert`), so that rows are full: with one text a row, padding was a quarter of the work
on short sentences. T is one of `LENGTHS`; R falls with T, so that a call is about the same work in
every shape. What is too little for such a call goes out in a single row (`LONE`): one sentence does
not pay for a thousand tokens. Where full calls are large there are calls of 4,096 tokens between
the two, in place of two of the lengths.

Every batch takes the longest text that waits, and fills its rows with the longest ones that still
fit (first-fit decreasing). Which T it takes is tried out: the one with most tokens for its cost.
"""

import bisect
import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

LENGTHS = (32, 64, 128, 160, 192, 256, 384, 512)
LONE = (64, 256)
LARGE_LENGTHS = (32, 64, 128, 192, 256, 512)  # above `_LARGE` texts a device

_TEXT_TOKENS = 16  # tokens that `batch_size` counts for a text
_MAX_TEXTS = 16  # a row: bounds the vectors of a call
_MOST_TEXTS = 16_384  # of `batch_size`, a device: a call of 262,144 tokens keeps any device busy
_LARGE = 1024  # of `batch_size`, a device; what a call costs besides, in tokens, grows no further
_MEDIUM = 4096  # tokens, a device, of a call between a full one and a single row
_ATTENTION = 1000  # a token in a row of T costs 1 + T / 1000 (12 heads of 32, on a CPU)


@dataclasses.dataclass(frozen=True)
class TokenBatch:
    """One device call.

    Attributes:
      texts: int64[n], the place in the input of every text of the batch.
      slots: int64[n], their places among the R * S vectors that come back, S = `slots_of(T)`.
      input_ids: int32[R, T], filled up with the tokenizer's padding id.
      attention_mask: int32[R, T], the number of the token's text in its row, from 1; 0 for padding.
    """

    texts: np.ndarray
    slots: np.ndarray
    input_ids: np.ndarray
    attention_mask: np.ndarray


def slots_of(length: int) -> int:
    """Return S, the most texts that a row of `length` tokens takes."""
    return max(1, min(_MAX_TEXTS, length // 3))


@dataclasses.dataclass(frozen=True)
class BatchShapes:
    """The shapes [R, T] that a corpus is cut into; at most ten up to 512 tokens.

    Attributes:
      max_length: tokens of the longest text.
      batch_size: a call has about 16 tokens for each; above 16,384 a device it counts as that.
      devices: R is a multiple of it.
    """

    max_length: int
    batch_size: int
    devices: int = 1

    def __post_init__(self) -> None:
        """Bound the size of a call."""
        most = _MOST_TEXTS * self.devices
        object.__setattr__(self, "batch_size", min(self.batch_size, most))

    def full(self) -> tuple[tuple[int, int], ...]:
        """Return the shapes of full batches, shortest T first."""
        return tuple((self._rows(length), length) for length in self._lengths())

    def lone(self) -> tuple[tuple[int, int], ...]:
        """Return the shapes of one row a device."""
        longest = self._lengths()[-1]
        return tuple((self.devices, length) for length in LONE if length <= longest)

    def medium(self) -> tuple[tuple[int, int], ...]:
        """Return the shapes between full and lone ones; there are some if the full are large."""
        rows = _MEDIUM * self.devices
        return tuple((rows // t, t) for _, t in self.lone() if self._is_large())

    def all(self) -> tuple[tuple[int, int], ...]:
        """Return every shape once: what is compiled, at most."""
        return tuple(dict.fromkeys((*self.full(), *self.medium(), *self.lone())))

    def _is_large(self) -> bool:
        return self.batch_size > _LARGE * self.devices

    def _rows(self, length: int) -> int:
        rows = max(1, self.batch_size * _TEXT_TOKENS // length)
        return -(-rows // self.devices) * self.devices

    def _lengths(self) -> tuple[int, ...]:
        """Return lengths as far as one holds the longest text; above the last one, it doubles."""
        lengths = list(LARGE_LENGTHS if self._is_large() else LENGTHS)
        while lengths[-1] < self.max_length:
            lengths.append(2 * lengths[-1])
        longest = max(self.max_length, LONE[0])
        return tuple(lengths[: bisect.bisect_left(lengths, longest) + 1])

    def plan(self, lengths: Sequence[int]) -> Iterator[tuple[list[list[int]], tuple[int, int]]]:
        """Cut texts of the given lengths in tokens into batches.

        Yields:
          (rows, shape): for every row that is not empty the places of its texts in the input.
        """
        waiting: dict[int, collections.deque[int]] = collections.defaultdict(collections.deque)
        for place, length in enumerate(lengths):
            waiting[length].append(place)
        counts = {length: len(places) for length, places in waiting.items()}
        shapes = self.all()
        while counts:
            longest = max(counts)
            fills = [(_fill(counts, shape), shape) for shape in shapes if shape[1] >= longest]
            rows, shape = max(fills, key=lambda fill: self._worth(*fill))
            for length in (length for row in rows for length in row):
                counts[length] -= 1
                if not counts[length]:
                    del counts[length]
            yield [[waiting[length].popleft() for length in row] for row in rows], shape

    def _worth(self, rows: Sequence[Sequence[int]], shape: tuple[int, int]) -> float:
        """Return tokens a unit of cost; every call costs about a sixteenth of a full one more.

        Of a large full one much less: few texts would else be padded to millions of tokens.
        """
        start = min(self.batch_size, _LARGE * self.devices)
        cost = shape[0] * shape[1] * (1 + shape[1] / _ATTENTION) + start
        return sum(map(sum, rows)) / cost


def _fill(counts: Mapping[int, int], shape: tuple[int, int]) -> list[list[int]]:
    """Return the lengths of the texts that go into each row, out of counts[length] of them."""
    left, sizes = dict(counts), sorted(counts)
    rows: list[list[int]] = []
    while sizes and len(rows) < shape[0]:
        rows.append([])
        room = shape[1]
        while len(rows[-1]) < slots_of(shape[1]) and (at := bisect.bisect_right(sizes, room)):
            size = sizes[at - 1]
            rows[-1].append(size)
            room -= size
            left[size] -= 1
            if not left[size]:
                del sizes[at - 1]
    return rows


def make_batches(
    texts: Sequence[np.ndarray], pad_id: int, shapes: BatchShapes
) -> Iterator[TokenBatch]:
    """Cut texts as token ids into batches.

    Args:
      texts: int32[t] token ids each, 1 <= t <= shapes.max_length.
      pad_id: fills up the rest.
      shapes: what shapes there are.

    Yields:
      batches whose `texts` together are 0 .. len(texts) - 1, each once.
    """
    for rows, shape in shapes.plan([len(ids) for ids in texts]):
        slots = [row * slots_of(shape[1]) + i for row, r in enumerate(rows) for i in range(len(r))]
        places = [place for row in rows for place in row]
        input_ids = np.full(shape, pad_id, np.int32)
        mask = np.zeros(shape, np.int32)
        for row, members in enumerate(rows):
            parts = [texts[place] for place in members]
            numbers = np.repeat(np.arange(1, len(parts) + 1), [len(part) for part in parts])
            input_ids[row, : len(numbers)] = np.concatenate(parts)
            mask[row, : len(numbers)] = numbers
        yield TokenBatch(np.asarray(places), np.asarray(slots), input_ids, mask)


def pad(texts: Sequence[np.ndarray], pad_id: int) -> tuple[np.ndarray, np.ndarray]:
    """Return texts as input_ids and attention_mask, int32[N, T] both, one a row, T the longest."""
    lengths = np.asarray([len(ids) for ids in texts], np.int64)
    mask = np.arange(lengths.max(initial=1)) < lengths[:, None]
    input_ids = np.full(mask.shape, pad_id, np.int32)
    if len(texts):
        input_ids[mask] = np.concatenate(texts)
    return input_ids, mask.astype(np.int32)
