"""From token ids of any length to padded batches in a few shapes known beforehand.

A batch is int32[R, T]. T is one of `LENGTHS` (cut at the encoder's limit); R falls with T, so that
a call is about the same work in every length. Rows are taken longest first and a batch is filled up
with the next shorter ones, so that only the last batch has empty rows. What is left for it may
instead go out one row a call (`LONE`), where that is less work: one sentence does not pay for 64.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

BATCH_SIZE = 64  # rows of the shortest batches where nobody asks for another number
LENGTHS = (16, 24, 32, 48, 64, 96, 128, 256, 512)
LONE = 64


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


@dataclasses.dataclass(frozen=True)
class BatchShapes:
    """The shapes [R, T] that a corpus is cut into; at most ten up to 512 tokens.

    Attributes:
      max_length: tokens of the longest text.
      batch_size: R of the shortest T; longer ones take fewer, for the same number of tokens.
      devices: R is a multiple of it.
    """

    max_length: int
    batch_size: int
    devices: int = 1

    def full(self) -> tuple[tuple[int, int], ...]:
        """Return the shapes of full batches, shortest T first."""
        return tuple((self._rows(length), length) for length in _lengths(self.max_length))

    def lone(self) -> tuple[tuple[int, int], ...]:
        """Return the shape of one sentence a device."""
        return ((self.devices, min(LONE, self.max_length)),)

    def all(self) -> tuple[tuple[int, int], ...]:
        """Return every shape once: what is compiled, at most."""
        return tuple(dict.fromkeys((*self.full(), *self.lone())))

    def _rows(self, length: int) -> int:
        rows = max(1, self.batch_size * LENGTHS[0] // length)
        return -(-rows // self.devices) * self.devices

    def plan(self, lengths: Sequence[int]) -> Iterator[tuple[np.ndarray, tuple[int, int]]]:
        """Cut rows of the given lengths in tokens into (their numbers int64[n], shape)."""
        sizes = np.asarray(lengths, np.int64)
        order = np.argsort(-sizes, kind="stable")
        start = 0
        while start < len(order):
            left, longest = len(order) - start, sizes[order[start]]
            rows, length = _fit(self.full(), longest)
            ((lone_rows, lone_length),) = self.lone()
            calls = -(-left // lone_rows)
            if longest <= lone_length and calls * lone_rows * lone_length < rows * length:
                rows, length = lone_rows, lone_length
            yield order[start : start + rows], (rows, length)
            start += rows


def _lengths(max_length: int) -> tuple[int, ...]:
    """Return those of LENGTHS below max_length (above the last one, it doubles), and max_length."""
    lengths = list(LENGTHS)
    while lengths[-1] < max_length:
        lengths.append(2 * lengths[-1])
    return (*(length for length in lengths if length < max_length), max_length)


def _fit(shapes: Sequence[tuple[int, int]], tokens: int) -> tuple[int, int]:
    return next(shape for shape in shapes if shape[1] >= tokens)


def make_batches(
    rows: Sequence[np.ndarray], pad_id: int, shapes: BatchShapes
) -> Iterator[TokenBatch]:
    """Cut rows of token ids into padded batches.

    Args:
      rows: int32[t] token ids each, t <= shapes.max_length.
      pad_id: fills up the rest.
      shapes: what shapes there are.

    Yields:
      batches whose `rows` together are 0 .. len(rows) - 1, each once.
    """
    for members, shape in shapes.plan([len(ids) for ids in rows]):
        yield TokenBatch(members, *pad([rows[row] for row in members], shape, pad_id))


def pad(
    rows: Sequence[np.ndarray], shape: tuple[int, int], pad_id: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of token ids as input_ids and attention_mask, int32[shape] both.

    Rows beyond the given ones are padding alone.
    """
    lengths = np.zeros(shape[0], np.int64)
    lengths[: len(rows)] = [len(ids) for ids in rows]
    mask = np.arange(shape[1]) < lengths[:, None]
    input_ids = np.full(shape, pad_id, np.int32)
    if len(rows):
        input_ids[mask] = np.concatenate(rows)
    return input_ids, mask.astype(np.int32)
