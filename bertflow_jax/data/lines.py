"""The one reader of text files: bytes to lines, with the same rules for every source."""

import codecs
import contextlib
import gzip
import hashlib
import io
import json
import sys
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bertflow_jax.data.file_names import is_gz, refuse_other_content
from bertflow_jax.errors import BertFlowWarning, ConfigError, DataError, DataNotFoundError
from bertflow_jax.paths import is_device

# Python's codecs of host names, literals and the like, which are no encoding of a text file.
_NOT_OF_FILES = ("idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape")
# Text shrinks to a fifth or a tenth, a file made to fill the memory to a thousandth.
_MAX_RATIO = 200
_LEAST_BOMB = 2**28  # bytes; below, whatever the ratio, it does no harm
_PIECE = 2**20
_LONGEST = 2**28  # characters of a line that is held as a whole
_ENCODING_HINT = (
    "if the file has another encoding, name it: data.encoding in a config, --encoding of a command"
)


def read_lines(path: Path, encoding: str = "utf-8", *, plain: bool = False) -> list[str]:
    r"""Return the lines of a text file, without line ends, byte order mark and final empty line.

    A line ends at "\n" or "\r\n" and nowhere else: `str.splitlines` also breaks at U+2028, U+0085
    and form feeds, which occur inside sentences and would shift every line after them. So is a
    "\r" inside a line; where there is nothing else between lines, as in files of old Macs, the file
    is refused. The encoding never depends on the locale. A name ending in `.gz` is decompressed.

    Args:
      path: of the file.
      encoding: of the file.
      plain: the file is a text a line, and one line may be meant: a warning instead of a refusal.

    Raises:
      DataNotFoundError: there is no such file.
      DataError: a folder, a damaged .gz or one that would fill the memory, an invalid byte (file,
        line and byte are named), a binary file (of what kind, where that is known), or lines that
        end with "\r" alone.
      ConfigError: the encoding is unknown, or none of text.
    """
    check_encoding(encoding)
    data = _read_bytes(path)
    refuse_other_content(path, data[:16])
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raw = io.BytesIO(data)
        raise _bad_byte(path, encoding, *_find_bad_byte(path, raw, encoding)) from error
    position = text.find("\0")
    if position >= 0:
        line = 1 + text.count("\n", 0, position)
        raise _zero_byte(path, line, encoding)
    lines = text.removeprefix("\ufeff").split("\n")
    if len(lines) == 1:
        _check_line_ends(path, text, plain)
    if not lines[-1]:
        lines.pop()
    return [line.rstrip("\r") for line in lines]


def iter_lines(path: Path, encoding: str = "utf-8", *, plain: bool = False) -> Iterator[str]:
    """Yield what `read_lines` returns, without holding the file.

    Raises:
      as `read_lines`, while iterating: lines before a bad one have been yielded; and DataError for
        a line of 2^28 characters or more.
    """
    check_encoding(encoding)
    number = 0
    with _readable(path):
        opener: Any = gzip.open if is_gz(path) else open
        with (
            opener(path, "rb") as raw,
            io.TextIOWrapper(raw, _with_byte_order(path, raw, encoding), newline="\n") as file,
        ):
            try:
                for number, line in enumerate(iter(lambda: file.readline(_LONGEST), ""), 1):
                    if len(line) == _LONGEST:
                        raise DataError(
                            f"{path}, line {number}: has {_LONGEST} characters and more, so this "
                            "is no file of a text a line; split it into lines"
                        )
                    if "\0" in line:
                        raise _zero_byte(path, number, encoding)
                    if number == 1 and line[-1] != "\n":
                        _check_line_ends(path, line, plain)
                    text = line.removeprefix("\ufeff") if number == 1 else line
                    if text:  # a byte order mark alone is no line
                        yield text.removesuffix("\n").rstrip("\r")
            except UnicodeDecodeError as error:
                # It was met somewhere in the bytes that are decoded ahead.
                raw.seek(0)
                raise _bad_byte(path, encoding, *_find_bad_byte(path, raw, encoding)) from error
            except UnicodeError as error:
                raise DataError(
                    f"{path}, line {number + 1} or soon after: not valid {encoding} ({error}); "
                    f"{_ENCODING_HINT}"
                ) from error


def _check_line_ends(path: Path, only: str, plain: bool) -> None:
    r"""Refuse or warn of a file without any "\n" whose only line has several "\r" in it."""
    count = only.count("\r")
    if count < 2:
        return
    told = f"{path}: no line ends with LF, but {count} CR are in it, the line ends of old Macs"
    if not plain:
        raise DataError(rf"{told}; write LF in their place, as tr '\r' '\n' does")
    warnings.warn(
        rf"{told}; it is read as one line. Write LF in their place, as tr '\r' '\n' does",
        BertFlowWarning,
        stacklevel=2,
    )


def _with_byte_order(path: Path, raw: Any, encoding: str) -> str:
    """Return the encoding; without a byte order mark UTF-16 has this machine's, as in `decode`.

    Raises DataError for a file that is no text.
    """
    start = raw.read(16)
    raw.seek(0)
    refuse_other_content(path, start)
    name = codecs.lookup(encoding).name
    if name not in ("utf-16", "utf-32"):
        return encoding
    marks = {
        "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
        "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    }
    marked = start.startswith(marks[name])
    return name if marked or not start else f"{name}-{sys.byteorder[0]}e"


def _find_bad_byte(path: Path, raw: Any, encoding: str) -> tuple[int, int, int]:
    """Return line from 1, place from 0 and value of the first byte that cannot be decoded."""
    decoder = codecs.getincrementaldecoder(_with_byte_order(path, raw, encoding))()
    line, start, piece = 1, 0, b""
    try:
        while piece := raw.read(_PIECE):
            state = decoder.getstate()
            line += decoder.decode(piece).count("\n")
            start += len(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        found, at = error, start + len(piece)
    if piece:  # once more, byte by byte, so that the lines before it are counted
        decoder.setstate(state)
        try:
            for at in range(start + 1, start + len(piece) + 1):
                line += decoder.decode(piece[at - start - 1 : at - start]).count("\n")
        except UnicodeDecodeError as error:
            found = error
    return line, at - len(found.object) + found.start, found.object[found.start]


def _bad_byte(path: Path, encoding: str, line: int, place: int, value: int) -> DataError:
    return DataError(
        f"{path}, line {line}: byte 0x{value:02X} (byte {place} of the file, counted from 0) is "
        f"not valid {encoding}; {_ENCODING_HINT}"
    )


def check_encoding(encoding: str) -> None:
    """Raise ConfigError for what is no encoding of text."""
    try:
        known = codecs.lookup(encoding).name not in _NOT_OF_FILES
        "".encode(encoding)  # refuses a codec from bytes to bytes, such as base64
    except (LookupError, TypeError, ValueError):
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
        if not is_gz(path):
            return path.read_bytes()
        most = max(_LEAST_BOMB, _MAX_RATIO * path.stat().st_size)
        data = bytearray()
        with gzip.open(path, "rb") as file:
            while piece := file.read(_PIECE):
                data += piece
                if len(data) > most:
                    raise DataError(
                        f"{path} holds {path.stat().st_size} bytes that decompress to more than "
                        f"{most}, which no text does; if it is meant so, decompress it (gunzip) "
                        "and name that file"
                    )
        return bytes(data)


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
        if "Not a gzipped file" in str(error):
            with path.open("rb") as file:
                begins = file.read(2) == b"\x1f\x8b"
            what = (
                "holds other bytes behind its compressed ones; compress the text again"
                if begins
                else "is not gzip, though its name ends in .gz; rename it"
            )
            raise DataError(f"{path} {what}") from error
        raise DataError(f"{path} is not a whole .gz file ({error}); download it again") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def digest(rows: Iterable[Sequence[Any]]) -> str:
    """Return the sha256 of rows of texts and keys: of one JSON array a row, in order."""
    sha = hashlib.sha256()
    for row in rows:
        sha.update(json.dumps(list(row), default=str).encode("ascii") + b"\n")
    return sha.hexdigest()
