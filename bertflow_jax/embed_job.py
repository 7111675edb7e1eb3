"""Files of texts to files of vectors: resumable, atomic, in parts for several processes.

    OUTPUT.npy      float32[N, E]
    OUTPUT.parquet  columns `id` and `vector` (needs pyarrow)
    OUTPUT/         part-00000-of-00004.npy ..., each with a .json beside it, and index.json

While a part is written it lies in `.NAME.partial/` beside its final place: the vectors,
memory-mapped, and how far they go. A job started again goes on there if encoder, input and settings
are the same, in the same windows of rows, so that the bytes are those of an uninterrupted job. A
part gets its final name when it is complete.
"""

import dataclasses
import itertools
import json
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from bertflow_jax.data.json_files import read_json_object_if_present, write_json
from bertflow_jax.data.rows import RowFile, import_pyarrow_parquet
from bertflow_jax.errors import ConfigError, WorkdirError
from bertflow_jax.workdir import prepare_output, write_text

if TYPE_CHECKING:
    from bertflow_jax.embed import SentenceEncoder

_log = logging.getLogger(__name__)
_PARQUET_GROUP = 8192


@dataclasses.dataclass(frozen=True)
class EmbedJob:
    """What to embed and where to.

    Attributes:
      rows: the input.
      output: `.npy` or `.parquet` file, or a folder.
      batch_size: see `SentenceEncoder.encode`.
      normalize: scale every vector to length 1.
      on_overflow: see `SentenceEncoder.encode`.
      shard_rows: rows of a part of a folder; 0 gives every process one part.
      process: number of this process.
      processes: how many share the job; each needs a folder as output.
    """

    rows: RowFile
    output: Path
    batch_size: int | None = None
    normalize: bool = False
    on_overflow: str = "warn"
    shard_rows: int = 0
    process: int = 0
    processes: int = 1

    @property
    def in_parts(self) -> bool:
        """Whether the output is a folder."""
        return self.output.suffix not in (".npy", ".parquet")

    def check(self) -> None:
        """Raise ConfigError or WorkdirError before anything is loaded."""
        if self.processes > 1 and not self.in_parts:
            raise ConfigError(
                f"--output={self.output}: {self.processes} processes need a folder, where each "
                "writes its own parts"
            )
        if self.shard_rows and not self.in_parts:
            raise ConfigError("--shard_rows is for a folder as --output")
        if self.output.suffix == ".parquet":
            import_pyarrow_parquet()
        if self.output.is_dir() if not self.in_parts else self.output.is_file():
            raise WorkdirError(
                f"--output={self.output} is a {'file' if self.in_parts else 'folder'}; a name "
                "ending in .npy or .parquet is a file, any other a folder of parts"
            )
        prepare_output(self.output if self.in_parts else self.output.absolute().parent, "--output")


@dataclasses.dataclass(frozen=True)
class _Part:
    """Rows `start` to `stop` of the input and the file they go to."""

    start: int
    stop: int
    path: Path

    @property
    def rows(self) -> int:
        """How many rows it holds."""
        return self.stop - self.start

    @property
    def sidecar(self) -> Path:
        """The .json beside a part of a folder."""
        return self.path.with_suffix(".json")

    def described(self, made_by: dict[str, Any]) -> dict[str, Any]:
        """Return what the part is made of: equal means that its rows may be taken as they are."""
        return {**made_by, "start": self.start, "stop": self.stop}


class _Texts:
    """The texts of a file, read once: a part takes its rows from where the last one ended."""

    def __init__(self, rows: RowFile):
        self._rows, self._at = iter(rows), 0

    def take(self, start: int, stop: int) -> Iterator[str]:
        """Yield the texts of rows start to stop; calls come in ascending order."""
        skipped = start - self._at
        self._at = stop
        return (row.text for row in itertools.islice(self._rows, skipped, stop - start + skipped))


def run_job(encoder: "SentenceEncoder", job: EmbedJob, *, progress: bool = False) -> int:
    """Embed the rows of a job; return how many rows this process's parts hold.

    Raises:
      BertFlowError: a bad row (before anything is computed), or an output that cannot be written.
    """
    from bertflow_jax import parallel  # loads JAX, which the encoder has done by now

    job.check()
    total, digest = job.rows.survey()
    made_by = {
        "encoder": encoder.describe(),
        "rows_sha256": digest,
        "rows": total,
        "normalize": job.normalize,
        "batch_size": job.batch_size or parallel.default_batch_size(),
    }
    parts = _parts(job, total)
    mine = parts[job.process :: job.processes]
    count = sum(part.rows for part in mine)
    texts = _Texts(job.rows)
    try:
        with tqdm(total=count, unit="text", disable=not progress) as bar:
            for part in mine:
                _write_part(encoder, job, part, texts, part.described(made_by), bar)
        if job.in_parts:
            _write_index(job.output, parts, made_by)
    except OSError as error:
        raise WorkdirError(f"--output={job.output} cannot be written: {error}") from error
    return count


def _parts(job: EmbedJob, total: int) -> list[_Part]:
    if not job.in_parts:
        return [_Part(0, total, job.output)]
    size = job.shard_rows or max(1, -(-total // job.processes))
    count = max(1, -(-total // size))
    return [
        _Part(
            i * size,
            min(total, (i + 1) * size),
            job.output / f"part-{i:05d}-of-{count:05d}.npy",
        )
        for i in range(count)
    ]


def _write_part(
    encoder: "SentenceEncoder",
    job: EmbedJob,
    part: _Part,
    texts: _Texts,
    described: dict[str, Any],
    bar: tqdm,
) -> None:
    if job.in_parts and part.path.is_file() and _readable_json(part.sidecar) == described:
        _log.info("%s is complete already", part.path)
        bar.update(part.rows)
        return
    partial = part.path.parent / f".{part.path.name}.partial"
    done = _open_partial(partial, described, (part.rows, encoder.dimension))
    bar.update(done)
    for window in encoder.encode_stream(
        texts.take(part.start + done, part.stop),
        job.batch_size,
        job.normalize,
        on_overflow=job.on_overflow,
        first_row=part.start + done,
    ):
        # Mapped anew for every window: what stays mapped counts as memory of the process.
        vectors = np.lib.format.open_memmap(partial / "vectors.npy", mode="r+")
        vectors[done : done + len(window)] = window
        vectors.flush()
        del vectors
        done += len(window)
        _write_json_whole(partial / "done.json", {**described, "done": done})
        bar.update(len(window))
    if done != part.rows:
        raise WorkdirError(
            f"{job.rows.path} changed while it was read: {part.rows} rows were counted, "
            f"{done} found"
        )
    complete = partial / "vectors.npy"
    if part.path.suffix == ".parquet":
        complete = _to_parquet(job, complete, partial / "vectors.parquet")
    if job.in_parts:
        write_json(part.sidecar, described)
    os.replace(complete, part.path)
    shutil.rmtree(partial)


def _open_partial(partial: Path, described: dict[str, Any], shape: tuple[int, int]) -> int:
    """Make the folder of an unfinished part, or find it; return how many rows of it are done."""
    state = partial / "done.json"
    found = _readable_json(state)
    done = found.pop("done", 0)
    if found == described and (partial / "vectors.npy").is_file():
        _log.info("%s goes on at row %d", partial, done)
        return done
    if partial.exists():
        _log.warning("%s is of another job or unreadable: starting again", partial)
        shutil.rmtree(partial)
    partial.mkdir(parents=True)
    with (partial / "vectors.npy").open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        if shape[0]:
            # A full disk is an error here; in a memory map it would kill the process.
            os.posix_fallocate(file.fileno(), file.tell(), 4 * shape[0] * shape[1])
    _write_json_whole(state, {**described, "done": 0})
    return 0


def _readable_json(path: Path) -> dict[str, Any]:
    try:
        return read_json_object_if_present(path)
    except ConfigError:
        return {}


def _to_parquet(job: EmbedJob, file: Path, path: Path) -> Path:
    parquet = import_pyarrow_parquet()
    import pyarrow

    rows, writer = iter(job.rows), None
    start, total = 0, 1
    while start < total:
        vectors = np.load(file, mmap_mode="r")
        total = len(vectors)
        part = np.array(vectors[start : start + _PARQUET_GROUP])
        keys = [row.key for row in itertools.islice(rows, len(part))]
        column = pyarrow.FixedSizeListArray.from_arrays(part.reshape(-1), part.shape[1])
        if writer is None:
            schema = pyarrow.schema([("id", _key_type(pyarrow, keys)), ("vector", column.type)])
            writer = parquet.ParquetWriter(path, schema)
        writer.write_table(pyarrow.table([keys, column], schema=writer.schema))
        start += _PARQUET_GROUP
    if writer is not None:
        writer.close()
    return path


def _key_type(pyarrow: Any, keys: list[Any]) -> Any:
    return pyarrow.array(keys).type if keys else pyarrow.int64()


def _write_index(folder: Path, parts: list[_Part], made_by: dict[str, Any]) -> None:
    """Write index.json once every part is there; the last process to finish does it."""
    described = [_readable_json(part.sidecar) for part in parts]
    expected = [part.described(made_by) for part in parts]
    if described != expected or not all(part.path.is_file() for part in parts):
        _log.info("%s: index.json is written when every part is there", folder)
        return
    names = [{"file": part.path.name, "start": part.start, "stop": part.stop} for part in parts]
    _write_json_whole(folder / "index.json", {**made_by, "parts": names})


def _write_json_whole(path: Path, content: dict[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=1) + "\n")
