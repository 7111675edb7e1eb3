"""Text without labels for fitting a flow: plain text, TSV or CSV columns, the text of STS sets."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.config import DataConfig
from bertflow_jax.data import sts_files, sts_years
from bertflow_jax.data.file_names import text_format, unpacked_name
from bertflow_jax.data.glue import BINARY_TASKS, glue_source
from bertflow_jax.data.glue_files import SPLITS
from bertflow_jax.data.lines import digest
from bertflow_jax.data.nli import GOLD_NAMES
from bertflow_jax.data.pair_files import PairColumns, file_format, read_pairs
from bertflow_jax.data.sts import EVERYDAY
from bertflow_jax.data.text_files import Example, read_csv, read_text, read_tsv
from bertflow_jax.data.texts import tell_of_empty
from bertflow_jax.data.tfds_builders import reader, tfds_folder
from bertflow_jax.errors import ConfigError, DataError, DataNotFoundError
from bertflow_jax.paths import user_path


@dataclasses.dataclass(frozen=True)
class TextCorpus:
    """Sentences to fit on; there is no place for a label in it.

    Attributes:
      examples: 1-tuples (single sentences) or 2-tuples (pairs), in file order, repeats kept.
      manifest: JSON-safe description of which texts these are: `path`, `format`, where they have
        them `columns`, `task`, `splits` and `subsets`; `examples`, `sentences`,
        `unique_sentences` (counts), `sha256` (of the examples), `unlabelled_pairs_included`
        (whether candidate pairs without a gold score are among them; null where the source has
        no such notion) and `blank_lines_skipped`.
    """

    examples: list[Example]
    manifest: dict[str, Any]

    def numbered(self) -> tuple[list[str], NDArray[np.int32]]:
        """Return the U distinct sentences, first one first, and the examples as int32[N, S]."""
        numbers: dict[str, int] = {}
        rows = [[numbers.setdefault(text, len(numbers)) for text in ex] for ex in self.examples]
        return list(numbers), np.asarray(rows, np.int32)


def load_text(config: DataConfig) -> TextCorpus:
    """Read the text a flow is fitted on.

    Sources, by `config.path` and `config.format`:
      `everyday`: the bundled corpus, both sentences of every pair.
      text: one sentence a line (`.gz` too); blank lines are skipped and counted. By its name a
        file is text that ends in `.txt` or has no extension; any other needs `config.format`.
      tsv, csv: the one or two `config.columns` (names, with a header in the first line, or
        0-based numbers, without one). TSV has no quoting: quotes are text. CSV has the usual one.
      sts: a folder; all pairs of `config.task` in `config.splits`. Gold files are never opened:
        STS 2016 gives all 9,183 candidate pairs, as in the released BERT-flow code, although only
        1,186 of them are scored.
      pairs: the sentences of labelled pairs, as of SNLI and MultiNLI.
        The tasks qnli, mrpc and qqp are read from GLUE's folders.
      tfds:DIR: the same pairs from data prepared by `data.tfds_builders`; labels stay undecoded.

    Raises:
      DataError, DataNotFoundError: naming file, line and what to do; also for an empty source or
        one with a single distinct sentence.
      ConfigError: the fields of `config` contradict each other.
    """
    if config.path == "everyday":
        examples, details = _everyday(config)
    elif (prepared := tfds_folder(config.path, "data.path")) is not None:
        examples, details = _read_tfds(prepared, config)
    elif config.format == "pairs":
        examples, details = _read_pairs(config)
    else:
        path = user_path(config.path, "data.path")
        if not os.path.exists(path):
            raise DataNotFoundError(f"data.path={config.path}: no such file or folder")
        kind = _format(path, config.format)
        examples, details = _READERS[kind](path, config)
        details = {"format": kind, **details}
    # Only an example without any text is dropped: one blank side of a pair is what the file says.
    kept = [example for example in examples if any(text.strip() for text in example)]
    blank = len(examples) - len(kept) + details.pop("blank_lines", 0)
    texts = {text for example in kept for text in example}
    if len(texts) < 2:
        held = "one distinct sentence" if texts else "empty"
        raise DataError(
            f"data.path={config.path} is {held} ({blank} blank line(s)); a flow needs at least two "
            "different sentences"
        )
    tell_of_empty(f"data.path={config.path}", [text for example in kept for text in example])
    manifest = {
        "path": config.path,
        "unlabelled_pairs_included": None,
        **details,
        "examples": len(kept),
        "sentences": sum(len(example) for example in kept),
        "unique_sentences": len(texts),
        "sha256": digest(kept),
        "blank_lines_skipped": blank,
    }
    return TextCorpus(kept, manifest)


def text_splits(task: str, asked: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the splits whose text a task is fitted on: those asked for, where it has several.

    A year has its test text alone, whatever is asked for; nothing asked for takes all.
    """
    known = SPLITS if task in BINARY_TASKS else sts_files.task_splits(task)
    return tuple(asked) if asked and len(known) > 1 else known


def _format(path: Path, asked: str) -> str:
    if path.is_dir() != (asked == "sts") and asked != "auto":
        what = "a folder" if path.is_dir() else "a file"
        raise ConfigError(
            f"data.format={asked} but data.path={path} is {what}; sts needs a folder, every other "
            "format a file"
        )
    if asked != "auto":
        return asked
    if path.is_dir():
        return "sts"
    kind = {"txt": "text", "tsv": "tsv", "csv": "csv"}.get(text_format(path) or "")
    if kind is None:
        raise ConfigError(
            f"data.path={path}: {unpacked_name(path).suffix} files are not read "
            "for training; write one sentence a line into a .txt, or a table (.tsv, .csv). Where "
            "the lines of this file are sentences, set data.format=text"
        )
    return kind


def _everyday(config: DataConfig) -> tuple[list[Example], dict[str, Any]]:
    if config.columns or config.format not in ("auto", "tsv"):
        raise ConfigError(
            "data.path=everyday is the bundled corpus: leave data.columns and data.format unset "
            "(write ./everyday for a file of that name)"
        )
    sentences = dataclasses.replace(config, columns="sentence1,sentence2", encoding="utf-8")
    examples, details = read_tsv(EVERYDAY, sentences)
    return examples, {"format": "tsv", **details}


def _read_sts(path: Path, config: DataConfig) -> tuple[list[Example], dict[str, Any]]:
    task = config.task
    if task in BINARY_TASKS:
        return _read_glue(config)
    folder = sts_files.task_folder(path, task)
    splits = _splits(config)
    sts_files.check_splits(task, splits, "data.splits")
    details: dict[str, Any] = {"task": task, "splits": splits, "unlabelled_pairs_included": True}
    examples: list[Example] = []
    if task in sts_files.STS_YEARS:
        details["subsets"] = sts_years.subset_names(folder, smt=False)
        for subset in details["subsets"]:
            examples += sts_years.read_year_sentences(folder, subset, config.encoding)
        return examples, details
    read = sts_files.read_stsb_rows if task == "stsb" else sts_files.read_sick_rows
    for split in splits:
        rows = read(folder, split, config.encoding)
        examples += [(row.sentence1, row.sentence2) for row in rows]
    return examples, details


def _read_pairs(config: DataConfig) -> tuple[list[Example], dict[str, Any]]:
    names = tuple(name.strip() for name in config.columns.split(",") if name.strip())
    if len(names) not in (0, 2):
        raise ConfigError(f"data.columns={config.columns!r}: name both columns of the pairs")
    examples: list[Example] = []
    for part in config.path.split(","):
        path = user_path(part.strip(), "data.path")
        kind = file_format(path)
        if not path.is_file():
            raise DataNotFoundError(f"data.path={part}: no such file of pairs")
        if kind is None:
            raise ConfigError(
                f"data.path={part}: a file of pairs is named .jsonl, .tsv, .txt or .csv; rename it"
            )
        wanted = PairColumns(names, "", GOLD_NAMES, field="data.")
        rows = read_pairs(path, kind, wanted, config.encoding)
        examples += [(row.sentence1, row.sentence2) for row in rows]
    return examples, {"format": "pairs"}


def _read_glue(config: DataConfig) -> tuple[list[Example], dict[str, Any]]:
    splits = _splits(config)
    sts_files.check_splits(config.task, splits, "data.splits")
    source = glue_source(config.task, config.path, config.encoding, "data.path")
    rows = [row for split in splits for row in source.read(split).rows]
    details = {"task": config.task, "splits": splits, "unlabelled_pairs_included": True}
    return [(row.sentence1, row.sentence2) for row in rows], details


def _splits(config: DataConfig) -> list[str]:
    return [split.strip() for split in config.splits.split(",") if split.strip()]


def _read_tfds(folder: Path, config: DataConfig) -> tuple[list[Example], dict[str, Any]]:
    if config.columns or config.format not in ("auto", "sts"):
        raise ConfigError(
            f"data.path={config.path} is prepared STS data: leave data.columns and data.format "
            "unset"
        )
    if config.task in BINARY_TASKS:
        examples, found = _read_glue(config)
        return examples, {"format": "tfds", **found}
    splits = _splits(config)
    pairs = reader.read_sentences(folder, config.task, splits, "data.splits")
    details: dict[str, Any] = {
        "format": "tfds",
        "task": config.task,
        "splits": splits,
        "unlabelled_pairs_included": True,
    }
    if config.task in sts_files.STS_YEARS:
        details["subsets"] = list(pairs)
    return [pair for subset in pairs.values() for pair in subset], details


_READERS = {"text": read_text, "tsv": read_tsv, "csv": read_csv, "sts": _read_sts}
