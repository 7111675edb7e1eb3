"""Labelled pairs for training the encoder, as the config's section `supervision` names them."""

import dataclasses
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.data import nli, sts_files
from bertflow_jax.data.lines import digest
from bertflow_jax.data.nli_tfds import DATASETS, read_tfds_rows
from bertflow_jax.data.pair_files import PairColumns, file_format, has_split, read_pairs
from bertflow_jax.data.pair_scores import scaled_score, score_range
from bertflow_jax.data.sts import load_task
from bertflow_jax.data.sts_files import Row
from bertflow_jax.data.texts import tell_of_empty
from bertflow_jax.errors import ConfigError, DataError, DataNotFoundError
from bertflow_jax.paths import user_path
from bertflow_jax.supervision_config import SupervisionConfig, comma_separated

_SCORE_NAMES = ("score", "relatedness_score", "similarity_score", "label")


@dataclasses.dataclass(frozen=True)
class LabelledPairs:
    """Sentence pairs with what is to be learnt of them.

    Attributes:
      sentences1: N texts.
      sentences2: N texts.
      targets: int32[N] classes (indices into `nli.LABELS`), or float32[N] cosines: a score with its
        range mapped to [0, 1].
      manifest: JSON-safe description: `path`, `format`, `task`, `splits`, `pairs`, `sha256` and
        either `classes` and `without_gold` or `score_range`.
    """

    sentences1: list[str]
    sentences2: list[str]
    targets: NDArray[Any]
    manifest: dict[str, Any]

    def __len__(self) -> int:
        return len(self.sentences1)


@dataclasses.dataclass(frozen=True)
class _Source:
    """One source with its fields; `field` is the prefix of their names."""

    field: str
    paths: tuple[Path, ...]
    kind: str
    columns: tuple[str, ...]
    label_column: str
    task: str
    splits: tuple[str, ...]


def load_training_pairs(config: SupervisionConfig, loss: str) -> LabelledPairs:
    """Read the pairs to learn from.

    Args:
      config: the section `supervision`.
      loss: `siamese` (classes) or `regression` (scores).

    Raises:
      DataError, DataNotFoundError: naming file, line and what to do; no pair at all.
      ConfigError: fields that contradict each other.
    """
    return _load(config, _training_source(config), scores=loss == "regression")


def load_dev_pairs(config: SupervisionConfig, loss: str) -> tuple[LabelledPairs | None, str]:
    """Read the dev set and resolve its metric.

    Returns:
      (pairs, metric): metric is `spearman`, `accuracy` or `loss`; (None, "none") where none is
      asked for, or with `dev_metric=auto` where the source has no dev split.

    Raises:
      as `load_training_pairs`; ConfigError for accuracy of a regression, and for a metric without
      a dev set.
    """
    metric = config.dev_metric
    if metric == "accuracy" and loss == "regression":
        raise ConfigError("supervision.dev_metric=accuracy: regression has no classes")
    source = None if metric == "none" else _dev_source(config)
    if source is None:
        if metric not in ("none", "auto"):
            raise ConfigError(
                f"supervision.dev_metric={metric} needs a dev set: set supervision.dev_path"
            )
        return None, "none"
    if metric == "auto":
        scored = loss == "regression" or source.kind == "sts"
        metric = "spearman" if scored else "accuracy"
    scores = metric == "spearman" or loss == "regression"
    if not config.dev_label_column and scores == (loss == "regression"):
        source = dataclasses.replace(source, label_column=config.label_column)
    return _load(config, source, scores=scores), metric


def _training_source(config: SupervisionConfig) -> _Source:
    paths = _paths(config.path, "supervision.path")
    return _Source(
        "supervision.",
        paths,
        _kind(paths, config.format, config.task, "supervision."),
        tuple(comma_separated(config.columns)),
        config.label_column,
        config.task,
        tuple(comma_separated(config.splits)),
    )


def _dev_source(config: SupervisionConfig) -> _Source | None:
    field = "supervision.dev_"
    own = bool(config.dev_path.strip())
    paths = _paths(config.dev_path if own else config.path, "supervision.dev_path")
    asked = config.dev_format
    if asked == "auto" and not own:
        asked = config.format
    task = config.dev_task or config.task
    kind = _kind(paths, asked, task, field)
    splits = tuple(comma_separated(config.dev_splits))
    names = comma_separated(config.dev_columns or config.columns)
    if kind not in ("sts", "tfds"):
        given = [*names, config.dev_label_column or config.label_column]
        found = [has_split(path, kind, given, config.encoding) for path in paths]
        # A file without a column `split` is one split: all of it is trained on, or all is dev.
        if not own and not all(found):
            return None
        splits = splits if any(found) else ()
    if paths == (Path("everyday"),) and not own:
        return None
    return _Source(field, paths, kind, tuple(names), config.dev_label_column, task, splits)


def _paths(given: str, field: str) -> tuple[Path, ...]:
    if given.strip() == "everyday":
        return (Path("everyday"),)
    paths = tuple(user_path(part, field) for part in comma_separated(given))
    for path in paths:
        if not os.path.exists(path):
            raise DataNotFoundError(f"{field}={path}: no such file or folder")
    if not paths:
        raise ConfigError(f"{field}={given!r} names nothing")
    if len(paths) > 1 and any(path.is_dir() for path in paths):
        raise ConfigError(f"{field}={given}: several paths must be files; a folder stands alone")
    return paths


def _kind(paths: tuple[Path, ...], asked: str, task: str, field: str) -> str:
    """Return the format of a source: the one asked for, or what name and task say."""
    if paths == (Path("everyday"),):
        return "sts"
    folder = paths[0].is_dir()
    if asked != "auto":
        if folder != (asked in ("sts", "tfds")):
            raise ConfigError(
                f"{field}format={asked} but {field}path={paths[0]} is "
                f"{'a folder' if folder else 'a file'}; sts and tfds need a folder, every other "
                "format files"
            )
        return asked
    if folder:
        return "tfds" if set(comma_separated(task)) & set(DATASETS) else "sts"
    kinds = {file_format(path) for path in paths}
    if len(kinds) != 1 or None in kinds:
        raise ConfigError(
            f"{field}path={','.join(map(str, paths))}: the format is not known by the names; set "
            f"{field}format to tsv, csv or jsonl"
        )
    return str(kinds.pop())


def _load(config: SupervisionConfig, source: _Source, *, scores: bool) -> LabelledPairs:
    manifest: dict[str, Any] = {
        "path": ",".join(map(str, source.paths)),
        "format": source.kind,
        "task": source.task,
        "splits": list(source.splits),
    }
    if scores:
        # A range of the user's own is that of the training data; the STS sets have theirs.
        own = source.field == "supervision." or source.kind != "sts"
        sts_task = source.task if source.kind == "sts" else None
        place = f"{source.field}path={manifest['path']}"
        low, high = score_range(config.score_range if own else "", sts_task, place)
        rows = list(_score_rows(source, config.encoding))
        values = [scaled_score(row, low, high) for row in rows]
        targets: NDArray[Any] = np.asarray(values, np.float32)
        firsts, seconds = [row.sentence1 for row in rows], [row.sentence2 for row in rows]
        manifest["score_range"] = [low, high]
    else:
        pairs = nli.classify(_class_rows(source, config.encoding), config.names_of_labels())
        firsts, seconds, targets = pairs.sentences1, pairs.sentences2, pairs.labels
        manifest |= {"classes": pairs.counts(), "without_gold": pairs.without_gold}
    if not firsts:
        raise DataError(
            f"{source.field}path={manifest['path']} holds no pair with a label; check "
            f"{source.field}splits and {source.field}label_column"
        )
    tell_of_empty(f"{source.field}path={manifest['path']}", [*firsts, *seconds])
    rows_of = zip(firsts, seconds, targets.tolist(), strict=True)
    manifest |= {"pairs": len(firsts), "sha256": digest(rows_of)}
    return LabelledPairs(firsts, seconds, targets, manifest)


def _class_rows(source: _Source, encoding: str) -> Iterator[Row]:
    if source.kind == "tfds":
        for dataset in comma_separated(source.task):
            yield from read_tfds_rows(source.paths[0], dataset, source.splits)
    elif source.kind == "sts":
        if source.task != "sickr":
            raise ConfigError(
                f"{source.field}task={source.task!r}: of the STS data only sickr has entailment "
                "labels; set it, or name files or a TFDS data_dir with "
                f"{source.field}task=snli,multi_nli"
            )
        folder = sts_files.task_folder(source.paths[0], "sickr")
        sts_files.check_splits("sickr", source.splits, source.field + "splits")
        for split in source.splits:
            yield from sts_files.read_sick_rows(folder, split, encoding, sts_files.SICK_ENTAILMENT)
    else:
        yield from _file_rows(source, nli.GOLD_NAMES, encoding)


def _score_rows(source: _Source, encoding: str) -> Iterator[Row]:
    if source.kind == "tfds":
        raise ConfigError(
            f"{source.field}task={source.task!r} has classes, and scores are needed: name STS data "
            "or files"
        )
    if source.kind != "sts":
        yield from _file_rows(source, _SCORE_NAMES, encoding)
        return
    if source.paths == (Path("everyday"),):
        task = load_task("everyday")
    else:
        folder = sts_files.task_folder(source.paths[0], source.task)  # an unknown task ends here
        sts_files.check_splits(source.task, source.splits, source.field + "splits")
        task = load_task(source.task, folder, source.splits, encoding=encoding)
    for pairs in task.subsets.values():
        for number, (first, second, score) in enumerate(
            zip(pairs.sentences1, pairs.sentences2, pairs.scores, strict=True)
        ):
            yield Row(first, second, repr(float(score)), f"{task.name}, scored pair {number}")


def _file_rows(source: _Source, gold_names: tuple[str, ...], encoding: str) -> Iterable[Row]:
    wanted = PairColumns(
        source.columns, source.label_column, gold_names, source.splits, source.field
    )
    for path in source.paths:
        yield from read_pairs(path, source.kind, wanted, encoding)
