"""Parquet files of a job: which ones, how many rows, and how to tell that one has changed.

Paths are those of a pyarrow filesystem, so that gs:// and s3:// work like a folder; every machine
of the cluster must see them.
"""

import dataclasses
import fnmatch
import hashlib
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from bertflow_jax.data.columns import shown
from bertflow_jax.data.parquet_rows import import_pyarrow_parquet, open_parquet, unreadable
from bertflow_jax.errors import ConfigError, DataError, DataNotFoundError
from bertflow_jax.integrations.ray_links import check_links
from bertflow_jax.paths import is_utf8, user_path

_GLOB = re.compile(r"[*?\[]")
_THREADS = 16  # footers that are read at once: in a bucket, reading one is mostly waiting
_MAGIC = 8  # bytes at the end of a Parquet file: the length of the footer and PAR1
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Place:
    """A path and the filesystem it is of.

    Attributes:
      filesystem: a pyarrow.fs.FileSystem; it can be pickled.
      path: on it.
      given: as the user wrote it, for messages.
    """

    filesystem: Any
    path: str
    given: str

    @property
    def is_local(self) -> bool:
        """Whether it is on a filesystem of this machine."""
        return self.filesystem.type_name == "local"


@dataclasses.dataclass(frozen=True)
class InputFile:
    """One Parquet file.

    Attributes:
      path: on the filesystem of the input.
      name: relative to the folder that all inputs are below; its output has the same.
      rows: how many.
      size: in bytes.
      modified: time of its last change, in nanoseconds.
      footer: sha256 of the Parquet footer, which holds the place and statistics of every column.
    """

    path: str
    name: str
    rows: int
    size: int
    modified: int
    footer: str

    def identity(self) -> dict[str, Any]:
        """Return what is compared to tell whether vectors are of this file (JSON-safe)."""
        fields = dataclasses.asdict(self)
        del fields["path"]
        return fields


def open_place(given: str, flag: str) -> Place:
    """Return the place a user means: a path of this machine, or SCHEME://...

    Raises:
      ConfigError: an unknown scheme, a filesystem that cannot be set up, or a path that is not
        UTF-8.
    """
    import_pyarrow_parquet()
    import pyarrow
    from pyarrow import fs

    if "://" not in given:
        local = os.path.abspath(user_path(given, flag))
        if not is_utf8(local):
            raise ConfigError(
                f"{flag}={given}: the path {local} is not valid UTF-8, and Arrow knows no other; "
                "rename it"
            )
        return Place(fs.LocalFileSystem(), local, given)
    address, _, query = given.partition("?")  # as ?region=... of S3
    folder, rest = split_glob(address)
    try:
        filesystem, path = fs.FileSystem.from_uri(folder + (f"?{query}" if query else ""))
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise ConfigError(f"{flag}={given} cannot be opened: {error}") from error
    return Place(filesystem, path.rstrip("/") + rest, given)


def split_glob(path: str) -> tuple[str, str]:
    """Return (the folder before the first part with *, ? or [, the rest with its slash)."""
    found = _GLOB.search(path)
    if found is None:
        return path, ""
    slash = path.rfind("/", 0, found.start())
    return path[:slash], path[slash:]


def find_inputs(place: Place) -> tuple[list[InputFile], Any]:
    """Return the files of a folder, a glob or a name, ordered by name, and their common schema.

    In a folder those are meant whose name ends in .parquet, in all folders below it too; names that
    start with _ or . are left out, as Spark and Arrow do.

    Raises:
      DataNotFoundError: there are none.
      DataError: one is no Parquet, or has other columns than the first.
    """
    root, found = _listed(place)
    if not found:
        raise DataNotFoundError(f"--input={place.given}: no .parquet files there")
    with ThreadPoolExecutor(_THREADS) as threads:
        read = list(threads.map(lambda info: _read_footer(place.filesystem, root, info), found))
    first, schema = read[0]
    for file, other in read[1:]:
        if not other.equals(schema):
            raise DataError(
                f"{file.path} has other columns ({_columns(other)}) than {first.path} "
                f"({_columns(schema)}); embed files of one layout at a time"
            )
    return [file for file, _ in read], schema


def _columns(schema: Any) -> str:
    return shown([f"{field.name}: {field.type}" for field in schema])


def _listed(place: Place) -> tuple[str, list[Any]]:
    """Return the folder that the names are relative to, and the files' pyarrow.fs.FileInfo."""
    from pyarrow import fs

    root, rest = split_glob(place.path)
    if not rest:
        info = reach(place, lambda: place.filesystem.get_file_info(place.path))
        if info.type == fs.FileType.File:
            return os.path.dirname(place.path), [info]
    recursive = not rest or "/" in rest[1:]

    def meant(path: str) -> bool:
        parts = os.path.relpath(path, root or "/").split("/")
        if any(part.startswith(("_", ".")) for part in parts):
            return False
        return _matches(parts, rest[1:].split("/")) if rest else path.lower().endswith(".parquet")

    if place.is_local:
        check_links(root or "/", meant, recursive)
    selector = fs.FileSelector(root or "/", allow_not_found=True, recursive=recursive)
    infos = reach(place, lambda: place.filesystem.get_file_info(selector))
    files = [info for info in infos if info.type == fs.FileType.File]
    kept = [info for info in files if _has_text_path(info) and meant(info.path)]
    return root or "/", sorted(kept, key=lambda info: info.path)


def _has_text_path(info: Any) -> bool:
    """Whether pyarrow can say a file's path; `check_links` has seen that no other is an input."""
    try:
        return bool(info.path)
    except UnicodeDecodeError:
        return False


def _matches(parts: list[str], globs: list[str]) -> bool:
    """Whether a path is meant by a glob, part by part; ** stands for any number of folders."""
    if not globs or not parts:
        return not parts and globs in ([], ["**"])
    if globs[0] == "**":
        return _matches(parts, globs[1:]) or _matches(parts[1:], globs)
    return fnmatch.fnmatchcase(parts[0], globs[0]) and _matches(parts[1:], globs[1:])


def _read_footer(filesystem: Any, root: str, info: Any) -> tuple[InputFile, Any]:
    import_pyarrow_parquet()
    import pyarrow

    try:
        with filesystem.open_input_file(info.path) as file:
            with open_parquet(file, info.path) as opened:
                rows, schema = opened.metadata.num_rows, opened.schema_arrow
            footer = _footer_bytes(filesystem, info)
    except (pyarrow.ArrowException, OSError) as error:
        raise unreadable(info.path, error) from error
    name = os.path.relpath(info.path, root)
    digest = hashlib.sha256(footer).hexdigest()
    return InputFile(info.path, name, rows, info.size, info.mtime_ns or 0, digest), schema


def _footer_bytes(filesystem: Any, info: Any) -> bytes:
    with filesystem.open_input_file(info.path) as file:
        length = int.from_bytes(file.read_at(_MAGIC, info.size - _MAGIC)[:4], "little")
        return file.read_at(length + _MAGIC, info.size - length - _MAGIC)


def reach(place: Place, call: Callable[[], T]) -> T:
    """Return call(); raises DataError naming the place where its filesystem refuses."""
    import pyarrow

    try:
        return call()
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{place.given} cannot be reached: {error}") from error


def read_rows(filesystem: Any, path: str, columns: list[str], start: int, stop: int) -> Any:
    """Return rows start to stop of a file as a pyarrow.Table.

    Raises:
      DataError: the file cannot be read, or has fewer rows.
    """
    import_pyarrow_parquet()
    import pyarrow

    try:
        with (
            filesystem.open_input_file(path) as file,
            open_parquet(file, path, pre_buffer=True) as opened,
        ):
            groups, skipped = _row_groups(opened.metadata, start, stop)
            rows, left = [], stop - start
            for batch in opened.iter_batches(row_groups=groups, columns=columns):
                part = batch.slice(min(skipped, batch.num_rows), left)
                skipped = max(0, skipped - batch.num_rows)
                left -= part.num_rows
                rows.append(part)
                if not left:
                    break
    except (pyarrow.ArrowException, OSError) as error:
        raise unreadable(path, error) from error
    if left:
        raise DataError(f"{path} changed while it was read: {left} rows up to {stop} are missing")
    return pyarrow.Table.from_batches(rows).select(columns)


def _row_groups(metadata: Any, start: int, stop: int) -> tuple[list[int], int]:
    """Return the row groups that hold rows start to stop, and how many of their rows to skip."""
    groups, first, at = [], None, 0
    for number in range(metadata.num_row_groups):
        after = at + metadata.row_group(number).num_rows
        if after > start and at < stop:
            groups.append(number)
            first = at if first is None else first
        at = after
    return groups, start - (first or 0)
