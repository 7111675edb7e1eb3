"""Whether the metadata of a prepared TFDS data set stay within its folder.

TFDS trusts them: `features.json` names Python classes, whose modules TFDS imports wherever they
lie, and `dataset_info.json` says how the files of a split are called, with folders if it likes.
Data of somebody else's must not choose what is run, nor which files are read.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertflow_jax.data.json_files import read_json_object
from bertflow_jax.errors import ConfigError, DataError, DataNotFoundError

_FEATURES = "tensorflow_datasets.core.features."
# What becomes part of a file's name. A template has fields such as {SHARD_X_OF_Y}.
_NAMES = ("name", "filepathTemplate", "version")
_NO_NAME = re.compile(r"[/\\\0]|\.\.")


def check_metadata(folder: Path) -> None:
    """Check a data set before TFDS opens it.

    Args:
      folder: of one version, which holds dataset_info.json and features.json.

    Raises:
      DataError: one of them is missing or no JSON object, names a class that is no feature of
        TFDS's own, or a file outside the folder.
    """
    found = {}
    for name in ("dataset_info.json", "features.json"):
        try:
            found[name] = read_json_object(folder / name)
        except (ConfigError, DataNotFoundError) as error:
            raise DataError(
                f"{error}: not a whole TFDS data set; delete the folder and prepare it again"
            ) from error
    for key, value in _entries(found["features.json"]):
        if key == "pythonClassName" and not str(value).startswith(_FEATURES):
            raise DataError(
                f"{folder / 'features.json'}: the class {str(value)[:80]!r} is none of TFDS's "
                "own features, and code that data name is never run; prepare the data set again"
            )
    info = found["dataset_info.json"]
    splits = info.get("splits", [])
    for part in (info, *(splits if isinstance(splits, list) else [])):
        for key in _NAMES:
            value = part.get(key, "") if isinstance(part, dict) else ""
            if _NO_NAME.search(str(value)):
                raise DataError(
                    f"{folder / 'dataset_info.json'}: {key} {str(value)[:80]!r} leads out of the "
                    "folder; prepare the data set again"
                )


def _entries(content: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key and value of nested JSON; the parser has bounded its depth."""
    pending = [content]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            yield from part.items()
            pending += part.values()
        elif isinstance(part, list):
            pending += part
