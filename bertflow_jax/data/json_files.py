"""Reading JSON with errors that name the file."""

import json
from pathlib import Path
from typing import Any

from bertflow_jax.errors import ConfigError, DataError, DataNotFoundError


def read_json(path: Path) -> Any:
    """Parse a JSON file in UTF-8.

    Raises DataNotFoundError if it is not there, ConfigError (with the line) if it is not JSON or
    cannot be read at all: a folder, a file of another user.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise DataNotFoundError(f"{path} is missing") from None
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, thousands of digits
        raise ConfigError(f"{path}: not valid JSON ({error})") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error


def parse_json_line(line: str, place: str) -> dict[str, Any]:
    """Return the object on one line of a .jsonl file; raises DataError naming its place."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:  # a number may have too many digits
        raise DataError(f"{place}: not JSON ({error})") from error
    if not isinstance(found, dict):
        raise DataError(f"{place}: an object is needed, {{...}}")
    return found


def read_json_object(path: Path) -> dict[str, Any]:
    """Parse a JSON file that must hold an object; otherwise like `read_json`."""
    fields = read_json(path)
    if not isinstance(fields, dict):
        raise ConfigError(f"{path}: a JSON object is expected, found {type(fields).__name__}")
    return fields


def read_json_object_if_present(path: Path) -> dict[str, Any]:
    """Like `read_json_object`; {} if the file is not there."""
    return read_json_object(path) if path.exists() else {}


def write_json(path: Path, content: object) -> None:
    """Write a JSON file (UTF-8, indented, keys in the given order)."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
