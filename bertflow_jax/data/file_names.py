"""What the name of a file says of its content, and what its first bytes say."""

import os
import re
from pathlib import Path

from bertflow_jax.errors import ConfigError, DataError, DataNotFoundError

_FORMATS = {"": "txt", **{f".{name}": name for name in ("txt", "jsonl", "tsv", "csv", "parquet")}}
_UNPACK = "decompress it, or compress it with gzip and name it .gz"
# First bytes -> what such a file is, and what to do.
_CONTENTS = (
    (rb"\x1f\x8b\x08", "is compressed with gzip; name it .gz, and it is decompressed"),
    (rb"PK\x03\x04", "is a zip archive, or a document that is one, as .docx and .xlsx; unpack it"),
    (rb"\x28\xb5\x2f\xfd", f"is compressed with zstd, which is not read; {_UNPACK}"),
    (rb"\xfd7zXZ\x00", f"is compressed with xz, which is not read; {_UNPACK}"),
    (rb"BZh[1-9]1AY&SY", f"is compressed with bzip2, which is not read; {_UNPACK}"),
    (rb"%PDF-\d", "is a PDF; write its text into a .txt"),
    (rb"PAR1[\x00-\x1f]", "is Parquet; name it .parquet for embedding, write a .txt for training"),
    (rb"ARROW1\x00\x00", "is an Arrow file; write it as .parquet, or its text into a .txt"),
    (rb"\x93NUMPY", "is an array of NumPy; vectors go to python -m bertflow_jax.postprocess"),
    (rb"\x89HDF\r\n", "is HDF5; write its text into a .txt"),
    (rb"SQLite format 3\x00", "is an SQLite database; write its text into a .txt"),
)


def is_gz(path: Path) -> bool:
    """Whether a file is compressed by its name, in letters of any case."""
    return path.suffix.lower() == ".gz"


def unpacked_name(path: Path) -> Path:
    """Return the name of what a `.gz` holds; any other name as it is."""
    return Path(path.name[:-3] if is_gz(path) else path.name)


def text_format(path: Path) -> str | None:
    """Return `txt`, `jsonl`, `tsv`, `csv` or `parquet` by a file's name; None where it says none.

    A name without an extension is of plain text. `.gz` is looked through, but for Parquet.
    """
    found = _FORMATS.get(unpacked_name(path).suffix.lower())
    return None if found == "parquet" and is_gz(path) else found


def require_text_file(given: str, flag: str) -> None:
    """Refuse what is no file of text, one a line, for flags that have no format beside them.

    Args:
      given: as the user wrote it.
      flag: for the message.

    Raises:
      ConfigError: a blank, or a name that is not of plain text.
      DataNotFoundError: no such file.
    """
    if not given.strip():
        raise ConfigError(f"{flag} is blank; name a text file")
    if not os.path.isfile(given):
        raise DataNotFoundError(f"{flag}={given}: no such file; name a text file")
    if text_format(Path(given)) != "txt":
        raise ConfigError(
            f"{flag}={given}: a file of text, one a line, is named .txt (.txt.gz) or has no "
            "extension; rename it, or write the texts alone into such a file"
        )


def refuse_other_content(path: Path, start: bytes) -> None:
    """Raise DataError for a file that begins as one of a binary format.

    Args:
      path: of the file.
      start: its first 16 bytes, decompressed.
    """
    for magic, what in _CONTENTS:
        if re.match(magic, start, re.DOTALL):
            raise DataError(f"{path} {what}")
