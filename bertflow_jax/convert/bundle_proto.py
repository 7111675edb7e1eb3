"""The messages inside the index of a TensorFlow checkpoint (tensor_bundle.proto).

    BundleHeaderProto  1 num_shards, 2 endianness (0 little), 3 version
    BundleEntryProto   1 dtype, 2 shape, 3 shard_id, 4 offset, 5 size, 6 crc32c (masked),
                       7 slices (of a partitioned variable)
    TensorShapeProto   2 dim (1 size), 3 unknown_rank

Everything here raises `sstable.Damaged`.
"""

import dataclasses
from collections.abc import Iterator

from bertflow_jax.convert.sstable import Damaged, read_varint, take

_MAX_RANK, _MAX_SHARDS = 32, 99_999


@dataclasses.dataclass(frozen=True)
class Entry:
    """Where a tensor lies.

    Attributes:
      dtype: number in TensorFlow's types.proto.
      shape: of the tensor.
      shard: number of its data file.
      offset: of its first byte there.
      size: in bytes.
      crc: masked CRC-32C of the bytes.
      sliced: whether it is stored as parts of a partitioned variable.
    """

    dtype: int = 0
    shape: tuple[int, ...] = ()
    shard: int = 0
    offset: int = 0
    size: int = 0
    crc: int = 0
    sliced: bool = False


def read_header(message: bytes) -> int:
    """Return the number of data files."""
    shards = 0
    for field, value in _fields(message):
        if field == 1:
            shards = _number(value)
        elif field == 2 and value != 0:
            raise Damaged("written on a big-endian machine, which is not supported")
    if not 1 <= shards <= _MAX_SHARDS:
        raise Damaged(f"{shards} data files")
    return shards


def read_entry(message: bytes) -> Entry:
    """Return the entry of a tensor."""
    numbers = {1: "dtype", 3: "shard", 4: "offset", 5: "size", 6: "crc"}
    found: dict[str, int] = {}
    shape: tuple[int, ...] = ()
    sliced = False
    for field, value in _fields(message):
        if field in numbers:
            found[numbers[field]] = _number(value)
        elif field == 2:
            shape = _shape(_bytes(value))
        sliced |= field == 7
    return Entry(shape=shape, sliced=sliced, **found)


def read_name(key: bytes) -> str:
    """Return a tensor's name."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise Damaged(f"the name {key!r} is not UTF-8") from None


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (number, value) of the fields of a protocol buffer: an int, or bytes."""
    at = 0
    while at < len(message):
        tag, at = read_varint(message, at)
        value: int | bytes
        match tag & 7:
            case 0:
                value, at = read_varint(message, at)
            case 2:
                size, at = read_varint(message, at)
                value, at = take(message, at, size)
            case 1 | 5:
                raw, at = take(message, at, 8 if tag & 7 == 1 else 4)
                value = int.from_bytes(raw, "little")
            case kind:
                raise Damaged(f"a field of kind {kind}")
        yield tag >> 3, value


def _shape(message: bytes) -> tuple[int, ...]:
    dims = []
    for field, value in _fields(message):
        if field == 2:
            sizes = [_number(size) for number, size in _fields(_bytes(value)) if number == 1]
            dims.append(sizes[-1] if sizes else 0)
        elif field == 3 and value:
            raise Damaged("a tensor of unknown rank")
    if len(dims) > _MAX_RANK:
        raise Damaged(f"a tensor of rank {len(dims)}")
    return tuple(dims)


def _number(value: int | bytes) -> int:
    # A negative number has its 64th bit set.
    if isinstance(value, bytes) or value >> 63:
        raise Damaged("no number where one is expected, or a negative one")
    return value


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise Damaged("a number where a message is expected")
    return value
