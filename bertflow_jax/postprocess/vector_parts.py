"""A folder of parts, as `python -m bertflow_jax.embed` leaves it, read as one array of vectors.

index.json gives the sha256 of every part. It is compared while the blocks are read, so that no
file is read twice: a part that is damaged is an error once its last block has been given out. What
is made of the vectors has no name yet then, and goes.
"""

import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bertflow_jax.data.json_files import read_json_object
from bertflow_jax.embed_parts import DIGEST, INDEX
from bertflow_jax.errors import ConfigError, DataError, DataNotFoundError
from bertflow_jax.paths import can_be_path, file_kind
from bertflow_jax.postprocess.vector_files import Block, NpyVectors

_log = logging.getLogger(__name__)


class _Listed(NamedTuple):
    """What index.json says of a part; sha256 is "" where an older version wrote it."""

    rows: int
    sha256: str


class PartVectors:
    """The .npy parts of a folder with index.json."""

    def __init__(self, path: Path):
        """Read index.json and the headers of the parts; raises DataNotFoundError or DataError."""
        index = path / INDEX
        if file_kind(index) != "file":
            raise DataNotFoundError(
                f"--input={path}: no {INDEX} in this folder, which bertflow_jax.embed writes when "
                "every part is there; finish the job, or name a .npy or .parquet file"
            )
        self.path = path
        listed = _listed_parts(index)
        self._parts = [NpyVectors(path / name) for name in listed]
        self.files: tuple[Path, ...] = (index, *(part.path for part in self._parts))
        self.rows = sum(part.rows for part in self._parts)
        self.features = self._parts[0].features
        self._digests = [said.sha256 for said in listed.values()]
        if not all(self._digests):
            _log.warning(
                "%s lists no sha256 of a part, so that the vectors are read unchecked; the embed "
                "command that made them makes such parts again",
                index,
            )
        for part, said in zip(self._parts, listed.values(), strict=True):
            if part.rows != said.rows:
                raise DataError(
                    f"{part.path} holds {part.rows} vectors, {index} says {said.rows}; embed the "
                    "texts again"
                )
            if part.features != self.features:
                raise DataError(
                    f"{part.path} holds vectors of {part.features} dimensions, the first part of "
                    f"{self.features}; embed the texts again"
                )

    def blocks(self) -> Iterator[Block]:
        """Yield all rows in order; raises DataError naming file and row.

        So it does after the last rows of a part whose bytes are not those that index.json lists.
        """
        start = 0
        for part, digest in zip(self._parts, self._digests, strict=True):
            read = hashlib.sha256(part.header())
            for block in part.blocks():
                read.update(block.vectors.data)
                yield Block(start + block.first, block.vectors)
            if digest and read.hexdigest() != digest:
                raise DataError(
                    f"{part.path} does not hold the vectors that were made (its sha256 is not the "
                    f"one in {INDEX}); copy it again, or start the embed command again"
                )
            start += part.rows


def _listed_parts(index: Path) -> dict[str, _Listed]:
    """Return file -> what index.json says of it; raises DataError where it is not one of ours."""
    try:
        parts = read_json_object(index)["parts"]
        listed = [
            (part["file"], part["start"], part["stop"], part.get(DIGEST, "")) for part in parts
        ]
        starts = [0, *(stop for _, _, stop, _ in listed)]
        good = bool(listed) and all(
            name == Path(name).name
            and can_be_path(name)
            and start == starts[i] < stop
            and isinstance(digest, str)
            for i, (name, start, stop, digest) in enumerate(listed)
        )
    except (ConfigError, LookupError, TypeError, AttributeError, OSError) as error:
        raise DataError(f"{index} is not readable ({error}); embed the texts again") from error
    if not good:
        raise DataError(
            f"{index} lists no parts that follow each other; it is not the index of "
            "bertflow_jax.embed"
        )
    found: dict[str, _Listed] = {}
    for name, start, stop, digest in listed:
        if name in found:
            raise DataError(f"{index} lists {name} twice; embed the texts again")
        found[name] = _Listed(stop - start, digest)
    return found
