"""The three stages of a job in Ray workers: rows of a file, their vectors, a piece of the output.

A row knows its file and its number in it, because Ray puts rows of several files into one batch and
hands batches on in any order.
"""

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from bertflow_jax.encoder_spec import EncoderSpec
from bertflow_jax.errors import BertFlowError, DataError, InputError
from bertflow_jax.integrations.ray_inputs import InputFile, read_rows
from bertflow_jax.integrations.ray_outputs import Store
from bertflow_jax.integrations.ray_worker import EmbedTable, describe, with_vectors

FILE, ROW = "_bertflow_file", "_bertflow_row"
CUT, EMPTY = "_bertflow_cut", "_bertflow_empty"
HIDDEN = (FILE, ROW, CUT, EMPTY)


class InWorker(Exception):
    """Carries an error of ours out of a worker whole: Ray adds its own text to others."""

    def __init__(self, error: BertFlowError, *added: object):
        """Take the error, and what Ray puts behind the arguments of an exception."""
        super().__init__(error, *added)
        self.error = error


@contextlib.contextmanager
def carried_out() -> Iterator[None]:
    """Raise an error of ours as InWorker."""
    try:
        yield
    except BertFlowError as error:
        raise InWorker(error) from error


def error_of(failed: BaseException) -> BertFlowError | None:
    """Return the error of ours that Ray tells of, None if it is another one."""
    seen: BaseException | None = failed
    while seen is not None:
        if isinstance(seen, InWorker):
            return seen.error
        inner = getattr(seen, "cause", None)
        seen = inner if isinstance(inner, BaseException) else seen.__cause__
    return None


def read_units(units: Any, filesystem: Any, columns: list[str]) -> Iterator[Any]:
    """Yield the rows of each unit with their file and row.

    Args:
      units: a pyarrow.Table with `path`, `name`, `start` and `stop` of rows of a file.
      filesystem: of the paths.
      columns: that are read.
    """
    import pyarrow

    for unit in units.to_pylist():
        start, stop = unit["start"], unit["stop"]
        with carried_out():
            table = read_rows(filesystem, unit["path"], columns, start, stop)
        table = table.cast(without_views(table.schema))
        names = pyarrow.repeat(pyarrow.scalar(unit["name"], pyarrow.string()), stop - start)
        table = table.append_column(FILE, names)
        yield table.append_column(ROW, pyarrow.array(np.arange(start, stop)))


def without_views(schema: Any) -> Any:
    """Return a pyarrow.Schema whose columns of string_view and binary_view are plain ones.

    Ray cannot send views from one process to another.
    """
    import pyarrow

    plain = {pyarrow.string_view(): pyarrow.string(), pyarrow.binary_view(): pyarrow.binary()}
    return pyarrow.schema(
        [field.with_type(plain.get(field.type, field.type)) for field in schema], schema.metadata
    )


class EmbedRows(EmbedTable):
    """Like `EmbedTable`, for rows that know where they are from; keeps the carried columns."""

    def __call__(self, table: Any) -> Any:
        """Return a pyarrow.Table with vectors; its first row has how many were cut and empty."""
        import pyarrow

        with carried_out():
            found = self.embed(table)
        for name, count in ((CUT, found.cut), (EMPTY, found.empty)):
            counts = np.zeros(table.num_rows, np.int32)
            counts[:1] = count
            table = table.append_column(name, pyarrow.array(counts))
        return with_vectors(table, found.vectors, self._settings.output_column)

    def _texts(self, table: Any) -> list[Any]:
        try:
            return super()._texts(table)
        except DataError as error:
            for name, start, part in runs(table):
                for row in range(part.num_rows):
                    try:
                        super()._texts(part.slice(row, 1))
                    except DataError:
                        raise DataError(f"{name}, row {start + row}: {error}") from error
            raise

    def placed(self, table: Any, error: InputError) -> BertFlowError:
        """Return the error with the file and the row in it."""
        on_overflow = "error" if self._settings.on_overflow == "error" else "ignore"
        for name, start, part in runs(table):
            texts = part.column(self._settings.column).to_pylist()
            try:
                for _ in self._encoder.encode_stream(
                    texts, self._settings.batch_size, on_overflow=on_overflow, first_row=start
                ):
                    pass
            except InputError as again:
                return InputError(f"{name}, column {self._settings.column!r}: {again}")
        return super().placed(table, error)


def runs(table: Any) -> Iterator[tuple[str, int, Any]]:
    """Yield (file, number of the first row, pyarrow.Table) for rows that follow one another."""
    if not table.num_rows:
        return
    rows = table.column(ROW).to_numpy()
    names = table.column(FILE).to_numpy()
    breaks = np.flatnonzero((np.diff(rows) != 1) | (names[1:] != names[:-1])) + 1
    bounds = [0, *breaks.tolist(), len(rows)]
    for start, stop in itertools.pairwise(bounds):
        yield str(names[start]), int(rows[start]), table.slice(start, stop - start)


def write_pieces(table: Any, store: Store, files: Mapping[str, InputFile], kept: list[str]) -> Any:
    """Write a piece for every run of rows; return a pyarrow.Table with a row a piece."""
    import pyarrow

    written = []
    for name, start, part in runs(table):
        with carried_out():
            store.write_piece(files[name], start, part.select(kept))
        cut, empty = (int(part.column(told).to_numpy().sum()) for told in (CUT, EMPTY))
        written.append({"name": name, "rows": part.num_rows, "cut": cut, "empty": empty})
    numbers = [(told, pyarrow.int64()) for told in ("rows", "cut", "empty")]
    return pyarrow.Table.from_pylist(
        written, pyarrow.schema([("name", pyarrow.string()), *numbers])
    )


def finish_file(store: Store, file: InputFile, empty: Any) -> str:
    """Put the output of an input together; returns its name."""
    with carried_out():
        store.finish(file, empty)
    return file.name


def describe_encoder(spec: EncoderSpec) -> dict[str, Any]:
    """Return what decides the vectors, and their length."""
    with carried_out():
        return describe(spec)
