"""Folders of fitted post-processors: one JSON and one safetensors file, no pickle.

A folder holds one post-processor. Saving another kind there removes the files of the first, and
only those; a folder that holds the descriptions of two is refused.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError

from bertflow_jax.array_files import read_safetensors
from bertflow_jax.digests import tree_digest
from bertflow_jax.errors import CheckpointError, DataNotFoundError, WorkdirError, refusal, shown
from bertflow_jax.output_places import refuse_link
from bertflow_jax.paths import user_path
from bertflow_jax.postprocess.expected_arrays import check_arrays
from bertflow_jax.postprocess.saved_settings import entry, read_described
from bertflow_jax.staging import files_together
from bertflow_jax.text_output import write_text
from bertflow_jax.weight_output import write_safetensors
from bertflow_jax.workdir import folder_to_save

# What reading a damaged file can raise, the constructors of configs included.
DAMAGE = (
    *(OSError, ArithmeticError, ValueError, LookupError, TypeError, AttributeError),
    *(RecursionError, SafetensorError),
)
# What a folder holds -> its files, the description first.
COMPOSE = "compose.json"
_FILES = {
    "compose": (COMPOSE,),
    "flow": ("flow_config.json", "flow.safetensors"),
    "post-processor": ("postprocess.json", "postprocess.safetensors"),
}


def described_in(path: Path) -> str | None:
    """Return what a folder holds, a key of `_FILES` by its description; None if nothing.

    Raises CheckpointError where it holds several.
    """
    found = [kind for kind, (name, *_) in _FILES.items() if os.path.isfile(path / name)]
    if len(found) > 1:
        names = " and ".join(_FILES[kind][0] for kind in found)
        raise CheckpointError(
            f"{path} holds several post-processors ({names}), and which one is meant is not known: "
            "save it again, or delete the file of the others"
        )
    return found[0] if found else None


def refuse_links(path: Path, shown: str, steps: int = 0) -> None:
    """Raise WorkdirError, beginning with `shown`, where something that a save replaces is a link.

    `steps` is the number of steps that `Compose` writes into folders there.
    """
    for name in [name for names in _FILES.values() for name in names]:
        refuse_link(path / name, f"{shown}: {name}")
    for number in map(str, range(steps)):
        refuse_link(path / number, f"{shown}: {number}")
        refuse_links(path / number, f"{shown}: {number}")


def compose_steps(path: Path) -> int:
    """Return the number of steps that compose.json in a folder names.

    Raises one of `DAMAGE` where it is not there or names none.
    """
    count = entry(read_described(path / COMPOSE), "steps", COMPOSE)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"steps is {shown(count)}, not a number >= 1")
    return count


def remove_saved(path: Path, keep: str = "", steps: int = 0) -> None:
    """Remove saved post-processors from a folder, whatever else lies there.

    Args:
      path: of the folder.
      keep: kind whose own files stay.
      steps: of `compose`: folders of so many steps stay too.

    Raises:
      WorkdirError: a file cannot be deleted.
    """
    last = 0
    with contextlib.suppress(*DAMAGE):  # then it is not known which folders are steps of it
        last = compose_steps(path)
    try:
        for step in range(steps, last):
            folder = path / str(step)
            if folder.is_symlink():  # what it leads to may be used elsewhere
                continue
            remove_saved(folder)
            with contextlib.suppress(OSError):  # it is gone, or holds something else
                folder.rmdir()
        for kind, names in _FILES.items():
            for name in names if kind != keep else ():
                (path / name).unlink(missing_ok=True)
    except OSError as error:
        raise WorkdirError(
            f"{error.filename} of another post-processor cannot be deleted ({error.strerror}); "
            "choose another folder"
        ) from error


def unreadable(path: Path, name: str, error: Exception) -> CheckpointError:
    """Return the error of a folder whose post-processor `name` cannot be read, for a `DAMAGE`."""
    # The advice of `array_files` is for weights that are downloaded.
    said = str(error).removesuffix("; download it again")
    return CheckpointError(
        f"{path}: not a readable {name} ({said}); copy it again, or fit and save it anew"
    )


class Folder:
    """The two files of one kind of post-processor.

    Attributes:
      kind: key of `_FILES`, as messages call it.
      json_name: file of settings.
      arrays_name: file of arrays.
    """

    def __init__(self, kind: str):
        self.kind = kind
        self.json_name, self.arrays_name = _FILES[kind]

    def save(
        self, folder: str | Path, described: Mapping[str, Any], arrays: Mapping[str, Any]
    ) -> None:
        """Write settings and arrays, the digest of the arrays among the settings.

        Raises:
          WorkdirError: the folder is blank, a file, or cannot be written.
        """
        path = folder_to_save(folder, "folder")
        flat = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        content = {**described, "arrays_sha256": tree_digest(flat)}
        try:
            # Arrays beside the settings of an earlier save would be no post-processor at all.
            with files_together(path, lambda: remove_saved(path, keep=self.kind)) as new:
                write_safetensors(new / self.arrays_name, flat)
                write_text(new / self.json_name, json.dumps(content, indent=2) + "\n")
        except OSError as error:
            raise WorkdirError(f"{path} cannot be written: {refusal(error)}") from error

    def find(self, folder: str | Path, wanted: str) -> Path:
        """Return the folder; `wanted` is what messages call it.

        Raises:
          DataNotFoundError: it holds no post-processor, or a file of it is missing.
          CheckpointError: it holds another kind, or several.
        """
        path = user_path(folder, "folder")
        found = described_in(path)
        if found not in (None, self.kind):
            raise CheckpointError(
                f"{path} holds a {found}, not a {wanted}; "
                "bertflow_jax.postprocess.load reads every kind"
            )
        for name in (self.json_name, self.arrays_name):
            if not os.path.isfile(path / name):
                raise DataNotFoundError(f"{path / name} not found: not a saved {wanted}")
        return path

    def read(self, path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return settings and arrays; raises one of `DAMAGE` for files that cannot be read."""
        described = read_described(path / self.json_name)
        entry(described, "arrays_sha256", self.json_name)
        return described, read_safetensors(path / self.arrays_name)

    def check(
        self,
        path: Path,
        described: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        expected: Mapping[str, jax.ShapeDtypeStruct],
    ) -> None:
        """Raise CheckpointError unless the arrays are the expected ones, finite and undamaged."""
        file = path / self.arrays_name
        check_arrays(
            arrays,
            expected,
            where=str(file),
            wanted_by=self.json_name,
            error=CheckpointError,
            advice=f"; save the {self.kind} again, or fit it anew",
        )
        if tree_digest(dict(arrays)) != described["arrays_sha256"]:
            raise CheckpointError(
                f"{file}: its arrays are not those {self.json_name} was written for"
            )
