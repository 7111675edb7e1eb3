"""Parts of an embedding job on disk: unfinished ones that can be gone on with, and complete ones.

An unfinished part is a folder `.NAME.partial` beside its final place: vectors.npy in its final
size, and done.json, which says what it is made of, how many rows are done and their sha256. Rows
are taken over only if all of that is so. A complete part has its final name; in a folder of parts
it has a .json beside it, written last, without which it is made again.
"""

import dataclasses
import hashlib
import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from bertflow_jax.data.json_files import read_json_object_if_present
from bertflow_jax.data.npy_files import NPY_DAMAGE
from bertflow_jax.errors import ConfigError
from bertflow_jax.workdir import write_text

_log = logging.getLogger(__name__)
INDEX = "index.json"  # of a folder of parts
LOCK = ".lock"  # of a folder of parts
_READ = 2**20  # bytes


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
        return self.path.with_name(f".{self.path.name}{LOCK}")

    @property
    def described(self) -> dict[str, Any]:
        """What it is made of: equal means that its rows may be taken as they are."""
        return {**self.made_by, "start": self.start, "stop": self.stop}

    def is_made_of(self, found: dict[str, Any]) -> bool:
        """Whether rows that are described so may be taken."""
        # Where no text was cut for fear of an error, none is cut with a warning.
        return found in (self.described, {**self.described, "on_overflow": "error"})

    def is_complete(self) -> bool:
        """Whether this part of a folder is there, whole and of this job."""
        return self.is_made_of(read_state(self.sidecar)) and self.is_whole(self.path)

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
                return good and version == (1, 0) and not fortran and _size(file.fileno()) == size
        except NPY_DAMAGE:
            return False


class PartialPart:
    """The folder of an unfinished part.

    Attributes:
      done: rows that are written and recorded.
      vectors: the file of all of them.
    """

    def __init__(self, part: Part):
        """Go on with what is there, or start again where that is of another job or damaged."""
        self._part = part
        self._folder = partial_folder(part.path)
        self._state = self._folder / "done.json"
        self._sha = hashlib.sha256()
        self.vectors = self._folder / "vectors.npy"
        found = self._found()
        if found is None:
            self._start()
        self.done = found or 0

    def append(self, vectors: np.ndarray) -> None:
        """Write the next rows, float32[n, E], and record them."""
        # Mapped anew for every window: what stays mapped counts as memory of the process.
        mapped = np.lib.format.open_memmap(self.vectors, mode="r+")
        mapped[self.done : self.done + len(vectors)] = vectors
        mapped.flush()
        del mapped
        self._sha.update(vectors.astype("<f4").tobytes())
        self.done += len(vectors)
        self._record(self.done)

    def finish(self, complete: Path, *, in_folder: bool) -> None:
        """Give a file of this folder the part's final name; the rest of the folder goes."""
        if in_folder:
            # Else, killed between here and the end, an older part would pass for this one.
            self._part.sidecar.unlink(missing_ok=True)
        os.replace(complete, self._part.path)
        if in_folder:
            write_json_whole(self._part.sidecar, self._part.described)
        _delete(self._folder)

    def _found(self) -> int | None:
        """Return how many rows of what lies there can be kept, None for no such thing."""
        state = read_state(self._state)
        done, sha = state.pop("done", None), state.pop("sha256", None)
        if (
            type(done) is not int
            or not 0 <= done <= self._part.rows
            or not self._part.is_made_of(state)
            or not self._part.is_whole(self.vectors)
        ):
            return None
        with self.vectors.open("rb") as file:
            file.seek(-4 * self._part.rows * self._part.dimension, os.SEEK_END)
            left = 4 * done * self._part.dimension
            while left:
                block = file.read(min(left, _READ))
                if not block:
                    return None
                self._sha.update(block)
                left -= len(block)
        if self._sha.hexdigest() != sha:
            return None
        _log.info("%s goes on at row %d", self._folder, done)
        return done

    def _start(self) -> None:
        if os.path.lexists(self._folder):
            _log.warning(
                "%s is of another job or unreadable%s: starting again",
                self._folder,
                self._differences(),
            )
            _delete(self._folder)
        self._folder.mkdir(parents=True)
        self._sha = hashlib.sha256()
        shape = (self._part.rows, self._part.dimension)
        try:
            with self.vectors.open("wb") as file:
                header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
                if shape[0]:
                    # A full disk is an error here; in a memory map it would kill the process.
                    os.posix_fallocate(file.fileno(), file.tell(), 4 * shape[0] * shape[1])
            self._record(0)
        except BaseException:
            _delete(self._folder)  # there is no row in it to go on with
            raise

    def _differences(self) -> str:
        """Say in which settings the job that lies there differs."""
        state = read_state(self._state)
        names = [name for name, value in self._part.described.items() if state.get(name) != value]
        return f" (another {', '.join(names)})" if state and names else ""

    def _record(self, done: int) -> None:
        state = {**self._part.described, "done": done, "sha256": self._sha.hexdigest()}
        write_json_whole(self._state, state)


def partial_folder(path: Path) -> Path:
    """Return the folder of the unfinished part with this final name."""
    return path.parent / f".{path.name}.partial"


def read_state(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file of ours; {} where it is not there or damaged."""
    try:
        return read_json_object_if_present(path)
    except (ConfigError, OSError):
        return {}


def write_json_whole(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file so that no half of it is ever seen."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def _size(handle: int) -> int:
    return os.fstat(handle).st_size


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        # First, so that what is left of a deletion cut short describes nothing.
        done = path / "done.json"
        if done.is_file():
            done.unlink()
        shutil.rmtree(path)
    else:
        path.unlink()
