"""Where mapped vectors go: one .npy or .parquet file, which appears when it is complete."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.data.parquet_rows import check_parquet_output, import_pyarrow_parquet
from bertflow_jax.errors import BertFlowError, ConfigError, WorkdirError, refusal
from bertflow_jax.interrupt import held
from bertflow_jax.output_locks import lock_of, refuse_foreign_lock, sole_writer
from bertflow_jax.output_places import output_folder, refuse_link
from bertflow_jax.paths import file_kind
from bertflow_jax.postprocess.vector_files import Block, VectorFile
from bertflow_jax.staging import new_beside, remove_left_beside
from bertflow_jax.text_output import share

Write = Callable[[Block, NDArray[np.float32]], None]


def check_output(output: Path, vectors: VectorFile) -> None:
    """Raise a BertFlowError, before anything is loaded, for an output that cannot be.

    Raises:
      ConfigError: another format, or a file that is read.
      WorkdirError: a folder, or a place that is not writable.
    """
    if output.suffix not in (".npy", ".parquet"):
        raise ConfigError(f"--output={output}: vectors go into a .npy or .parquet file")
    if output.suffix == ".parquet":
        check_parquet_output(output.absolute(), "--output")
    if file_kind(output) == "folder":
        raise WorkdirError(f"--output={output} is a folder; name a file")
    for path in vectors.files:
        if output.exists() and os.path.samefile(path, output):
            raise ConfigError(
                f"--output={output} would overwrite --input={vectors.path}; name another output"
            )
    refuse_link(output, f"--output={output}")
    output_folder(output.absolute().parent, "--output")
    refuse_foreign_lock(lock_of(output), f"--output={output}")


@contextlib.contextmanager
def vector_writer(output: Path, vectors: VectorFile, features: int) -> Iterator[Write]:
    """Give a function that takes a block and its mapped rows float32[n, K], block after block.

    The rows go to a file beside the output, which gets its name at the end of the `with`, and is
    deleted where that ends with an error.

    Args:
      output: .npy, or .parquet: the columns of the input, with the new vectors in place of the old,
        or `id` (the row's number) and `vector` for an input without columns.
      vectors: the input.
      features: K.

    Raises:
      WorkdirError: the file cannot be written, or another process is writing it.
    """
    output = output.absolute()
    make = _npy if output.suffix == ".npy" else _parquet
    try:
        with sole_writer(lock_of(output), f"--output={output}"):
            remove_left_beside(output)
            unfinished = None
            try:
                with held():  # it is made and known, or neither
                    unfinished = new_beside(output)
                with make(unfinished, vectors, features) as write:
                    yield write
                share(unfinished)
                os.replace(unfinished, output)
            finally:
                if unfinished is not None:
                    unfinished.unlink(missing_ok=True)
    except BertFlowError:
        raise
    except OSError as error:
        raise WorkdirError(f"--output={output} cannot be written: {refusal(error)}") from error


@contextlib.contextmanager
def _npy(path: Path, vectors: VectorFile, features: int) -> Iterator[Write]:
    shape = (vectors.rows, features)
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        # A full disk is an error here, before the work.
        os.posix_fallocate(file.fileno(), file.tell(), 4 * shape[0] * shape[1])
        yield lambda block, rows: _write_rows(file, rows)


def _write_rows(file: Any, rows: NDArray[np.float32]) -> None:
    file.write(np.ascontiguousarray(rows, "<f4").data)


@contextlib.contextmanager
def _parquet(path: Path, vectors: VectorFile, features: int) -> Iterator[Write]:
    parquet = import_pyarrow_parquet()
    import pyarrow

    kind = pyarrow.list_(pyarrow.float32(), features)
    schema, column = getattr(vectors, "schema", None), getattr(vectors, "column", "vector")
    if schema is None:
        schema = pyarrow.schema([("id", pyarrow.int64()), (column, kind)])
    else:
        # Other metadata than pandas' may state the old length of the vectors.
        kept = {key: v for key, v in (schema.metadata or {}).items() if key == b"pandas"}
        place = schema.get_field_index(column)
        schema = schema.set(place, pyarrow.field(column, kind)).with_metadata(kept or None)

    def write(block: Block, rows: NDArray[np.float32]) -> None:
        new = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows.reshape(-1)), features)
        if block.table is None:
            columns = [pyarrow.array(np.arange(block.first, block.first + len(rows))), new]
        else:
            columns = list(block.table.columns)
            columns[schema.get_field_index(column)] = new
        writer.write_batch(pyarrow.record_batch(columns, schema=schema))

    try:
        with parquet.ParquetWriter(path, schema) as writer:
            yield write
    except pyarrow.ArrowException as error:
        raise WorkdirError(f"{path} cannot be written: {refusal(error)}") from error
