"""The index.json of a folder of parts: whose it is, and when it is written."""

import logging
import os
from pathlib import Path
from typing import Any

from bertflow_jax.data.json_files import read_json_object_if_present
from bertflow_jax.embed_parts import DIGEST, INDEX, Part, read_state, write_json_whole
from bertflow_jax.errors import ConfigError, WorkdirError

_log = logging.getLogger(__name__)


def index_is_ours(folder: Path) -> bool:
    """Whether a folder has no index.json, or one of a job; else it is another software's.

    A damaged one, as of a copy that was cut, is ours where a part of ours lies beside it.
    """
    index = folder / INDEX
    if not os.path.lexists(index):
        return True
    try:
        return {"parts", "rows_sha256"} <= read_json_object_if_present(index).keys()
    except (ConfigError, OSError):
        return any("rows_sha256" in read_state(path) for path in folder.glob("part-*-of-*.json"))


def refuse_other_parts(folder: Path, parts: list[Part]) -> None:
    """Raise WorkdirError where the folder holds parts that this job would leave beside its own."""
    ours = {part.path.name for part in parts}
    others = sorted(p.name for p in folder.glob("part-*-of-*.npy") if p.name not in ours)
    if others:
        raise WorkdirError(
            f"--output={folder} holds parts of a job that was cut otherwise ({others[0]}, "
            f"{len(others)} in all): name another folder, or delete them"
        )


def index_of(parts: list[Part]) -> dict[str, Any]:
    """Return what the index of these parts says, without their digests."""
    names = [{"file": part.path.name, "start": part.start, "stop": part.stop} for part in parts]
    return {**parts[0].made_by, "parts": names}


def without_digests(index: dict[str, Any]) -> dict[str, Any]:
    """Return what an index says of the job, which is known before any part is."""
    listed = index.get("parts")
    if not isinstance(listed, list) or not all(isinstance(part, dict) for part in listed):
        return index
    bare = [{name: part[name] for name in part if name != DIGEST} for part in listed]
    return {**index, "parts": bare}


def write_index(folder: Path, parts: list[Part], sound: set[Path]) -> None:
    """Write index.json once every part is there; the last process to finish does it.

    Parts that are not among the `sound` ones are read through, once all of them seem to be there.
    """
    if not all(part.seems_complete() for part in parts) or not all(
        part.path in sound or part.is_complete() for part in parts
    ):
        _log.info("%s: index.json is written when every part is there", folder)
        if others := [told for part in parts if (told := part.of_another_job())]:
            _log.warning(
                "%d part(s) are there, but of another job (%s): embed them again with the settings "
                "of this one, or this one's with theirs",
                len(others),
                others[0],
            )
        return
    index = index_of(parts)
    for listed, part in zip(index["parts"], parts, strict=True):
        listed[DIGEST] = part.digest()
    write_json_whole(folder / INDEX, index)
    _log.info("%s lists %d rows in %d parts", folder / INDEX, parts[-1].stop, len(parts))
