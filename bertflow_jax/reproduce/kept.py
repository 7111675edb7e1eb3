"""JSON files that a reproduction keeps and reads again, each with a digest of its own content.

A file that was cut off, damaged or edited by hand is noticed and not used.
"""

import hashlib
import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertflow_jax.data.json_files import read_json_object
from bertflow_jax.errors import BertFlowError, shown
from bertflow_jax.paths import file_kind
from bertflow_jax.text_output import write_text

_log = logging.getLogger(__name__)
_SEAL = "sha256"


def digest_of(content: Any) -> str:
    """Return the sha256 of JSON-safe content; the order of keys does not count."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object with the digest of its content under "sha256".

    Raises:
      WorkdirError: the file cannot be written.
    """
    sealed = {**content, _SEAL: digest_of(content)}
    text = json.dumps(sealed, indent=2, allow_nan=False, ensure_ascii=False)
    write_text(path, text + "\n")


def read_sealed(path: Path) -> dict[str, Any] | None:
    """Return what `write_sealed` wrote, or None: not there, or (with a warning) not as written."""
    kind = file_kind(path)
    if kind == "absent":
        return None
    if kind != "file":
        _log.warning("%s is not used: it is no file (%s)", path, kind)
        return None
    try:
        content = read_json_object(path)
    except (BertFlowError, OSError) as error:
        _log.warning("%s is not used: %s", path, error)
        return None
    seal = content.pop(_SEAL, None)
    if seal != digest_of(content):
        _log.warning("%s is not used: it was damaged or edited after it was written", path)
        return None
    return content


def read_score(path: Path, key: str) -> dict[str, Any] | None:
    """Return {"score", "details", "made", ...} of a file of this key, else None.

    A file of another key is of other settings or data; one whose values cannot be scores is left
    alone with a warning.
    """
    content = read_sealed(path)
    if content is None or content.get("key") != key:
        return None
    score, details, made = (content.get(name) for name in ("score", "details", "made"))
    number = isinstance(score, int | float) and not isinstance(score, bool)
    # JSON holds integers beyond every float too.
    if not (score is None or (number and abs(score) <= sys.float_info.max)):
        _log.warning("%s is not used: its score is %s, no finite number", path, shown(score))
        return None
    if not isinstance(details, dict) or not isinstance(made, dict):
        _log.warning('%s is not used: "details" and "made" must be objects', path)
        return None
    return content


def write_score(path: Path, content: Mapping[str, Any]) -> None:
    """Keep a score; where its place is taken by a folder, warn and keep none."""
    if file_kind(path) == "folder":
        _log.warning("the score is not kept: %s is a folder", path)
        return
    write_sealed(path, content)
