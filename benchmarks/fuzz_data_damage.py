"""Ways to damage a file: bytes in, bytes out, chosen by a random generator alone."""

import gzip
import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator
Damage = Callable[[Rng, bytes], bytes]

# What no reader expects where it stands: numbers beyond every type, other types, ways out.
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    0.5,
    10**18,
    10**400,
    -(10**400),
    float("nan"),
    float("inf"),
    "",
    "../../../escaped",
    "/dev/null",
    "\ud800",
    "x" * 5000,
    [],
    {},
    [[]],
    {"a": [None]},
)
_ODD_WORDS = (
    b"nan",
    b"-0",
    b"1e999",
    b"9" * 5000,
    b"1_0",
    b"0x10",
    "٣".encode(),
    b"",
    b"true",
    b"../..",
    b'"',
    b"[" * 100_000,
    b'{"a":' * 50_000,
    rb"\ud800",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xe2\x80\xa8",
    b"\0",
    b"\x1a",
    b"\r",
    b"\n\n",
    b"\t",
    b"\xed\xa0\x80",
)


def _place(rng: Rng, data: bytes) -> int:
    return int(rng.integers(len(data) + 1))


def random_bytes(rng: Rng, data: bytes) -> bytes:
    """Bytes without any order, of a similar number."""
    return rng.bytes(int(rng.integers(2 * len(data) + 2)))


def truncated(rng: Rng, data: bytes) -> bytes:
    """A download that was cut off."""
    return data[: _place(rng, data)]


def flipped(rng: Rng, data: bytes) -> bytes:
    """One to eight bits turned over."""
    found = bytearray(data)
    for _ in range(int(rng.integers(1, 9)) if found else 0):
        found[int(rng.integers(len(found)))] ^= 1 << int(rng.integers(8))
    return bytes(found)


def shuffled(rng: Rng, data: bytes) -> bytes:
    """The lines in another order, the header somewhere among them."""
    lines = data.split(b"\n")
    return b"\n".join(lines[i] for i in rng.permutation(len(lines)))


def column_dropped(rng: Rng, data: bytes) -> bytes:
    """One column gone, of all lines or of one."""
    mark = b"\t" if b"\t" in data else b","
    lines = data.split(b"\n")
    wanted = int(rng.integers(8))
    only = int(rng.integers(len(lines))) if rng.random() < 0.5 else None
    for number, line in enumerate(lines):
        fields = line.split(mark)
        if only in (None, number) and len(fields) > 1:
            del fields[wanted % len(fields)]
            lines[number] = mark.join(fields)
    return b"\n".join(lines)


def field_replaced(rng: Rng, data: bytes) -> bytes:
    """One field of a line replaced by a word that is no such field."""
    mark = b"\t" if b"\t" in data else b","
    lines = data.split(b"\n")
    number = int(rng.integers(len(lines)))
    fields = lines[number].split(mark)
    fields[int(rng.integers(len(fields)))] = _ODD_WORDS[int(rng.integers(len(_ODD_WORDS)))]
    lines[number] = mark.join(fields)
    return b"\n".join(lines)


def inserted(rng: Rng, data: bytes) -> bytes:
    """A mark, a zero byte, deep brackets, ... in the middle."""
    at = _place(rng, data)
    return data[:at] + _ODD_WORDS[int(rng.integers(len(_ODD_WORDS)))] + data[at:]


def repeated(rng: Rng, data: bytes) -> bytes:
    """A stretch of the file written twice."""
    start, stop = sorted((_place(rng, data), _place(rng, data)))
    return data[:stop] + data[start:]


def long_line(rng: Rng, data: bytes) -> bytes:
    """A line of a quarter of a million characters."""
    at = _place(rng, data)
    return data[:at] + b"word " * 50_000 + data[at:]


def other_encoding(rng: Rng, data: bytes) -> bytes:
    """The text as UTF-16, or with a byte of latin-1 in it."""
    if rng.random() < 0.5:
        return data.decode("utf-8", "replace").encode("utf-16")
    at = _place(rng, data)
    return data[:at] + b"caf\xe9" + data[at:]


def deep(rng: Rng, data: bytes) -> bytes:
    """Brackets within brackets, beyond the depth of any parser."""
    return (b"[", b'{"a":')[int(rng.integers(2))] * 100_000


ANY: tuple[Damage, ...] = (random_bytes, truncated, flipped, inserted, repeated)
TEXT: tuple[Damage, ...] = (
    *ANY,
    shuffled,
    column_dropped,
    field_replaced,
    field_replaced,
    long_line,
    other_encoding,
)


def json_value(rng: Rng, data: bytes) -> bytes:
    """One value, at any depth of a JSON text or of one of its lines, replaced or left out."""
    lines = data.split(b"\n") if b"\n{" in data else [data]
    number = int(rng.integers(len(lines)))
    try:
        found = json.loads(lines[number])
    except ValueError:
        return flipped(rng, data)
    places: list[tuple[Any, Any]] = []
    pending = [found]
    while pending:
        part = pending.pop()
        if not isinstance(part, dict | list):
            continue
        for key, value in list(part.items() if isinstance(part, dict) else enumerate(part)):
            places.append((part, key))
            pending.append(value)
    odd = ODD_VALUES[int(rng.integers(len(ODD_VALUES)))]
    if not places or rng.random() < 0.05:
        found = odd
    else:
        part, key = places[int(rng.integers(len(places)))]
        if rng.random() < 0.15:
            del part[key]
        else:
            part[key] = odd
    lines[number] = json.dumps(found).encode()
    return b"\n".join(lines)


def npy_header(rng: Rng, data: bytes) -> bytes:
    """The header of an array of another type or an absurd shape, with the bytes of this one."""
    kinds = ("<f4", "|O", "<c8", "<U3", "|V8", "<M8[s]", "f4,f4", "nonsense", "<f2", "|b1")
    shapes = (
        "(8, 4)",
        "(1000000000000, 1000000000000)",
        f"({2**63}, 4)",
        "(-1, 4)",
        "(8.5, 4)",
        "()",
        "(32,)",
        "(0, 4)",
        "(True, 4)",
        "('a', 4)",
        "(" * 300,
        "__import__('os').mkdir('escaped')",
    )
    kind, shape = kinds[int(rng.integers(len(kinds)))], shapes[int(rng.integers(len(shapes)))]
    order = ("True", "False", "None")[int(rng.integers(3))]
    header = f"{{'descr': '{kind}', 'fortran_order': {order}, 'shape': {shape}, }}"
    version = (b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00")[int(rng.integers(4))]
    size = 2 if version == b"\x01\x00" else 4
    text = header.encode().ljust(117, b" ") + b"\n"
    body = data[128:] if len(data) > 128 else data
    return b"\x93NUMPY" + version + len(text).to_bytes(size, "little") + text + body


def within_gzip(damage: Damage) -> Damage:
    """The same damage to what a .gz file holds."""

    def within(rng: Rng, data: bytes) -> bytes:
        return gzip.compress(damage(rng, gzip.decompress(data)), 1)

    within.__name__ = f"{damage.__name__} within"
    return within


def damages_of(name: str) -> tuple[Damage, ...]:
    """Return the ways that fit a file of this name."""
    suffix = os.path.splitext(name)[1]
    if suffix == ".gz":
        return (*ANY, *(within_gzip(damage) for damage in TEXT))
    if suffix in (".json", ".jsonl"):
        return (*TEXT, deep, *[json_value] * len(TEXT))
    if suffix == ".npy":
        return (*ANY, npy_header, npy_header)
    if suffix in (".txt", ".tsv", ".csv", ".sha256"):
        return TEXT
    return ANY if suffix else (*ANY, deep, json_value, json_value)
