"""What a job leaves on disk: pieces while it runs, one file of vectors an input file at the end.

    OUTPUT/NAME.parquet               the rows of input NAME.parquet, in their order
    OUTPUT/_manifest.json             what the vectors are made of, and of which inputs
    OUTPUT/_pieces/NAME.parquet/      rows START to STOP as START-STOP.piece, until NAME is complete

Everything is written under a temporary name and moved to its own, carries what it is made of in its
metadata, and is named by its rows. So a piece that two workers write (the first one died late) is
one piece, and what a killed job leaves is either whole or not there. An output is put together from
pieces that cover the rows of its input once each.
"""

import contextlib
import dataclasses
import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from bertflow_jax.data.parquet_rows import import_pyarrow_parquet
from bertflow_jax.errors import WorkdirError, refusal
from bertflow_jax.integrations.ray_inputs import InputFile, Place

MANIFEST = "_manifest.json"
PIECES = "_pieces"
_STAMP = b"bertflow_jax"
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}")
_PIECE = re.compile(r"(\d+)-(\d+)\.piece")


@dataclasses.dataclass(frozen=True)
class Piece:
    """Rows of one input with their vectors, written.

    Attributes:
      start: first row.
      stop: row after the last one.
      path: of the file.
    """

    start: int
    stop: int
    path: str


@dataclasses.dataclass(frozen=True)
class Store:
    """The output folder of one job; it can be sent to workers.

    Attributes:
      place: of the folder.
      made_by: encoder and settings, the same for all vectors.
      vectors: name of their column.
    """

    place: Place
    made_by: dict[str, Any]
    vectors: str

    def output(self, file: InputFile) -> str:
        """Return the path of an input's vectors."""
        return f"{self.place.path}/{file.name}"

    def folder(self, file: InputFile) -> str:
        """Return the folder of an input's pieces."""
        return f"{self.place.path}/{PIECES}/{file.name}"

    def stamp(self, file: InputFile) -> bytes:
        """Return what a file of vectors carries: equal means that it may be taken as it is."""
        content = json.dumps([self.made_by, file.identity()], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest().encode()

    def is_complete(self, file: InputFile) -> bool:
        """Whether the output of an input is there, of this job and of the file as it is now."""
        return self._rows(self.output(file), file) == file.rows

    def _rows(self, path: str, file: InputFile) -> int | None:
        """Return the rows of a file of ours, None for one that is not there or of another job."""
        import pyarrow

        try:
            with (
                self.place.filesystem.open_input_file(path) as opened,
                import_pyarrow_parquet().ParquetFile(opened) as found,
            ):
                stamped = (found.schema_arrow.metadata or {}).get(_STAMP)
                return found.metadata.num_rows if stamped == self.stamp(file) else None
        except (pyarrow.ArrowException, OSError):
            return None

    def pieces(self, file: InputFile) -> list[Piece]:
        """Return the pieces of an input that can be used, in order and none twice.

        What cannot be used (of another job, damaged, below another piece) is deleted. Raises
        WorkdirError where the folder cannot be read or the piece not be deleted.
        """
        from pyarrow import fs

        selector = fs.FileSelector(self.folder(file), allow_not_found=True)
        named, kept = [], list[Piece]()
        with _told(self.folder(file)):
            for info in self.place.filesystem.get_file_info(selector):
                found = _PIECE.fullmatch(info.base_name)
                if found is not None:
                    named.append(Piece(int(found[1]), int(found[2]), info.path))
            for piece in sorted(named, key=lambda piece: (piece.start, -piece.stop)):
                fits = piece.start >= (kept[-1].stop if kept else 0)
                if fits and self._rows(piece.path, file) == piece.stop - piece.start:
                    kept.append(piece)
                else:
                    self.place.filesystem.delete_file(piece.path)
        return kept

    def write_piece(self, file: InputFile, start: int, table: Any) -> None:
        """Write the rows from `start` on, with their vectors.

        Raises:
          WorkdirError: it cannot be written.
        """
        path = f"{self.folder(file)}/{start:012d}-{start + table.num_rows:012d}.piece"
        self._write(path, file, [table], table.schema)

    def finish(self, file: InputFile, empty: Any) -> None:
        """Put the output of an input together; its pieces go.

        Args:
          file: all of its rows are in pieces.
          empty: a pyarrow.Table without rows, for a file that has none.

        Raises:
          WorkdirError: rows are missing, or it cannot be written.
        """
        if self.is_complete(file):
            return  # the one before was killed while it deleted the pieces
        pieces = self.pieces(file)
        missing = gaps(pieces, file.rows)
        if missing:
            raise WorkdirError(
                f"{self.output(file)}: the pieces of rows {missing[0][0]} to {missing[0][1] - 1} "
                "are gone; start the job again"
            )
        if not pieces:
            self._write(self.output(file), file, [], empty.schema)
            return
        parquet = import_pyarrow_parquet()
        with _told(self.folder(file)):
            with self.place.filesystem.open_input_file(pieces[0].path) as opened:
                schema = parquet.read_schema(opened)
            self._write(self.output(file), file, self._tables(pieces), schema)
            self.place.filesystem.delete_dir(self.folder(file))

    def _tables(self, pieces: list[Piece]) -> Iterable[Any]:
        for piece in pieces:
            with self.place.filesystem.open_input_file(piece.path) as opened:
                yield import_pyarrow_parquet().read_table(opened)

    def _write(self, path: str, file: InputFile, tables: Iterable[Any], schema: Any) -> None:
        import pyarrow

        filesystem = self.place.filesystem
        schema = schema.with_metadata({**(schema.metadata or {}), _STAMP: self.stamp(file)})
        folder, _, name = path.rpartition("/")
        temporary = f"{folder}/.{name}.{uuid.uuid4().hex}"
        try:
            filesystem.create_dir(folder)
            with filesystem.open_output_stream(temporary) as sink:
                # Vectors do not repeat: a dictionary of them would be made for nothing.
                plain = [field.name for field in schema if field.name != self.vectors]
                writer = import_pyarrow_parquet().ParquetWriter(sink, schema, use_dictionary=plain)
                with writer:
                    for table in tables:
                        writer.write_table(table.cast(schema))
            filesystem.move(temporary, path)
        except (pyarrow.ArrowException, OSError) as error:
            raise WorkdirError(f"{path} cannot be written: {refusal(error)}") from error

    def clear(self) -> None:
        """Delete the folder of pieces, once none is needed, and what killed writers left.

        Raises:
          WorkdirError: something cannot be deleted.
        """
        from pyarrow import fs

        folder = f"{self.place.path}/{PIECES}"
        with _told(folder):
            remove_temporaries(self.place)
            if self.place.filesystem.get_file_info(folder).type == fs.FileType.Directory:
                self.place.filesystem.delete_dir(folder)


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    """Raise what pyarrow says of a folder of pieces as a WorkdirError."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        raise WorkdirError(
            f"{path} cannot be read or cleared: {refusal(error)}; mend that, or name a new output"
        ) from error


def remove_temporaries(place: Place) -> None:
    """Delete what writers that were killed have left below an output folder."""
    from pyarrow import fs

    selector = fs.FileSelector(place.path, allow_not_found=True, recursive=True)
    for info in place.filesystem.get_file_info(selector):
        if info.type == fs.FileType.File and _TEMPORARY.fullmatch(info.base_name):
            place.filesystem.delete_file(info.path)


def gaps(pieces: list[Piece], rows: int) -> list[tuple[int, int]]:
    """Return the ranges of rows that no piece holds; the pieces are in order, none twice."""
    found, at = [], 0
    for piece in pieces:
        if piece.start > at:
            found.append((at, piece.start))
        at = piece.stop
    if at < rows:
        found.append((at, rows))
    return found
