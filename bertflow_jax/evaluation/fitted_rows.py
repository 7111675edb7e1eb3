"""Rows of an evaluation that are fitted for it: baselines and flows, on a stated text.

What they are fitted on, `--fit`:
  run      the text of the --workdir's own fit
  target   each task's own text (the paper's "target" rows; a year has its test text alone)
  TASK     the text of one task of --data_dir for all tasks, as stsb; or everyday
  FILE     a text file, one sentence a line
"""

import dataclasses
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bertflow_jax.config import Config, DataConfig
from bertflow_jax.data.file_names import require_text_file
from bertflow_jax.data.sts import StsTask
from bertflow_jax.data.text import TextCorpus, load_text, text_splits
from bertflow_jax.errors import ConfigError
from bertflow_jax.evaluation.metrics import AGGREGATIONS
from bertflow_jax.evaluation.options import ALL_TASKS, EvalOptions
from bertflow_jax.evaluation.tasks import SentenceTable, evaluate, task_average
from bertflow_jax.paths import user_path
from bertflow_jax.postprocess.base import PostProcessor
from bertflow_jax.postprocess.spec import check_different, has_flow, make_postprocessor

_log = logging.getLogger(__name__)
TARGET, OWN, EVERYDAY = "target", "run", "everyday"
Tables = dict[str, SentenceTable]  # task -> the vectors of its sentences


@dataclasses.dataclass(frozen=True)
class FitTexts:
    """The text that the rows of each task are fitted on.

    Attributes:
      corpora: task -> corpus; tasks that share a text share the object.
      fit: what was asked for, resolved; see the module's docstring.
      splits: that were asked for.
    """

    corpora: dict[str, TextCorpus]
    fit: str = TARGET
    splits: tuple[str, ...] = ()

    @property
    def whole_text(self) -> list[str]:
        """The tasks that are fitted on all their text although splits are asked for."""
        if self.fit != TARGET or not self.splits:
            return []
        return [task for task in self.corpora if not _has_splits(task)]

    @property
    def distinct(self) -> list[TextCorpus]:
        """The corpora without repeats, in the order of the tasks."""
        return list({id(corpus): corpus for corpus in self.corpora.values()}.values())

    @property
    def sentences(self) -> list[str]:
        """Every sentence of every corpus, repeats included."""
        return [text for corpus in self.distinct for example in corpus.examples for text in example]

    @property
    def manifests(self) -> dict[str, Any]:
        """Task -> which text it was, for results.json."""
        return {task: corpus.manifest for task, corpus in self.corpora.items()}


def load_fit_texts(
    fit: str,
    splits: Sequence[str],
    tasks: Sequence[str],
    data_dir: str | None,
    own: Callable[[], TextCorpus] | None = None,
) -> FitTexts:
    """Read the text of `--fit`; labels are never read.

    Args:
      fit: see the module's docstring; "" takes `run` with a workdir, else `target`.
      splits: of stsb and sickr; empty takes all.
      tasks: names of what is scored.
      data_dir: of the tasks.
      own: reads the text of the workdir's run.

    Raises ConfigError, DataError or DataNotFoundError naming the flag or file; as `own`.
    """
    fit = fit or (TARGET if own is None else OWN)
    if splits and fit != TARGET and not _has_splits(fit):
        raise ConfigError(
            f"--fit_splits={','.join(splits)} does not apply to --fit={fit}, which has no splits "
            f"to choose from: leave it out, or give --fit={TARGET} or a task with splits, as stsb"
        )
    if fit == TARGET:
        found = {task: _task_text(task, splits, data_dir) for task in tasks}
        texts = FitTexts(found, fit, tuple(splits))
        if texts.whole_text:
            _log.warning(
                "--fit_splits=%s does not apply to %s: rows are fitted on all their text there",
                ",".join(splits),
                ", ".join(texts.whole_text),
            )
        return texts
    if fit == OWN:
        if own is None:
            raise ConfigError("--fit=run is the text of a --workdir's fit; an encoder has none")
        shared = own()
    elif fit in ALL_TASKS:
        shared = _task_text(fit, splits, data_dir)
    elif os.path.exists(path := str(user_path(fit, "--fit"))):
        if not os.path.isdir(path):
            require_text_file(path, "--fit")
        shared = load_text(DataConfig(path=path))
    else:
        raise ConfigError(
            f"--fit={fit}: neither {TARGET}, {OWN}, a task ({', '.join(ALL_TASKS)}) nor a text "
            "file that is there"
        )
    return FitTexts(dict.fromkeys(tasks, shared), fit, tuple(splits))


def _has_splits(task: str) -> bool:
    return task in ALL_TASKS and task != EVERYDAY and len(text_splits(task)) > 1


def _task_text(task: str, splits: Sequence[str], data_dir: str | None) -> TextCorpus:
    if task == EVERYDAY:
        return load_text(DataConfig(path=EVERYDAY))
    if data_dir is None:
        raise ConfigError(f"--fit={task} needs --data_dir=DIR, where the text of {task} lies")
    taken = ",".join(text_splits(task, splits))
    return load_text(DataConfig(path=data_dir, task=task, splits=taken))


def check_rows(rows: Sequence[str]) -> None:
    """Raise ConfigError for a row that cannot be made, or is another one in other words."""
    check_different({spec: make_postprocessor(spec, lambda: _flow(Config(), 0)) for spec in rows})


def _flow(config: Config, seed: int) -> PostProcessor:
    from bertflow_jax.postprocess.flow import Flow

    return Flow(config.flow, seed, config.train)


def fit_row(
    spec: str,
    seed: int,
    config: Config,
    raw: SentenceTable,
    texts: FitTexts,
    tasks: Sequence[StsTask],
) -> Tables:
    """Fit a post-processor on the text of every task and return task -> vectors after it.

    Every occurrence of a sentence counts, as in the fit of a flow by train.py, and the examples of
    a flow are the corpus's own: of a pair, the losses of both sentences add up.

    Args:
      spec: see `bertflow_jax.postprocess.spec`.
      seed: of flows.
      config: its `flow` and `train` sections shape the flows.
      raw: embeddings of the sentences of tasks and texts.
      texts: what each task is fitted on.
      tasks: what is scored.
    """
    fitted: dict[int, PostProcessor] = {}
    for corpus in texts.distinct:
        processor = make_postprocessor(spec, lambda: _flow(config, seed))
        sentences, rows = corpus.numbered()
        _log.info("fitting %s on %s", spec, corpus.manifest.get("task") or corpus.manifest["path"])
        fitted[id(corpus)] = processor.fit_examples(raw(sentences), rows)
    return {
        task.name: raw.only(task.sentences).map(fitted[id(texts.corpora[task.name])].transform)
        for task in tasks
    }


def score_rows(
    options: EvalOptions,
    config: Config,
    raw: SentenceTable,
    texts: FitTexts,
    tasks: Sequence[StsTask],
) -> tuple[dict[str, dict[str, Any]], dict[str, Tables]]:
    """Fit and score every row; return (row -> scores, row -> vectors of the first seed).

    A row with a flow is fitted for every seed: its scores are their mean, with "spread" and "seeds"
    (seed -> scores) beside them where there are several.
    """
    scored: dict[str, dict[str, Any]] = {}
    tables: dict[str, Tables] = {}
    seeds = [int(seed) for seed in options.seeds]
    for spec in options.rows:
        runs: dict[int, dict[str, Any]] = {}
        for seed in seeds if has_flow(spec) else seeds[:1]:
            found = fit_row(spec, seed, config, raw, texts, tasks)
            tables.setdefault(spec, found)
            runs[seed] = evaluate(tasks, {spec: found}, options.similarity)[spec]
        scored[spec] = next(iter(runs.values()))
        if len(runs) > 1:
            scored[spec] = {
                **_mean(list(runs.values())),
                "spread": _spread(list(runs.values())),
                "seeds": {str(seed): run for seed, run in runs.items()},
            }
    return scored, tables


def _mean(values: Sequence[Any]) -> Any:
    """Return the mean of every number of equal nested dicts; what is undefined once stays so."""
    first = values[0]
    if isinstance(first, dict):
        keys = dict.fromkeys(key for value in values for key in value)
        return {key: _mean([value.get(key) for value in values]) for key in keys}
    if all(isinstance(value, float) for value in values):
        return float(np.mean(values))
    # Counts and texts are the same for every seed; a reason may be known of a later one alone.
    return next((value for value in values if not isinstance(value, float | None)), None)


def _spread(runs: Sequence[dict[str, Any]]) -> dict[str, dict[str, float | None]]:
    """Return task -> aggregation (or `auc`) -> standard deviation (n - 1) over the runs.

    Of Spearman or AUC x 100; "average" -> aggregation -> that of the average over the tasks.
    """
    scored = [{name: v for name, v in run.items() if isinstance(v, dict)} for run in runs]
    spread: dict[str, dict[str, float | None]] = {
        "average": {
            how: _deviation([task_average(tasks, how)[0] for tasks in scored])
            for how in AGGREGATIONS
        }
    }
    for task, result in runs[0].items():
        if not isinstance(result, dict):
            continue
        if "auc" in result:
            spread[task] = {"auc": _deviation([run[task]["auc"] for run in runs])}
        else:
            spread[task] = {
                how: _deviation([run[task][how]["spearman"] for run in runs])
                for how in AGGREGATIONS
            }
    return spread


def _deviation(scores: Sequence[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return float(np.std(known, ddof=1)) if len(known) == len(scores) else None
