"""Where GLUE's sentence-pair sets lie on disk and how their rows are written.

GLUE (Wang et al., 2019) has one folder a set, with `train.tsv`, `dev.tsv` and `test.tsv`: a header,
one pair a line, no quoting (quotes are text). MRPC is also read as Microsoft Research published it,
`msr_paraphrase_train.txt` and `msr_paraphrase_test.txt`. This module reads rows of strings;
`data.glue` turns the label column into labels.
"""

import dataclasses
import os
from pathlib import Path

from bertflow_jax.data import columns
from bertflow_jax.data.lines import iter_lines, read_lines
from bertflow_jax.data.sts_files import Row
from bertflow_jax.errors import DataError, DataNotFoundError

SPLITS = ("train", "dev", "test")
_MSR_FILES = {"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"}
# The official QQP holds a few dozen lines with too few columns among its 400,000, where a line end
# inside a question cut a row in two. More than this share of a file is a file of another layout.
_MAX_BROKEN_SHARE = 1e-3
_MAX_BROKEN_SMALL = 10


@dataclasses.dataclass(frozen=True)
class Layout:
    """How one set is written.

    Attributes:
      folder: its name.
      first: header of the first sentence's column.
      second: header of the second sentence's column.
      gold: header of the label's or score's column; absent where a split has none.
      broken_lines: whether the official release has lines with a wrong number of columns, which
        are then skipped and counted; elsewhere such a line is an error.
    """

    folder: str
    first: str
    second: str
    gold: str
    broken_lines: bool = False


LAYOUTS = {
    "stsb": Layout("STS-B", "sentence1", "sentence2", "score"),
    "qnli": Layout("QNLI", "question", "sentence", "label"),
    "mrpc": Layout("MRPC", "#1 String", "#2 String", "Quality"),
    "qqp": Layout("QQP", "question1", "question2", "is_duplicate", broken_lines=True),
}


@dataclasses.dataclass(frozen=True)
class GlueRows:
    """The rows of one split.

    Attributes:
      place: the file, or whatever a message about the split should name.
      rows: in file order; `gold` is "" in a split that has no such column.
      broken: numbers of the lines that were skipped for their number of columns.
    """

    place: str
    rows: list[Row]
    broken: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class GlueFolder:
    """One set in GLUE's files.

    Attributes:
      task: a key of `LAYOUTS`.
      folder: that holds the set's files.
      encoding: of the files.
    """

    task: str
    folder: Path
    encoding: str = "utf-8"

    @property
    def layout(self) -> Layout:
        """How the set is written."""
        return LAYOUTS[self.task]

    def path(self, split: str) -> Path:
        """Return the file of a split; of MRPC's two the one that is there and has labels."""
        glue = self.folder / f"{split}.tsv"
        if self.task != "mrpc" or split not in _MSR_FILES:
            return glue
        original = self.folder / _MSR_FILES[split]
        if not original.exists() or (glue.exists() and self._has_gold(glue)):
            return glue
        return original

    def has_gold(self, split: str) -> bool:
        """Return whether a split is there and has a column of labels or scores."""
        path = self.path(split)
        return path.exists() and self._has_gold(path)

    def _has_gold(self, path: Path) -> bool:
        return self.layout.gold in next(iter_lines(path, self.encoding), "").split("\t")

    def read(self, split: str) -> GlueRows:
        """Return the rows of a split.

        Raises:
          DataNotFoundError: there is no such file.
          DataError: no header of this set, or a line with another number of columns than it (of
            QQP: more of them than the official release has).
        """
        path = self.path(split)
        lines = columns.tsv_rows(read_lines(path, self.encoding))
        _, header = next(lines, (1, [""]))
        first, second, gold = _columns(path, header, self.layout)
        rows, broken = [], []
        for number, fields in lines:
            if fields == [""]:
                continue
            if len(fields) != len(header) and self.layout.broken_lines:
                broken.append(number)
                continue
            columns.check_width(path, number, fields, header)
            label = "" if gold is None else fields[gold].strip()
            rows.append(Row(fields[first], fields[second], label, f"{path}, line {number}"))
        if len(broken) > max(_MAX_BROKEN_SMALL, _MAX_BROKEN_SHARE * len(rows)):
            raise DataError(
                f"{path}: {len(broken)} of {len(broken) + len(rows)} lines (first: line "
                f"{broken[0]}) have another number of columns than the header's {len(header)}; "
                "the official file has a few dozen such lines at most: download it again"
            )
        return GlueRows(str(path), rows, tuple(broken))


def _columns(path: Path, header: list[str], layout: Layout) -> tuple[int, int, int | None]:
    missing = [name for name in (layout.first, layout.second) if name not in header]
    if missing:
        raise DataError(
            f"{path}, line 1: no column {', '.join(missing)} among {columns.shown(header)}; the "
            f"first line must be {layout.folder}'s header, tab-separated, with {layout.first}, "
            f"{layout.second} and (where the split has labels) {layout.gold}"
        )
    gold = columns.place_of(path, layout.gold, header) if layout.gold in header else None
    first, second = (columns.place_of(path, n, header) for n in (layout.first, layout.second))
    return first, second, gold


def glue_folder(data_dir: Path, task: str, encoding: str = "utf-8") -> GlueFolder:
    """Return a set, given the folder that holds its folder, or that folder.

    Raises:
      DataNotFoundError: it is missing; the text says where it was looked for.
    """
    if not os.path.isdir(data_dir):
        raise DataNotFoundError(f"{data_dir}: no such folder of GLUE data; check the path")
    name = LAYOUTS[task].folder
    # The files of every set have the same names: a set's own folder is known by its name alone.
    candidates = [data_dir / name, *([data_dir] if data_dir.resolve().name == name else [])]
    for folder in candidates:
        if holds_files(folder):
            return GlueFolder(task, folder, encoding)
    raise DataNotFoundError(
        f"{data_dir} holds no data of {task} (looked for "
        f"{', '.join(str(folder / '*.tsv') for folder in candidates)}); give the folder that holds "
        "QNLI/, MRPC/ and QQP/ in GLUE's layout"
    )


def holds_files(folder: Path) -> bool:
    """Return whether a folder holds a split in GLUE's layout, or MRPC's own."""
    names = [f"{split}.tsv" for split in SPLITS] + list(_MSR_FILES.values())
    return any((folder / name).is_file() for name in names)
