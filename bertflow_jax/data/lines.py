"""The one reader of text files: bytes to lines, with the same rules for every source."""

import codecs
import contextlib
import gzip
import hashlib
import io
import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bertflow_jax.errors import ConfigError, DataError, DataNotFoundError
from bertflow_jax.paths import is_device

# Python's codecs of host names, literals and the like, which are no encoding of a text file.
_NOT_OF_FILES = ("idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape")
_ENCODING_HINT = (
    "if the file has another encoding, name it: data.encoding in a config, --encoding of a command"
)


def read_lines(path: Path, encoding: str = "utf-8") -> list[str]:
    r"""Return the lines of a text file, without line ends, byte order mark and final empty line.

    A line ends at "\n" or "\r\n" and nowhere else: `str.splitlines` also breaks at U+2028, U+0085
    and form feeds, which occur inside sentences and would shift every line after them. The
    encoding never depends on the locale. A name ending in `.gz` is decompressed.

    Raises:
      DataNotFoundError: there is no such file.
      DataError: a folder, a damaged .gz, an invalid byte (file, line and byte are named) or a
        binary file.
      ConfigError: the encoding is unknown, or none of text.
    """
    _check_encoding(encoding)
    data = _read_bytes(path)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = 1 + data.count(b"\n", 0, error.start)
        raise DataError(
            f"{path}, line {line}: byte 0x{data[error.start]:02X} (byte {error.start} of the file, "
            f"counted from 0) is not valid {encoding}; {_ENCODING_HINT}"
        ) from error
    position = text.find("\0")
    if position >= 0:
        line = 1 + text.count("\n", 0, position)
        raise _zero_byte(path, line, encoding)
    lines = text.removeprefix("\ufeff").split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.rstrip("\r") for line in lines]


def iter_lines(path: Path, encoding: str = "utf-8") -> Iterator[str]:
    """Yield what `read_lines` returns, without holding the file.

    Raises:
      as `read_lines`, while iterating: lines before a bad one have been yielded.
    """
    _check_encoding(encoding)
    number = 0
    with _readable(path):
        opener: Any = gzip.open if path.suffix == ".gz" else open
        with (
            opener(path, "rb") as raw,
            io.TextIOWrapper(raw, _with_byte_order(raw, encoding), newline="\n") as file,
        ):
            try:
                for number, line in enumerate(file, 1):
                    if "\0" in line:
                        raise _zero_byte(path, number, encoding)
                    text = line.removeprefix("\ufeff") if number == 1 else line
                    if text:  # a byte order mark alone is no line
                        yield text.removesuffix("\n").rstrip("\r")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path}, line {number + 1} or soon after: byte "
                    f"0x{error.object[error.start]:02X} is not valid {encoding}; {_ENCODING_HINT}"
                ) from error
            except UnicodeError as error:
                raise DataError(
                    f"{path}, line {number + 1} or soon after: not valid {encoding} ({error}); "
                    f"{_ENCODING_HINT}"
                ) from error


def _with_byte_order(raw: Any, encoding: str) -> str:
    """Return the encoding; without a byte order mark UTF-16 has this machine's, as in `decode`."""
    name = codecs.lookup(encoding).name
    if name not in ("utf-16", "utf-32"):
        return encoding
    start = raw.read(4)
    raw.seek(0)
    marks = {
        "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
        "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    }
    marked = start.startswith(marks[name])
    return name if marked or not start else f"{name}-{sys.byteorder[0]}e"


def _check_encoding(encoding: str) -> None:
    try:
        known = codecs.lookup(encoding).name not in _NOT_OF_FILES
        "".encode(encoding)  # refuses a codec from bytes to bytes, such as base64
    except (LookupError, ValueError):
        known = False
    if not known:
        raise ConfigError(
            f"encoding={encoding!r} is not an encoding of text that Python knows; set "
            "data.encoding in a config, --encoding of a command, to utf-8, latin-1 or utf-16"
        )


def _zero_byte(path: Path, line: int, encoding: str) -> DataError:
    return DataError(
        f"{path}, line {line}: a zero byte, so this is a binary file or not {encoding}; "
        f"{_ENCODING_HINT}"
    )


def _read_bytes(path: Path) -> bytes:
    with _readable(path):
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what can go wrong in reading a file into errors that name it."""
    if is_device(path):
        raise DataError(f"{path} is a device where a text file is needed; name a file")
    try:
        yield
    except IsADirectoryError as error:
        raise DataError(f"{path} is a folder where a text file is needed; name a file") from error
    except FileNotFoundError as error:
        raise DataNotFoundError(f"{path}: no such file; check the path") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a whole .gz file ({error}); download it again") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def digest(rows: Iterable[Sequence[Any]]) -> str:
    """Return the sha256 of rows of texts and keys: of one JSON array a row, in order."""
    sha = hashlib.sha256()
    for row in rows:
        sha.update(json.dumps(list(row), default=str).encode("ascii") + b"\n")
    return sha.hexdigest()
