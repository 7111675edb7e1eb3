"""Files of texts to files of vectors: resumable, atomic, in parts for several processes.

    OUTPUT.npy      float32[N, E]
    OUTPUT.parquet  columns `id` and `vector` (needs pyarrow)
    OUTPUT/         part-00000-of-00004.npy ..., each with a .json beside it, and index.json

While a part is written it lies in `.NAME.partial/` beside its final place: the vectors,
memory-mapped, and how far they go. A job started again goes on there if encoder, input and settings
are the same, in the same windows of rows, so that the bytes are those of an uninterrupted job. A
part gets its final name when it is complete.
"""

import contextlib
import hashlib
import itertools
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from bertflow_jax.data.row_blocks import Survey
from bertflow_jax.data.rows import RowFile
from bertflow_jax.data.texts import tell_of_empty
from bertflow_jax.embed_index import index_of, refuse_other_parts, without_digests, write_index
from bertflow_jax.embed_parquet import check_ids, write_parquet
from bertflow_jax.embed_partial import PartialPart
from bertflow_jax.embed_parts import INDEX, Part, read_state
from bertflow_jax.embed_spec import EmbedJob
from bertflow_jax.errors import BertFlowError, InputError, WorkdirError, refusal
from bertflow_jax.interrupt import Interrupt
from bertflow_jax.output_locks import LOCK, same_job, sole_writer
from bertflow_jax.progress import progress_bar

if TYPE_CHECKING:
    from bertflow_jax.embed import SentenceEncoder

__all__ = ["EmbedJob", "run_job"]
_log = logging.getLogger(__name__)
_STOPPING = "stopping after this window; Ctrl-C once more stops at once, without its rows\n"


class _Texts:
    """The texts of a file, read once: a part takes its rows from where the last one ended."""

    def __init__(self, rows: RowFile, known: Survey):
        self._texts = (text for block in rows.blocks(known) for text in block.texts)
        self._at, self._total = 0, known.rows

    def take(self, start: int, stop: int) -> Iterator[str]:
        """Yield the texts of rows start to stop; calls come in ascending order."""
        skipped = start - self._at
        self._at = stop
        yield from itertools.islice(self._texts, skipped, stop - start + skipped)
        if stop == self._total:
            next(self._texts, None)  # rows that have been added are found behind the last one


def run_job(encoder: "SentenceEncoder", job: EmbedJob, *, progress: bool = False) -> int:
    """Embed the rows of a job; return how many rows this process's parts hold.

    Ctrl-C ends it after the window that is being computed, with all rows so far kept.

    Raises:
      BertFlowError: a bad row (before anything is computed), an input that is not the same to the
        end, an output that cannot be written or that another job is writing.
    """
    from bertflow_jax import parallel  # loads JAX, which the encoder has done by now

    if not callable(getattr(encoder, "encode_stream", None)):
        raise InputError(f"a SentenceEncoder is needed, not {type(encoder).__name__}")
    job.check()
    if progress:
        _log.info("checking the rows of %s", job.rows.path)
    known = job.rows.survey()
    if not known.rows:
        _log.warning("%s holds no row: there will be no vector", job.rows.path)
    tell_of_empty(str(job.rows.path), empty=known.blank, total=known.rows)
    if job.output.suffix == ".parquet":
        check_ids(job.rows, known)
    made_by = {
        "encoder": encoder.describe(),
        "rows_sha256": known.sha256,
        "rows": known.rows,
        "normalize": job.normalize,
        "batch_size": job.batch_size or parallel.default_batch_size(),
        "on_overflow": "error" if job.on_overflow == "error" else "cut",
    }
    parts = _parts(job, known.rows, made_by, encoder.dimension)
    mine = parts[job.process :: job.processes]
    count = sum(part.rows for part in mine)
    texts = _Texts(job.rows, known)
    sound: set[Path] = set()  # parts that were written or read through here: not read once more
    try:
        with (
            _shared(job, parts),
            progress_bar(total=count, unit="text", disable=not progress) as bar,
        ):
            for part in mine:
                with sole_writer(part.lock, f"--output={part.path}"):
                    _write_part(encoder, job, part, texts, known, bar)
                sound.add(part.path)
            if job.in_parts:
                write_index(job.output, parts, sound)
    except BertFlowError:
        raise
    except OSError as error:
        raise WorkdirError(f"--output={job.output} cannot be written: {refusal(error)}") from error
    return count


def _parts(job: EmbedJob, total: int, made_by: dict[str, Any], dimension: int) -> list[Part]:
    if not job.in_parts:
        return [Part(0, total, job.output, made_by, dimension)]
    size = job.shard_rows or max(1, -(-total // job.processes))
    count = max(1, -(-total // size))
    return [
        Part(
            i * size,
            min(total, (i + 1) * size),
            job.output / f"part-{i:05d}-of-{count:05d}.npy",
            made_by,
            dimension,
        )
        for i in range(count)
    ]


@contextlib.contextmanager
def _shared(job: EmbedJob, parts: list[Part]) -> Iterator[None]:
    """Hold a folder of parts with the other processes of the job; drop the index of another one."""
    if not job.in_parts:
        yield
        return
    index = index_of(parts)
    identity = hashlib.sha256(json.dumps(index).encode()).hexdigest()
    with same_job(job.output / LOCK, identity, f"--output={job.output}"):
        refuse_other_parts(job.output, parts)
        if others := [told for part in parts if (told := part.of_another_job())]:
            _log.warning(
                "%s holds %d part(s) of another job (%s): the parts of this one take their place",
                job.output,
                len(others),
                others[0],
            )
        for part in parts:
            if part.path.is_file() and not part.sidecar.is_file():
                _log.warning("%s is there without a .json of ours and will be replaced", part.path)
        if without_digests(read_state(job.output / INDEX)) != index:
            (job.output / INDEX).unlink(missing_ok=True)
        yield


def _write_part(
    encoder: "SentenceEncoder",
    job: EmbedJob,
    part: Part,
    texts: _Texts,
    known: Survey,
    bar: tqdm,
) -> None:
    if job.in_parts:
        if part.is_complete():
            _log.info("%s is complete already", part.path)
            _skip(bar, part.rows)
            return
        (job.output / INDEX).unlink(missing_ok=True)
    elif part.path.exists():
        _log.warning("%s is there and will be replaced", part.path)
    partial = PartialPart(part)
    _skip(bar, partial.done)
    first = part.start + partial.done
    with Interrupt(_STOPPING) as interrupt:
        for window in encoder.encode_stream(
            texts.take(first, part.stop),
            job.batch_size,
            job.normalize,
            on_overflow=job.on_overflow,
            first_row=first,
        ):
            partial.append(window)
            bar.update(len(window))
            if interrupt.requested:
                _log.warning(
                    "stopped: %d of the %d rows of %s are kept, the same command goes on there",
                    partial.done,
                    part.rows,
                    part.path,
                )
            interrupt.check()
        interrupt.check()
    if partial.done != part.rows:
        raise WorkdirError(
            f"{job.rows.path} changed while it was read: {part.rows} rows were counted, "
            f"{partial.done} found"
        )
    complete = partial.vectors
    if part.path.suffix == ".parquet":
        complete = complete.with_suffix(".parquet")
        write_parquet(job.rows, known, partial.vectors, complete)
    partial.finish(complete, in_folder=job.in_parts)


def _skip(bar: tqdm, rows: int) -> None:
    """Count rows that were done before, but not into the speed."""
    if not bar.disable:
        bar.initial += rows
    bar.update(rows)
