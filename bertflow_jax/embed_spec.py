"""What an embedding job is: its input, its output, its settings, and which of them cannot be."""

import dataclasses
import os
import re
from pathlib import Path

from bertflow_jax.checks import check_choice, check_count, check_switch
from bertflow_jax.data.parquet_rows import check_parquet_output
from bertflow_jax.data.rows import RowFile
from bertflow_jax.data.tokens import OVERFLOW
from bertflow_jax.embed_index import index_is_ours
from bertflow_jax.embed_partial import partial_folder, refuse_others_files
from bertflow_jax.embed_parts import INDEX
from bertflow_jax.errors import ConfigError, InputError, WorkdirError, shown
from bertflow_jax.output_locks import LOCK, lock_of, refuse_foreign_lock
from bertflow_jax.output_places import output_folder, refuse_link
from bertflow_jax.paths import file_kind, output_path

# What a job writes into a folder of parts, temporary files and locks too.
_OURS = re.compile(rf"\.?(part-\d+-of-\d+\.(npy|json)|{re.escape(INDEX)})(\..*)?|\{LOCK}")
_PART = re.compile(r"part-\d+-of-\d+\.(npy|json)")
_PART_LOCK = re.compile(rf"\.part-\d+-of-\d+\.npy\{LOCK}")
# Who gives such a name does not mean a folder.
_OTHER_FILES = (".npz", ".csv", ".tsv", ".txt", ".json", ".jsonl", ".gz", ".pt", ".h5", ".arrow")


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

    def __post_init__(self) -> None:
        """Raise a BertFlowError for what is no input or no path; an output may be a str too."""
        if not isinstance(self.rows, RowFile):
            raise InputError(f"rows={shown(self.rows)}: must be what open_rows returns")
        if not str(self.output).strip():
            raise ConfigError("--output is blank; name a .npy or .parquet file, or a folder")
        object.__setattr__(self, "output", output_path(self.output, "--output"))

    @property
    def in_parts(self) -> bool:
        """Whether the output is a folder."""
        return self.output.suffix not in (".npy", ".parquet")

    def check(self) -> None:
        """Raise a BertFlowError before anything is loaded."""
        check_count(self.shard_rows, "shard_rows", 0)
        check_switch(self.normalize, "normalize")
        check_choice("on_overflow", self.on_overflow, OVERFLOW)
        if self.batch_size is not None:
            check_count(self.batch_size, "batch_size", 1)
        check_count(self.processes, "processes", 1)
        if check_count(self.process, "process", 0) >= self.processes:
            raise ConfigError(
                f"process={self.process}: they are numbered from 0, and processes={self.processes}"
            )
        if self.processes > 1 and not self.in_parts:
            raise ConfigError(
                f"--output={self.output}: {self.processes} processes need a folder, where each "
                "writes its own parts"
            )
        if self.shard_rows and not self.in_parts:
            raise ConfigError("--shard_rows is for a folder as --output")
        if self.output.suffix == ".parquet":
            check_parquet_output(self.output, "--output")
        elif self.rows.id_column:
            raise ConfigError(
                f"--id_column: only a .parquet output has room for ids, not {self.output}; without "
                "it a vector is known by its row"
            )
        if self.output.suffix.lower() in _OTHER_FILES:
            raise ConfigError(
                f"--output={self.output}: vectors go into .npy or .parquet, or into a folder"
            )
        found = file_kind(self.output)
        if found in ("file", "other") if self.in_parts else found == "folder":
            raise WorkdirError(
                f"--output={self.output} is a {'file' if self.in_parts else 'folder'}; a name "
                "ending in .npy or .parquet is a file, any other a folder of parts"
            )
        output_folder(self.output if self.in_parts else self.output.absolute().parent, "--output")
        if not self.in_parts:
            partial = file_kind(partial_folder(self.output))
            if partial not in ("folder", "file", "other", "absent"):
                raise WorkdirError(
                    f"--output={self.output}: {partial} (.partial is put behind it while it is "
                    "written); choose another name"
                )
        self._check_input_stays()
        self._check_replaced()
        if self.in_parts and not index_is_ours(self.output):
            raise WorkdirError(
                f"--output={self.output}: {self.output / INDEX} is not an index of ours; name "
                "another folder, or move it away"
            )

    def _check_replaced(self) -> None:
        """Raise WorkdirError where what is to be replaced is a link, or not ours."""
        given = f"--output={self.output}"
        if not self.in_parts:
            refuse_link(self.output, given)
            refuse_others_files(self.output)
            refuse_foreign_lock(lock_of(self.output), given)
            return
        for path in sorted(self.output.iterdir()):
            if path.name == LOCK or _PART_LOCK.fullmatch(path.name):
                refuse_foreign_lock(path, given)
            if path.name == INDEX or _PART.fullmatch(path.name):
                refuse_link(path, f"{given}: {path.name}")

    def _check_input_stays(self) -> None:
        """Raise ConfigError where the input would be overwritten."""
        name = self.output.name
        if self.in_parts:
            folder, ours = self.output, _OURS
        else:
            folder = self.output.parent
            ours = re.compile(rf"{re.escape(name)}|\.{re.escape(name)}\.(lock|partial)")
        folder = Path(os.path.realpath(folder))
        # Where the input lies, and where its name does if that is a link.
        path = self.rows.path
        places = [Path(os.path.realpath(path)), Path(os.path.realpath(path.parent)) / path.name]
        for place in places:
            inside = place.relative_to(folder).parts if place.is_relative_to(folder) else ("",)
            if ours.fullmatch(inside[0]) or _same_file(path, self.output):
                raise ConfigError(
                    f"--output={self.output} would overwrite --input={path}; name another output"
                )


def _same_file(path: Path, other: Path) -> bool:
    return os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)
