"""The manifest of an output folder: what is in it may only be of one job."""

import json
import os
from pathlib import Path
from typing import Any

from bertflow_jax.data.json_files import parse_json
from bertflow_jax.errors import WorkdirError
from bertflow_jax.integrations.ray_inputs import InputFile, Place, reach
from bertflow_jax.integrations.ray_outputs import MANIFEST, PIECES, Store
from bertflow_jax.interrupt import held
from bertflow_jax.output_locks import LOCK
from bertflow_jax.output_places import refuse_link
from bertflow_jax.paths import is_utf8

_FORMAT = 1  # raised when what a job writes has another form


def check_output(place: Place) -> dict[str, Any]:
    """Return the manifest of an output folder, {} for a new one.

    Raises:
      WorkdirError: it is a file, or holds a link or what no job of ours has written.
    """
    from pyarrow import fs

    info = reach(place, lambda: place.filesystem.get_file_info(place.path))
    if info.type == fs.FileType.File:
        raise WorkdirError(f"--output={place.given} is a file; name a folder")
    # pyarrow does not list links that lead to nothing.
    for path in sorted(Path(place.path).glob("*")) if place.is_local else ():
        if path.name == PIECES or not path.is_dir():
            refuse_link(path, f"--output={place.given}: {path.name}")
    for folder, _, names in os.walk(place.path) if place.is_local else ():
        for name in names:
            if not is_utf8(name):
                raise _foreign(place, os.path.relpath(os.path.join(folder, name), place.path))
    found = _read(place)
    ours = {entry["name"] for entry in found.get("inputs", [])} | {MANIFEST, LOCK}
    selector = fs.FileSelector(place.path, allow_not_found=True, recursive=True)
    for info in reach(place, lambda: place.filesystem.get_file_info(selector)):
        name = info.path[len(place.path) :].strip("/")
        # Below a dot: what a writer that was killed has left beside the final name.
        left = info.base_name.startswith(".")
        if info.type == fs.FileType.File and not (
            name in ours or left or name.startswith(f"{PIECES}/")
        ):
            raise _foreign(place, name)
    return found


def _foreign(place: Place, name: str) -> WorkdirError:
    return WorkdirError(
        f"--output={place.given} holds {name}, which no job of this command has written; "
        "name a new folder"
    )


def take_over(store: Store, files: list[InputFile], found: dict[str, Any]) -> None:
    """Compare a job with the manifest that is there, and write its own.

    Args:
      store: of the job.
      files: of the input.
      found: of `check_output`.

    Raises:
      WorkdirError: the folder is of another encoder, other settings or other inputs, or has a
        folder where an output is to be.
    """
    given = store.place.given
    if found:
        before = found.get("made_by", {})
        names = sorted({*before, *store.made_by})
        other = [name for name in names if before.get(name) != store.made_by.get(name)]
        if other or found.get("format") != _FORMAT:
            raise WorkdirError(
                f"--output={given} holds vectors made with another {', '.join(other) or 'version'};"
                " name a new folder"
            )
    here = {file.name for file in files}
    gone = [entry["name"] for entry in found.get("inputs", []) if entry["name"] not in here]
    if gone:
        raise WorkdirError(
            f"--output={given} holds vectors of {gone[0]} ({len(gone)} in all), which --input does "
            "not name any more; name all of them, or a new folder"
        )
    for path in map(store.output, files if store.place.is_local else ()):
        if os.path.isdir(path):  # else the write at the end would tell
            raise WorkdirError(f"{path} is a folder, and vectors go there; name a new output")
    inputs = [file.identity() for file in files]
    _write(store.place, {"format": _FORMAT, "made_by": store.made_by, "inputs": inputs})


def _read(place: Place) -> dict[str, Any]:
    from pyarrow import fs

    path = f"{place.path}/{MANIFEST}"
    if place.filesystem.get_file_info(path).type != fs.FileType.File:
        return {}
    try:
        with place.filesystem.open_input_stream(path) as file:
            found = parse_json(file.read())
        if not isinstance(found, dict) or not isinstance(found.get("made_by", {}), dict):
            raise ValueError("no object that says what the vectors are made by")
        if any(not isinstance(entry["name"], str) for entry in found["inputs"]):
            raise ValueError("an input without a name")
        return found
    except (ValueError, LookupError, TypeError, OSError) as error:
        raise WorkdirError(
            f"{place.given}/{MANIFEST} cannot be read ({error}); name a new folder"
        ) from error


def _write(place: Place, content: dict[str, Any]) -> None:
    temporary, path = f"{place.path}/.{MANIFEST}", f"{place.path}/{MANIFEST}"
    try:
        with held():
            place.filesystem.create_dir(place.path)
            with place.filesystem.open_output_stream(temporary) as file:
                file.write((json.dumps(content, indent=1) + "\n").encode())
            place.filesystem.move(temporary, path)
    except OSError as error:
        raise WorkdirError(f"--output={place.given} cannot be written: {error}") from error
