"""Ways to damage a file: its bytes, the values in its JSON, its archive or its header.

A damage takes the bytes of a file and random numbers and returns other bytes.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import msgpack
import numpy as np

from bertflow_jax.convert.crc32c import masked_crc32c

Rng = np.random.Generator
Damage = Callable[[bytes, Rng], bytes]

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 440449768\n"
# What a field of a JSON file may hold although nobody would write it.
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 1.5, 2**31, 2**60, 2**64, -(2**63), 10**400, 1e308),
    *(float("nan"), float("-inf"), "", "x", "1", "0", "\0", "\ud800", "../x", "/etc/passwd"),
    *([], {}, [[]], [None], [2**60], [2**60, 2**60], [-1], {"a": {}}, ["x"], "x" * 100_000),
    *("F64", "I8", "BOOL", "F8_E4M3", "float16", "object"),
)


def _range(data: bytes, rng: Rng) -> tuple[int, int]:
    start = int(rng.integers(max(1, len(data))))
    return start, min(len(data), start + int(rng.integers(1, 1 + max(1, len(data) // 3))))


def _truncate(data: bytes, rng: Rng) -> bytes:
    return data[: int(rng.integers(max(1, len(data))))]


def _bit(data: bytes, rng: Rng) -> bytes:
    changed = bytearray(data)
    for _ in range(int(rng.choice([1, 1, 1, 4]))):
        changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _early_byte(data: bytes, rng: Rng) -> bytes:
    """Replace a byte where headers lie."""
    at = int(rng.integers(min(len(data), 600)))
    return data[:at] + rng.bytes(1) + data[at + 1 :]


def _random(data: bytes, rng: Rng) -> bytes:
    start, end = _range(data, rng)
    return data[:start] + rng.bytes(end - start) + data[end:]


def _zeros(data: bytes, rng: Rng) -> bytes:
    start, end = _range(data, rng)
    return data[:start] + bytes(end - start) + data[end:]


def _ones(data: bytes, rng: Rng) -> bytes:
    """As NaN in floats, and as the largest number in a header."""
    start, end = _range(data, rng)
    return data[:start] + b"\xff" * (end - start) + data[end:]


def _twice(data: bytes, rng: Rng) -> bytes:
    start, end = _range(data, rng)
    return data[:end] + data[start:end] + data[end:]


def _cut_out(data: bytes, rng: Rng) -> bytes:
    start, end = _range(data, rng)
    return data[:start] + data[end:]


def _swap(data: bytes, rng: Rng) -> bytes:
    a, b, c = sorted(int(at) for at in rng.integers(len(data) + 1, size=3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def _append(data: bytes, rng: Rng) -> bytes:
    return data + rng.bytes(int(rng.integers(1, 50)))


def _empty(data: bytes, rng: Rng) -> bytes:
    return b""


def _pointer(data: bytes, rng: Rng) -> bytes:
    return LFS


BYTES: dict[str, Damage] = {
    "truncated": _truncate,
    "bits flipped": _bit,
    "a byte of the header replaced": _early_byte,
    "random range": _random,
    "range of zeros": _zeros,
    "range of ones": _ones,
    "range twice": _twice,
    "range cut out": _cut_out,
    "blocks swapped": _swap,
    "bytes appended": _append,
    "empty": _empty,
    "git-lfs pointer": _pointer,
}


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of everything inside a JSON value."""
    keys = node.keys() if isinstance(node, dict) else range(len(node))
    for key in list(keys):
        yield node, key
        if isinstance(node[key], dict | list):
            yield from _places(node[key])


def change_value(content: Any, rng: Rng) -> Any:
    """Replace, remove, double or rename one random node of a JSON value, in place."""
    places = list(_places(content)) if isinstance(content, dict | list) else []
    if not places:
        return _VALUES[rng.integers(len(_VALUES))]
    # A few fields of the top decide most; a tokenizer has thousands of others.
    top = [place for place in places if place[0] is content]
    chosen = top if rng.random() < 0.5 else places
    node, key = chosen[rng.integers(len(chosen))]
    match rng.integers(5):
        case 0:
            del node[key]
        case 1 if isinstance(node, dict):
            node[str(key) + "x"] = node.pop(key)
        case 2 if isinstance(node, list):
            node.insert(key, node[key])
        case 3 if isinstance(node[key], int) and not isinstance(node[key], bool):
            node[key] += int(rng.choice([-1, 1, 1000]))
        case _:
            node[key] = _VALUES[rng.integers(len(_VALUES))]
    return content


def json_value(data: bytes, rng: Rng) -> bytes:
    """Change one value of a JSON file."""
    return json.dumps(change_value(json.loads(data), rng)).encode()


def json_depth(data: bytes, rng: Rng) -> bytes:
    """Nest a value deeper than a parser goes."""
    name = rng.choice(list(json.loads(data)) or ["x"])
    return b'{"' + str(name).encode() + b'":' + b"[" * 20_000 + b"]" * 20_000 + b"}"


def safetensors_header(data: bytes, rng: Rng) -> bytes:
    """Change one value of the header and make its length fit."""
    size = int.from_bytes(data[:8], "little")
    header = json_value(data[8 : 8 + size], rng)
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


def safetensors_length(data: bytes, rng: Rng) -> bytes:
    """Say another length of the header."""
    said = (0, 1, 2**31, 2**63, 2**64 - 1, int(rng.integers(1, 3000)))
    return int(rng.choice(np.array(said, np.uint64))).to_bytes(8, "little") + data[8:]


def msgpack_value(data: bytes, rng: Rng) -> bytes:
    """Change one value of a msgpack tree, or the shape, type or bytes of one of its arrays."""
    tree = msgpack.unpackb(data, ext_hook=msgpack.ExtType, strict_map_key=False)
    arrays = [place for place in _places(tree) if isinstance(place[0][place[1]], msgpack.ExtType)]
    node, key = arrays[rng.integers(len(arrays))]
    shape, kind, content = msgpack.unpackb(node[key].data, raw=True)
    others = [
        b"object",
        b"V4",
        b"float64",
        b"M8",
        b"U1",
        b"bfloat16",
        b"x",
        b"\xff",
        5,
        None,
        b"f,f",
    ]
    match rng.integers(6):
        case 0:
            shapes = ([2**60], [-1], [], [2**40, 0], [1, -1], ["x"], 5, None)
            shape = shapes[rng.integers(len(shapes))]
        case 1:
            kind = others[rng.integers(len(others))]
        case 2:
            content = content[: int(rng.integers(len(content)))]
        case 3:
            node[key] = {"__msgpack_chunked_array__": True, "shape": {"0": 2**60}, "chunks": {}}
        case 4:
            odd = (5, b"x", 1.5, True, None)
            node[odd[rng.integers(len(odd))]] = node.pop(key)
        case _:
            for _ in range(600):
                node[key] = {"x": node[key]}
    if isinstance(node.get(key), msgpack.ExtType):
        code = int(rng.choice([1, 1, 1, 2, 3, 9]))
        node[key] = msgpack.ExtType(code, msgpack.packb((shape, kind, content)))
    return msgpack.packb(tree)


def zip_member(data: bytes, rng: Rng) -> bytes:
    """Damage one member of an archive, or its name, and seal it with good checksums."""
    names = ("../../outside", "/tmp/outside", "data.pkl", "x/data.pkl", "x/data/0", "x/.data")
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(written, "w") as other:
        members = archive.infolist()
        # The pickle says what the others are.
        chosen = rng.integers(len(members)) if rng.random() < 0.4 else 0
        for i, member in enumerate(members):
            content, name = archive.read(member), member.filename
            if i == chosen and rng.random() < 0.2:
                name = names[rng.integers(len(names))]
            elif i == chosen:
                damage = list(BYTES.values())[rng.integers(len(BYTES))]
                content = damage(content or b"\0", rng)
            other.writestr(name, content)
    return written.getvalue()


def sealed_table(data: bytes, rng: Rng) -> bytes:
    """Damage the first block of a TensorFlow index and give it a good checksum.

    The first block of a table begins at byte 0 and ends where its trailer's checksum is right.
    """
    size = next(
        n
        for n in range(4, len(data) - 5)
        if int.from_bytes(data[n + 1 : n + 5], "little") == masked_crc32c(data[: n + 1])
    )
    block = bytearray(data[:size])
    for _ in range(int(rng.choice([1, 1, 3]))):
        block[int(rng.integers(size))] = int(rng.choice([0, 1, 127, 128, 255, rng.integers(256)]))
    sealed = bytes(block) + data[size : size + 1]
    return sealed + masked_crc32c(sealed).to_bytes(4, "little") + data[size + 5 :]


def damages(name: str, data: bytes) -> dict[str, Damage]:
    """Return the damages that a file of this name and content can have."""
    known = dict(BYTES)
    if name.endswith(".json"):
        known |= {f"a value changed ({i})": json_value for i in range(12)}
        known |= {"nested too deep": json_depth}
    if name.endswith(".safetensors"):
        known |= {f"the header changed ({i})": safetensors_header for i in range(8)}
        known |= {"another length of the header": safetensors_length}
    if name.endswith(".msgpack"):
        known |= {f"a value changed ({i})": msgpack_value for i in range(8)}
    if data.startswith(b"PK"):
        known |= {f"a member changed ({i})": zip_member for i in range(8)}
    if name.endswith(".index"):
        known |= {f"the block changed ({i})": sealed_table for i in range(20)}
    return known
