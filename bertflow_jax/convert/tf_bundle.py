"""Reading TensorFlow checkpoints (format V2, the "tensor bundle") without TensorFlow.

    PREFIX.index                    a table: name -> BundleEntryProto; "" -> BundleHeaderProto
    PREFIX.data-00000-of-00001 ...  the values, row-major, little-endian

Opening a bundle checks every entry against the sizes of the files, so that no later step can be
made to allocate more than is there; reading a tensor checks its checksum.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np

from bertflow_jax.array_files import first_bytes
from bertflow_jax.convert.bundle_proto import Entry, read_entry, read_header, read_name
from bertflow_jax.convert.crc32c import masked_crc32c
from bertflow_jax.convert.sstable import MAGIC, Damaged, read_table
from bertflow_jax.errors import ConfigError, DataNotFoundError, WeightsError
from bertflow_jax.paths import wrong_kind

# Of tensorflow/core/framework/types.proto: those a variable of a BERT or a flow can have.
_DTYPES: dict[int, np.dtype] = {
    1: np.dtype("<f4"),
    2: np.dtype("<f8"),
    3: np.dtype("<i4"),
    9: np.dtype("<i8"),
    10: np.dtype("?"),
    14: np.dtype(ml_dtypes.bfloat16),
    19: np.dtype("<f2"),
}


class TensorBundle:
    """An open checkpoint.

    Attributes:
      prefix: path without `.index`.
      shapes: name -> shape, of every tensor.
    """

    def __init__(self, prefix: Path):
        """Read the index and check it against the data files.

        Raises:
          DataNotFoundError: the index or a data file is missing.
          WeightsError: a file is damaged or too short, or a variable is partitioned.
        """
        self.prefix = prefix
        self._index = prefix.with_name(prefix.name + ".index")
        table = read_table(self._index)
        try:
            self._shards = self._shard_files(table.pop(b"", b""))
            self._entries = {read_name(key): read_entry(value) for key, value in table.items()}
        except Damaged as error:
            raise WeightsError(
                f"{self._index} is damaged ({error}); download or copy it again"
            ) from error
        sizes = [self._size_of(path) for path in self._shards]
        for name, entry in self._entries.items():
            self._check(name, entry, sizes)
        self.shapes: Mapping[str, tuple[int, ...]] = {
            name: entry.shape for name, entry in self._entries.items()
        }

    def read(self, name: str) -> np.ndarray:
        """Return a tensor; bfloat16 as float32.

        Raises:
          WeightsError: its bytes are not those that were saved, or its type is none that a weight
            can have.
        """
        entry = self._entries[name]
        path = self._shards[entry.shard]
        dtype = _DTYPES.get(entry.dtype)
        if dtype is None:
            raise WeightsError(f"{path}: {name} has TensorFlow's type {entry.dtype}, not floats")
        try:
            data = np.fromfile(path, np.uint8, entry.size, offset=entry.offset)
        except OSError as error:
            raise WeightsError(f"{path} cannot be read ({error.strerror or error})") from error
        if len(data) != entry.size or masked_crc32c(data) != entry.crc:
            raise WeightsError(
                f"{path} is damaged: the checksum of {name} is wrong; download or copy it again"
            )
        try:
            values = data.view(dtype).reshape(entry.shape)
        except ValueError as error:
            raise WeightsError(f"{path}: {name} has the impossible shape {entry.shape}") from error
        return values.astype(np.float32) if dtype == ml_dtypes.bfloat16 else values

    def _shard_files(self, header: bytes) -> list[Path]:
        shards = read_header(header)
        name = self.prefix.name
        # Only as many as there are: a wrong number fails on the first missing file.
        files = []
        for i in range(shards):
            path = self.prefix.with_name(f"{name}.data-{i:05d}-of-{shards:05d}")
            if not path.is_file():
                raise DataNotFoundError(f"{path} is missing, which {self._index} belongs to")
            files.append(path)
        return files

    def _size_of(self, path: Path) -> int:
        try:
            size = path.stat().st_size
        except OSError as error:
            raise WeightsError(f"{path} cannot be read ({error.strerror or error})") from error
        if size:  # a data file without a variable is empty
            first_bytes(path)
        return size

    def _check(self, name: str, entry: Entry, sizes: list[int]) -> None:
        if entry.sliced:
            raise WeightsError(
                f"{self._index}: {name} is a partitioned variable, which is not supported; save "
                "the checkpoint without a partitioner"
            )
        damaged = f"{self._index} is damaged ({name}: %s); download or copy it again"
        if entry.shard >= len(sizes):
            raise WeightsError(damaged % f"in data file {entry.shard} of {len(sizes)}")
        dtype = _DTYPES.get(entry.dtype)
        # The bytes of other types (strings among them) need not follow from the shape.
        if dtype is not None and math.prod(entry.shape) * dtype.itemsize != entry.size:
            raise WeightsError(damaged % f"{entry.size} bytes for shape {entry.shape} of {dtype}")
        if entry.offset + entry.size > sizes[entry.shard]:
            path = self._shards[entry.shard]
            raise WeightsError(
                f"{path} is truncated ({sizes[entry.shard]} bytes; {name} goes up to "
                f"{entry.offset + entry.size}); download or copy it again"
            )


def find_prefix(path: Path) -> Path:
    """Return the prefix of a checkpoint given by its prefix, one of its files or its folder.

    In a folder the file `checkpoint` says which of several is the newest.

    Raises:
      DataNotFoundError: no checkpoint there.
      ConfigError: a folder with several and no word on which; a pipe or a device.
      WeightsError: a checkpoint in the old V1 format, one file without an index.
    """
    if path.is_dir():
        return _newest(path)
    prefix = path.with_name(re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", path.name))
    if prefix.with_name(prefix.name + ".index").is_file():
        return prefix
    if path.is_file() and prefix == path and _ends_as_table(path):
        raise WeightsError(
            f"{path} is a checkpoint in TensorFlow's old V1 format; save it again with "
            "tf.train.Saver, whose format is V2"
        )
    for place in (path, prefix.with_name(prefix.name + ".index")):
        if (kind := wrong_kind(place)) is not None:
            raise ConfigError(
                f"{place} is {kind}, and a file is read here: name the prefix of a TensorFlow "
                "checkpoint"
            )
    raise DataNotFoundError(f"{prefix}.index not found: name the prefix of a TensorFlow checkpoint")


def _newest(folder: Path) -> Path:
    found = sorted(path.name.removesuffix(".index") for path in folder.glob("*.index"))
    if not found:
        raise DataNotFoundError(f"{folder} has no TensorFlow checkpoint (no *.index)")
    if len(found) > 1:
        state = folder / "checkpoint"
        text = state.read_text("utf-8", "replace") if state.is_file() else ""
        named = re.search(r'^model_checkpoint_path: "(?:[^"]*/)?([^"/]+)"', text, re.MULTILINE)
        if named is None or named[1] not in found:
            raise ConfigError(
                f"{folder} has several checkpoints; name one: "
                + ", ".join(str(folder / name) for name in found[:5])
            )
        return folder / named[1]
    return folder / found[0]


def _ends_as_table(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        return file.read() == MAGIC.to_bytes(8, "little")
