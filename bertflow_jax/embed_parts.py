"""Complete parts of an embedding job on disk, and what says that they are.

A complete part has its final name; in a folder of parts it has a .json beside it, written last,
with the sha256 of the file: one without it, or with other bytes, is made again.
"""

import dataclasses
import json
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np

from bertflow_jax.data.json_files import read_json_object_if_present
from bertflow_jax.data.npy_files import NPY_DAMAGE
from bertflow_jax.errors import ConfigError
from bertflow_jax.output_locks import lock_of
from bertflow_jax.paths import file_sha256
from bertflow_jax.text_output import write_text

_log = logging.getLogger(__name__)
INDEX = "index.json"  # of a folder of parts
DIGEST = "sha256"  # of a part's file, in its .json and in the index


@dataclasses.dataclass(frozen=True)
class Part:
    """Rows `start` to `stop` of the input and the file they go to.

    Attributes:
      start: first row.
      stop: row after the last one.
      path: of the complete part.
      made_by: what a part is made of, the same for all parts of a job.
      dimension: E, the length of a vector.
    """

    start: int
    stop: int
    path: Path
    made_by: dict[str, Any]
    dimension: int

    @property
    def rows(self) -> int:
        """How many rows it holds."""
        return self.stop - self.start

    @property
    def sidecar(self) -> Path:
        """The .json beside a part of a folder."""
        return self.path.with_suffix(".json")

    @property
    def lock(self) -> Path:
        """The lock of who writes it."""
        return lock_of(self.path)

    @property
    def described(self) -> dict[str, Any]:
        """What it is made of: equal means that its rows may be taken as they are."""
        return {**self.made_by, "start": self.start, "stop": self.stop}

    def is_made_of(self, found: dict[str, Any]) -> bool:
        """Whether rows that are described so may be taken."""
        # Where no text was cut for fear of an error, none is cut with a warning.
        settings = {name: value for name, value in found.items() if name != DIGEST}
        return settings in (self.described, {**self.described, "on_overflow": "error"})

    def digest(self) -> str:
        """Return the sha256 that the .json of a part of this job gives, "" where there is none."""
        found = read_state(self.sidecar)
        return str(found.get(DIGEST, "")) if self.is_made_of(found) else ""

    def seems_complete(self) -> bool:
        """Whether this part is there and of this job, by its .json and its size alone."""
        return bool(self.digest()) and self.is_whole(self.path)

    def is_complete(self) -> bool:
        """Whether this part of a folder is there, of this job, and has the bytes that were made.

        The file is read from end to end: an interrupted copy has the right size too.
        """
        found = read_state(self.sidecar)
        if not self.is_whole(self.path) or not self.is_made_of(found):
            return False
        if not found.get(DIGEST):
            _log.warning("%s has no sha256 to check the part by: made again", self.sidecar)
            return False
        if file_sha256(self.path) != found[DIGEST]:
            _log.warning(
                "%s does not hold the vectors that were made (its sha256 is not the one in %s): "
                "made again",
                self.path,
                self.sidecar.name,
            )
            return False
        return True

    def of_another_job(self) -> str:
        """Say what a part that lies in its place was made with, "" for none or one of this job."""
        found = read_state(self.sidecar)
        if not found or self.is_made_of(found) or not self.path.is_file():
            return ""
        names = [name for name, value in self.described.items() if found.get(name) != value]
        return f"{self.path.name} was made with another {', '.join(names)}"

    def is_whole(self, vectors: Path) -> bool:
        """Whether a .npy file has the type, the shape and the size of this part."""
        try:
            with vectors.open("rb") as file:
                version = np.lib.format.read_magic(file)
                shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
                size = file.tell() + 4 * self.rows * self.dimension
                good = shape == (self.rows, self.dimension) and dtype == np.dtype("<f4")
                same_size = os.fstat(file.fileno()).st_size == size
                return good and version == (1, 0) and not fortran and same_size
        except NPY_DAMAGE:
            return False


def read_state(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file of ours; {} where it is not there or damaged."""
    try:
        return read_json_object_if_present(path)
    except (ConfigError, OSError):
        return {}


def write_json_whole(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file so that no half of it is ever seen."""
    write_text(path, json.dumps(content, indent=1) + "\n")
