"""Blocks of rows, and what a first reading of a file keeps of them for the next ones."""

import hashlib
import io
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bertflow_jax.data.id_types import JsonIds

BLOCK = 512  # rows that are checked together before any of them is used
_MARK = 8  # bytes of the running sha256 that are kept after every block


class Block(NamedTuple):
    """Rows that follow one another.

    Attributes:
      start: number of the first row, from 0.
      keys: the ids: None (the rows are numbered), a list, or a pyarrow array.
      texts: what is embedded.
    """

    start: int
    keys: Any
    texts: list[str]

    def listed(self) -> list[Any]:
        """Return the ids as Python values (scalars of pyarrow where Python has no such type)."""
        if self.keys is None:
            return list(range(self.start, self.start + len(self.texts)))
        if isinstance(self.keys, list):
            return self.keys
        try:
            return self.keys.to_pylist()
        except ValueError:  # nanoseconds, bytes that are no UTF-8
            return list(self.keys)


class Survey(NamedTuple):
    """What reading a file once tells.

    Attributes:
      rows: how many there are.
      sha256: of ids and texts.
      marks: the running digest after every block.
      id_type: of the ids: a type of pyarrow, or the name of one.
      blank: texts that are empty or white space alone.
    """

    rows: int
    sha256: str
    marks: bytes
    id_type: Any
    blank: int = 0

    def mark(self, number: int) -> bytes:
        """Return the mark of a block; empty for one that was not there."""
        return self.marks[number * _MARK : (number + 1) * _MARK]


class RunningDigest:
    """sha256 of the ids and texts of blocks, one after the other."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    def add(self, block: Block) -> bytes:
        """Take in a block and return the mark after it."""
        if block.keys is None or isinstance(block.keys, list):
            rows: Any = zip(block.listed(), block.texts, strict=True)
        else:
            # The bytes of an Arrow array are exact for every type; Python's values are not.
            self._sha.update(_arrow_bytes(block.keys))
            rows = ((text,) for text in block.texts)
        for row in rows:
            self._sha.update(json.dumps(row).encode("ascii") + b"\n")
        return self._sha.copy().digest()[:_MARK]

    def hexdigest(self) -> str:
        """Return the sha256 of everything so far."""
        return self._sha.hexdigest()


def survey(blocks: Iterator[Block], place: Callable[[int], str], id_column: str) -> Survey:
    """Read blocks to the end.

    Args:
      blocks: of a file.
      place: says where a row is, for messages.
      id_column: of the ids, for messages; "" numbers the rows.

    Raises:
      DataError: ids that have no common type, or none a column can have.
    """
    running, marks, rows, blank = RunningDigest(), bytearray(), 0, 0
    ids, arrow_type = JsonIds(place, id_column), None
    for block in blocks:
        marks += running.add(block)
        if isinstance(block.keys, list):
            ids.add(block.keys, block.start)
        elif block.keys is not None:
            arrow_type = block.keys.type
        rows += len(block.texts)
        blank += sum(not text.strip() for text in block.texts)
    id_type = ids.type_name() if arrow_type is None else arrow_type
    return Survey(rows, running.hexdigest(), bytes(marks), id_type, blank)


def _arrow_bytes(array: Any) -> bytes:
    import pyarrow

    sink = io.BytesIO()
    batch = pyarrow.record_batch([array], names=["id"])
    with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()
