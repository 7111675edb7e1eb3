"""Unfinished parts of an embedding job on disk, which can be gone on with.

An unfinished part is a folder `.NAME.partial` beside its final place: vectors.npy in its final
size, and done.json, which says what it is made of, how many rows are done and the sha256 of the
file up to there. Rows are taken over only if all of that is so.
"""

import hashlib
import logging
import os
import re
import shutil
from pathlib import Path

import numpy as np

from bertflow_jax.embed_parts import DIGEST, Part, read_state, write_json_whole
from bertflow_jax.errors import WorkdirError

_log = logging.getLogger(__name__)
_READ = 2**20  # bytes
# What a job puts into the folder; the last is a done.json that was being written.
_NAMES = re.compile(r"vectors\.(npy|parquet)|done\.json|\.done\.json\.[a-z0-9_]{8}")


class PartialPart:
    """The folder of an unfinished part.

    Attributes:
      done: rows that are written and recorded.
      vectors: the file of all of them.
    """

    def __init__(self, part: Part):
        """Go on with what is there, or start again where that is of another job or damaged.

        Raises:
          WorkdirError: what is there is not ours.
        """
        self._part = part
        self._folder = partial_folder(part.path)
        self._state = self._folder / "done.json"
        self._sha = hashlib.sha256()
        self.vectors = self._folder / "vectors.npy"
        refuse_others_files(part.path)
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
            sidecar = {**self._part.described, DIGEST: self._sha.hexdigest()}
            write_json_whole(self._part.sidecar, sidecar)
        _delete(self._folder)

    def _found(self) -> int | None:
        """Return how many rows of what lies there can be kept, None for no such thing."""
        state = read_state(self._state)
        done, sha = state.pop("done", None), state.pop(DIGEST, None)
        if (
            type(done) is not int
            or not 0 <= done <= self._part.rows
            or not self._part.is_made_of(state)
            or not self._part.is_whole(self.vectors)
        ):
            return None
        with self.vectors.open("rb") as file:
            left = (
                os.fstat(file.fileno()).st_size
                - 4 * (self._part.rows - done) * self._part.dimension
            )
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
                length = file.tell()
            with self.vectors.open("rb") as file:
                self._sha.update(file.read(length))
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
        state = {**self._part.described, "done": done, DIGEST: self._sha.hexdigest()}
        write_json_whole(self._state, state)


def partial_folder(path: Path) -> Path:
    """Return the folder of the unfinished part with this final name."""
    return path.parent / f".{path.name}.partial"


def refuse_others_files(path: Path) -> None:
    """Raise WorkdirError where something that is not ours lies in the place of an unfinished part.

    It would be deleted with the folder where the part is started again.

    Args:
      path: of the complete part.
    """
    folder = partial_folder(path)
    if not os.path.lexists(folder):
        return
    found = folder
    if folder.is_dir() and not folder.is_symlink():
        others = [inside for inside in sorted(folder.iterdir()) if not _is_ours(inside)]
        if not others:
            return
        found = others[0]
    raise WorkdirError(
        f"--output={path}: {found} is not of an embed command; move it away, or name another output"
    )


def _is_ours(inside: Path) -> bool:
    if not _NAMES.fullmatch(inside.name) or inside.is_symlink():
        return False
    return not inside.is_dir() or not any(inside.iterdir())  # an empty folder is nobody's loss


def _delete(folder: Path) -> None:
    # First, so that what is left of a deletion cut short describes nothing.
    done = folder / "done.json"
    if done.is_file():
        done.unlink()
    shutil.rmtree(folder)
