"""Reading JSON, the one parser of it, with errors that name the file."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bertflow_jax.errors import ConfigError, DataError, DataNotFoundError

LFS_POINTER = b"version https://git-lfs"  # how the text begins that git leaves for a large file


def read_json(path: Path) -> Any:
    """Parse a JSON file in UTF-8.

    Raises DataNotFoundError if it is not there, ConfigError (with the line) if it is not JSON or
    cannot be read at all: a folder, a file of another user.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataNotFoundError(f"{path} is missing{broken_link(path)}") from None
    except OSError as error:  # a folder, a link to itself, no permission
        raise ConfigError(f"{path} cannot be read ({error.strerror or error})") from error
    refuse_pointer(path, content)
    try:
        return parse_json(content)
    except ValueError as error:
        raise ConfigError(f"{path}: not valid JSON ({error})") from error


def parse_json(
    content: bytes | str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Any:
    """Parse JSON, bytes of it in UTF-8; `pairs` makes an object of its keys and values.

    NaN and Infinity are numbers of it, as Python has it: who takes a number checks that it can be.

    Raises:
      ValueError: whatever is wrong with it, in words that can stand in a message.
    """
    try:
        text = content if isinstance(content, str) else content.decode("utf-8-sig")
        return json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise ValueError(json_fault(error)) from error


def json_fault(error: BaseException) -> str:
    """Return what is wrong with JSON that a parser of Python's could not read.

    Python's own words are of no use to who has the file: to raise a limit of the interpreter's.
    """
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if "integer string conversion" in str(error):
        return f"an integer of more than {sys.get_int_max_str_digits()} digits"
    return str(error)


def refuse_pointer(path: Path, content: bytes) -> None:
    """Raise ConfigError if the content of a file is the text that git-lfs leaves in its place."""
    if content.startswith(LFS_POINTER):
        raise ConfigError(
            f"{path} is a git-lfs pointer, not the file; run `git lfs pull` in its repository"
        )


def parse_json_line(line: str, place: str) -> dict[str, Any]:
    """Return the object on one line of a .jsonl file; raises DataError naming its place."""
    try:
        found = parse_json(line, _once)
    except ValueError as error:
        raise DataError(f"{place}: not JSON ({error})") from error
    if not isinstance(found, dict):
        raise DataError(f"{place}: an object is needed, {{...}}")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raises ValueError for a key that is there twice: which one is meant?"""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(k for k in keys if keys.count(k) > 1)!r} occurs twice")
    return found


def read_json_object(path: Path) -> dict[str, Any]:
    """Parse a JSON file that must hold an object; otherwise like `read_json`."""
    fields = read_json(path)
    if not isinstance(fields, dict):
        raise ConfigError(f"{path}: a JSON object is expected, found {type(fields).__name__}")
    return fields


def read_json_object_if_present(path: Path) -> dict[str, Any]:
    """Like `read_json_object`; {} if the file is not there."""
    return read_json_object(path) if is_there(path) else {}


def is_there(path: Path) -> bool:
    """Return whether a folder has an entry of this name, be it a link that leads nowhere.

    A cache whose files were deleted keeps such links: to pass over one would be to read the folder
    as another model's.
    """
    return os.path.lexists(path)


def broken_link(path: Path) -> str:
    """Return what a message adds about a missing file: where its link leads, or nothing."""
    return f": it is a link to {os.readlink(path)}, which is not there" if path.is_symlink() else ""


def write_json(path: Path, content: object) -> None:
    """Write a JSON file (UTF-8, indented, keys in the given order)."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
