"""The table files of TensorFlow checkpoints (`.index`), which are LevelDB's sorted string tables.

    file    = data blocks, one metaindex block, one index block, footer
    block   = entries, restart offsets (uint32 each), their number (uint32);
              then one byte of compression and a masked CRC-32C over block and that byte
    entry   = varints (bytes shared with the key before, other bytes, bytes of the value),
              the other bytes of the key, the value
    footer  = 48 bytes: handles (varints offset, size) of metaindex and index block, zeros, magic

The index block maps a key to the handle of a data block. Every length is checked against what is
there before anything is cut out of it.
"""

from collections.abc import Iterator
from pathlib import Path

from bertflow_jax.array_files import first_bytes
from bertflow_jax.convert.crc32c import masked_crc32c
from bertflow_jax.errors import DataNotFoundError, WeightsError

MAGIC = 0xDB4775248B80FB57
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5  # compression, checksum
# An index has about 50 bytes a tensor; keys that share their start must not fill the memory.
_MAX_BYTES, _MAX_KEYS, _MAX_KEY_BYTES = 1 << 24, 100_000, 4096


class Damaged(Exception):
    """What is wrong with the bytes; the caller adds the file."""


def read_table(path: Path) -> dict[bytes, bytes]:
    """Read a whole table.

    Raises:
      DataNotFoundError: no such file.
      WeightsError: the file is damaged, compressed or no table; names it.
    """
    if not path.exists():
        raise DataNotFoundError(f"{path} is missing")
    first_bytes(path)
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise WeightsError(f"{path} cannot be read ({error.strerror or error})") from error
    try:
        return _parse_table(data)
    except Damaged as error:
        raise WeightsError(f"{path} is damaged ({error}); download or copy it again") from error


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a base-128 number of at most 64 bits and the position after it."""
    value = 0
    for i in range(10):
        if at + i >= len(data):
            raise Damaged("a number is cut off")
        byte = data[at + i]
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at + i + 1
    raise Damaged("a number has more than 64 bits")


def take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    """Return `size` bytes from `at` and the position after them."""
    if size > len(data) - at:
        raise Damaged(f"{size} bytes are announced and {max(0, len(data) - at)} are there")
    return data[at : at + size], at + size


def _parse_table(data: bytes) -> dict[bytes, bytes]:
    if len(data) > _MAX_BYTES:
        raise Damaged(f"larger than {_MAX_BYTES} bytes, which no index of a checkpoint is")
    if len(data) < _FOOTER_BYTES:
        raise Damaged(f"{len(data)} bytes are too few for a table")
    footer = data[-_FOOTER_BYTES:]
    if int.from_bytes(footer[-8:], "little") != MAGIC:
        raise Damaged("the mark at the end of a table is not there")
    _, at = _read_handle(footer, 0)
    index, _ = _read_handle(footer, at)
    table: dict[bytes, bytes] = {}
    end = 0
    for _, value in _entries(_block(data, index)):
        handle, _ = _read_handle(value, 0)
        # Blocks follow each other, so that no block is read twice however the index is damaged.
        if handle[0] < end:
            raise Damaged("blocks overlap")
        end = sum(handle)
        for key, content in _entries(_block(data, handle)):
            if key in table or len(table) == _MAX_KEYS:
                raise Damaged(f"key {key!r} is there twice, or too many are")
            table[key] = content
    return table


def _read_handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    offset, at = read_varint(data, at)
    size, at = read_varint(data, at)
    return (offset, size), at


def _block(data: bytes, handle: tuple[int, int]) -> bytes:
    content, at = take(data, handle[0], handle[1])
    trailer, _ = take(data, at, _TRAILER_BYTES)
    if masked_crc32c(content + trailer[:1]) != int.from_bytes(trailer[1:], "little"):
        raise Damaged(f"the checksum of the block at byte {handle[0]} is wrong")
    if trailer[0] != 0:
        raise Damaged(f"block compression {trailer[0]}, which checkpoints do not use")
    return content


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    if len(block) < 4:
        raise Damaged("a block without entries")
    restarts = int.from_bytes(block[-4:], "little")
    if 4 * restarts > len(block) - 4:
        raise Damaged("a block with more restart points than bytes")
    block = block[: len(block) - 4 - 4 * restarts]
    key, at = b"", 0
    while at < len(block):
        shared, at = read_varint(block, at)
        other, at = read_varint(block, at)
        size, at = read_varint(block, at)
        if shared > len(key) or shared + other > _MAX_KEY_BYTES:
            raise Damaged("a key longer than names are, or than the one it shares its start with")
        rest, at = take(block, at, other)
        key = key[:shared] + rest
        value, at = take(block, at, size)
        yield key, value
