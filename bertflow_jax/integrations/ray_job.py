"""Parquet files to Parquet files with vectors on a Ray cluster: every row once, resumable.

    units of rows -> read (tasks) -> vectors (one encoder a worker) -> pieces (tasks) -> one output
    an input, put together as soon as all of its rows are there

Reading and writing reserve no CPU, so that workers may have all of them. See `ray_outputs` for what
makes a row that is computed twice appear once.
"""

import contextlib
import dataclasses
import logging
from collections.abc import Iterator
from typing import Any

from bertflow_jax.data.texts import tell_of_empty
from bertflow_jax.errors import TrainingError
from bertflow_jax.integrations.ray_cluster import cluster, fitted, plain_errors, quiet
from bertflow_jax.integrations.ray_data import map_encoder
from bertflow_jax.integrations.ray_inputs import InputFile, find_inputs, open_place
from bertflow_jax.integrations.ray_manifest import check_output, take_over
from bertflow_jax.integrations.ray_outputs import Store, gaps, remove_temporaries
from bertflow_jax.integrations.ray_spec import RayJob, check_apart
from bertflow_jax.integrations.ray_stages import (
    EmbedRows,
    describe_encoder,
    finish_file,
    read_units,
    without_views,
    write_pieces,
)
from bertflow_jax.integrations.ray_worker import EmbedSettings
from bertflow_jax.output_locks import LOCK, sole_writer
from bertflow_jax.output_places import output_folder
from bertflow_jax.progress import progress_bar

__all__ = ["Counts", "RayJob", "run_ray_job"]
_log = logging.getLogger(__name__)
_BLOCKS = 10_000  # of units, at most: Ray's own work grows with them
_FINISHING = 16  # outputs that are put together at once


@dataclasses.dataclass(frozen=True)
class Counts:
    """What a job has done.

    Attributes:
      rows: of all outputs, those of earlier runs too.
      files: outputs.
      computed: rows that this run embedded.
      cut: of these, how many were longer than max_length.
      empty: of these, how many are empty or white space alone.
    """

    rows: int
    files: int
    computed: int
    cut: int
    empty: int = 0


def run_ray_job(job: RayJob, *, progress: bool = False) -> Counts:
    """Embed the files of a job.

    Raises:
      BertFlowError: an input that is not there, changes or has a bad row, an output of another job
        or that cannot be written, workers that keep dying. What is done stays for the next run.
    """
    job.check()
    source, target = open_place(job.input, "--input"), open_place(job.output, "--output")
    files, schema = find_inputs(source)
    kept = job.kept(schema)
    check_apart(source, target, files)
    found = check_output(target)
    with (
        _lock(target),
        _swept(target),
        cluster(job.address) as ray,
        quiet(ray),
        plain_errors(ray),
    ):
        task = ray.remote(num_cpus=0, max_calls=1, max_retries=0)(describe_encoder)
        described = ray.get(task.remote(job.spec.absolute()))
        made_by = {
            "encoder": described["encoder"],
            "column": job.column,
            "columns": kept,
            "output_column": job.output_column,
            "normalize": job.normalize,
            "on_overflow": "error" if job.on_overflow == "error" else "cut",
        }
        store = Store(target, made_by, job.output_column)
        take_over(store, files, found)
        return _run(ray, job, store, files, schema, kept, described["dimension"], progress)


@contextlib.contextmanager
def _lock(target: Any) -> Iterator[None]:
    if not target.is_local:
        yield  # buckets know no locks: one job at a time there
        return
    folder = output_folder(target.path)
    with sole_writer(folder / LOCK, f"--output={target.given}"):
        yield


@contextlib.contextmanager
def _swept(target: Any) -> Iterator[None]:
    """Delete what workers that a stop has ended left half written; whole pieces stay."""
    try:
        yield
    except BaseException:
        remove_temporaries(target)
        raise


def _run(
    ray: Any,
    job: RayJob,
    store: Store,
    files: list[InputFile],
    schema: Any,
    kept: list[str],
    dimension: int,
    progress: bool,
) -> Counts:
    """Embed what is missing and put every output together."""
    import pyarrow

    schema = without_views(schema)
    empty = pyarrow.schema(
        [
            *(schema.field(name) for name in kept),
            (job.output_column, pyarrow.list_(pyarrow.float32(), dimension)),
        ]
    ).empty_table()
    open_files = [file for file in files if not store.is_complete(file)]
    units: list[dict[str, Any]] = []
    missing: dict[str, int] = {}
    for file in open_files:
        holes = gaps(store.pieces(file), file.rows)
        missing[file.name] = sum(stop - start for start, stop in holes)
        units += _units(file, holes, job.rows_per_batch)
    total, left = sum(file.rows for file in files), sum(missing.values())
    _log.info(
        "%d rows in %d files; %d rows in %d files are left to do",
        total,
        len(files),
        left,
        len(open_files),
    )
    finishing = _Finishing(ray, store, {file.name: file for file in open_files}, empty)
    for name in [name for name, rows in missing.items() if not rows]:
        finishing.start(name)
    cut = empty = 0
    with progress_bar(total=total, unit="text", initial=total - left, disable=not progress) as bar:
        for piece in _pieces(ray, job, store, open_files, units, kept) if units else ():
            cut += piece["cut"]
            empty += piece["empty"]
            missing[piece["name"]] -= piece["rows"]
            bar.update(piece["rows"])
            if not missing[piece["name"]]:
                finishing.start(piece["name"])
        finishing.wait()
    short = [name for name, rows in missing.items() if rows]
    if short:
        raise TrainingError(f"{short[0]}: rows are missing; the same command computes them")
    store.clear()
    if cut and job.on_overflow == "warn":
        _log.warning("%d of %d texts are longer than max_length and were cut", cut, left)
    tell_of_empty(job.input, empty=empty, total=left)
    return Counts(total, len(files), left, cut, empty)


def _units(file: InputFile, holes: list[tuple[int, int]], rows: int) -> Iterator[dict[str, Any]]:
    for first, last in holes:
        for start in range(first, last, rows):
            stop = min(last, start + rows)
            yield {"path": file.path, "name": file.name, "start": start, "stop": stop}


def _pieces(
    ray: Any,
    job: RayJob,
    store: Store,
    files: list[InputFile],
    units: list[dict[str, Any]],
    kept: list[str],
) -> Iterator[dict[str, Any]]:
    """Yield what is written, as it is written."""
    concurrency = fitted(ray, job.workers, len(units))
    most = concurrency[1] if isinstance(concurrency, tuple) else concurrency
    aside = {"num_cpus": 0, "compute": ray.data.TaskPoolStrategy(size=min(most + 1, len(units)))}
    columns = list(dict.fromkeys([*kept, job.column]))
    settings = EmbedSettings(
        job.column,
        job.output_column,
        job.batch_size,
        job.normalize,
        job.on_overflow,
        job.workers.environment(),
        store.made_by["encoder"],
    )
    source = open_place(job.input, "--input").filesystem
    dataset = ray.data.from_items(units, override_num_blocks=min(len(units), _BLOCKS))
    dataset = dataset.map_batches(
        read_units, fn_args=(source, columns), batch_format="pyarrow", **aside
    )
    workers = dataclasses.replace(job.workers, concurrency=concurrency)
    dataset = map_encoder(dataset, EmbedRows, job.spec, settings, workers, job.rows_per_batch)
    by_name = {file.name: file for file in files}
    written = dataset.map_batches(
        write_pieces,
        fn_args=(store, by_name, [*kept, job.output_column]),
        batch_format="pyarrow",
        **aside,
    )
    for batch in written.iter_batches(batch_size=None, batch_format="pyarrow"):
        yield from batch.to_pylist()


class _Finishing:
    """Outputs that are put together beside the embedding of the next ones."""

    def __init__(self, ray: Any, store: Store, files: dict[str, InputFile], empty: Any):
        self._ray, self._store, self._files, self._empty = ray, store, files, empty
        self._task = ray.remote(finish_file).options(num_cpus=0, scheduling_strategy="SPREAD")
        self._running: list[Any] = []

    def start(self, name: str) -> None:
        """Put an output together; waits where many are."""
        if len(self._running) >= _FINISHING:
            done, self._running = self._ray.wait(self._running)
            self._ray.get(done)
        self._running.append(self._task.remote(self._store, self._files[name], self._empty))

    def wait(self) -> None:
        """Wait for all; raises the error of one that failed."""
        self._ray.get(self._running)
        self._running = []
