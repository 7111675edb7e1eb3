"""A small writer of TensorFlow checkpoints (V2), for tests; the checksum is the bytewise one."""

import numpy as np

_TYPES = {"float32": 1, "float64": 2, "int32": 3, "int64": 9, "bool": 10, "float16": 19}
_TABLE = []
for _value in range(256):
    for _ in range(8):
        _value = _value >> 1 ^ (0x82F63B78 if _value & 1 else 0)
    _TABLE.append(_value)


def crc32c(data):
    register = 0xFFFFFFFF
    for byte in data:
        register = _TABLE[(register ^ byte) & 0xFF] ^ register >> 8
    return register ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """A field of a protocol buffer: a varint, or bytes with their length."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def entry(dtype, shape, shard, offset, data):
    dims = b"".join(field(2, field(1, size)) for size in shape)
    message = field(1, dtype) + field(2, dims) + field(3, shard) + field(4, offset)
    return message + field(5, len(data)) + varint(6 << 3 | 5) + masked(data).to_bytes(4, "little")


def block(entries):
    """Entries with shared starts of keys, a restart every 16."""
    out, restarts, before = b"", [], b""
    for i, (key, value) in enumerate(entries):
        if i % 16 == 0:
            restarts.append(len(out))
            before = b""
        shared = 0
        while shared < min(len(key), len(before)) and key[shared] == before[shared]:
            shared += 1
        out += varint(shared) + varint(len(key) - shared) + varint(len(value))
        out += key[shared:] + value
        before = key
    numbers = [*restarts, len(restarts)]
    return out + b"".join(number.to_bytes(4, "little") for number in numbers)


def write_table(path, table, entries_a_block=40):
    items, data, handles = sorted(table.items()), b"", []

    def add(content):
        nonlocal data
        handle = varint(len(data)) + varint(len(content))
        data += content + b"\0" + masked(content + b"\0").to_bytes(4, "little")
        return handle

    for start in range(0, len(items), entries_a_block):
        part = items[start : start + entries_a_block]
        handles.append((part[-1][0], add(block(part))))
    meta, index = add(block([])), add(block(handles))
    footer = (meta + index).ljust(40, b"\0") + (0xDB4775248B80FB57).to_bytes(8, "little")
    path.write_bytes(data + footer)


def write_bundle(prefix, tensors, shards=1):
    """Write {name: array} as PREFIX.index and its data files."""
    header = field(1, shards) + field(3, field(1, 1))
    table, data = {b"": header}, [b""] * shards
    for i, (name, array) in enumerate(sorted(tensors.items())):
        array, shard = np.asarray(array), i % shards
        content = array.tobytes()
        kind = _TYPES[array.dtype.name]
        offset = len(data[shard])
        table[name.encode()] = entry(kind, array.shape, shard, offset, content)
        data[shard] += content
    write_table(prefix.with_name(prefix.name + ".index"), table)
    for i, content in enumerate(data):
        name = f"{prefix.name}.data-{i:05d}-of-{shards:05d}"
        prefix.with_name(name).write_bytes(content)
    return prefix
