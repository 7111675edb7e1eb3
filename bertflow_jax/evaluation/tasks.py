"""Scoring of tasks through a function from sentences to vectors; nothing here knows an encoder."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.data.glue import BinaryTask
from bertflow_jax.data.sts import ScoredPairs, StsTask
from bertflow_jax.errors import InputError, shown
from bertflow_jax.evaluation.binary import score_binary
from bertflow_jax.evaluation.metrics import (
    AGGREGATIONS,
    Correlation,
    aggregate,
    check_finite,
)
from bertflow_jax.evaluation.similarities import pair_similarities

Embed = Callable[[list[str]], NDArray[Any]]
"""list of N sentences -> float[N, D]."""

PAPER_AGGREGATION = "wmean"


class SentenceTable:
    """Embeddings of distinct sentences, computed once; calling it looks sentences up.

    A table is itself an `Embed`, so the rows of an evaluation share one pass of the encoder:
    `raw = SentenceTable.build(tasks, encode)`, `flow = raw.map(flow.transform)`.

    Attributes:
      index: sentence -> row.
      embeddings: float[U, D].
    """

    def __init__(self, index: dict[str, int], embeddings: NDArray[Any]):
        if embeddings.ndim != 2 or len(embeddings) != len(index):
            raise InputError(
                f"embeddings of shape {embeddings.shape} for {len(index)} sentences; "
                f"float[{len(index)}, D] is needed"
            )
        check_finite(embeddings)
        self.index = index
        self.embeddings = embeddings

    @classmethod
    def build(
        cls, tasks: Iterable[StsTask], embed: Embed, more: Iterable[str] = ()
    ) -> "SentenceTable":
        """Embed the distinct sentences of all tasks, and `more`, in one call of `embed`."""
        scored = (text for task in tasks for text in task.sentences)
        sentences = list(dict.fromkeys(itertools.chain(scored, more)))
        index = {text: row for row, text in enumerate(sentences)}
        return cls(index, np.asarray(embed(sentences)))

    def map(self, transform: Callable[[NDArray[Any]], NDArray[Any]]) -> "SentenceTable":
        """Return the table of transform(embeddings), float[U, D] -> float[U, D']."""
        return SentenceTable(self.index, np.asarray(transform(self.embeddings)))

    def only(self, sentences: Sequence[str]) -> "SentenceTable":
        """Return the table of these distinct sentences alone."""
        index = {text: row for row, text in enumerate(sentences)}
        return SentenceTable(index, self(sentences))

    def __call__(self, sentences: Sequence[str]) -> NDArray[Any]:
        """Return float[N, D], one row a sentence, repeats allowed."""
        return self.embeddings[[self.index[text] for text in sentences]]


def task_similarities(
    task: StsTask, embed: Embed, similarity: str = "cosine"
) -> dict[str, NDArray[np.float64]]:
    """Return the similarity of every pair, subset -> float64[n_k], embedding each text once."""
    table = _table(task, embed)
    return {
        name: _pair_similarities(table, pairs, similarity) for name, pairs in task.subsets.items()
    }


def evaluate_task(task: StsTask, embed: Embed, similarity: str = "cosine") -> dict[str, Any]:
    """Score one task.

    Args:
      task: its scored pairs.
      embed: list of N sentences -> float[N, D].
      similarity: a key of `similarities.SIMILARITIES`.

    Returns:
      JSON-safe: `all`, `mean`, `wmean` -> {"spearman", "pearson"} x 100 (see
      `metrics.aggregate`), `subsets` -> {name: {"spearman", "pearson", "pairs"}}, `pairs`.
      Of a `BinaryTask`: `auc`, `accuracy`, `f1` x 100 with `positives`, `accuracy_threshold`,
      `f1_threshold` (see `binary.score_binary`), `pairs`, `split`, `threshold_from`.
      An undefined score is None, with a "reason" beside it.

    Raises:
      InputError: embed is no function, gives another number of rows, or a NaN.
    """
    table = _table(task, embed)
    similarities = task_similarities(task, table, similarity)
    if isinstance(task, BinaryTask):
        return _evaluate_binary(task, table, similarities, similarity)
    total, subsets = aggregate(
        {name: (similarities[name], pairs.scores) for name, pairs in task.subsets.items()}
    )
    return {
        **{name: _percent(score) for name, score in total.items()},
        "subsets": {
            name: {**_percent(score), "pairs": len(task.subsets[name])}
            for name, score in subsets.items()
        },
        "pairs": task.pairs,
    }


def _evaluate_binary(
    task: BinaryTask,
    table: SentenceTable,
    similarities: Mapping[str, NDArray[np.float64]],
    similarity: str,
) -> dict[str, Any]:
    scores = np.concatenate(list(similarities.values()))
    labels = np.concatenate([pairs.scores for pairs in task.subsets.values()])
    chosen, chosen_scores = task.threshold_pairs, scores
    if task.threshold_from != task.split:
        chosen_scores = _pair_similarities(table, chosen, similarity)
    return {
        **score_binary((scores, labels), (chosen_scores, chosen.scores)),
        "pairs": task.pairs,
        "split": task.split,
        "threshold_from": task.threshold_from,
    }


def _table(task: StsTask, embed: Embed) -> SentenceTable:
    if isinstance(embed, SentenceTable):
        return embed
    if not callable(embed):
        raise InputError(
            f"embed={shown(embed)}: must be a function from sentences to vectors, as encoder.encode"
        )
    return SentenceTable.build([task], embed)


def _pair_similarities(
    table: SentenceTable, pairs: ScoredPairs, similarity: str
) -> NDArray[np.float64]:
    return pair_similarities(
        similarity,
        len(pairs),
        lambda part: (table(pairs.sentences1[part]), table(pairs.sentences2[part])),
    )


def evaluate(
    tasks: Sequence[StsTask],
    rows: Mapping[str, Embed | Mapping[str, Embed]],
    similarity: str = "cosine",
) -> dict[str, dict[str, Any]]:
    """Score every row (raw, flow, ...) on every task.

    Args:
      tasks: what is scored.
      rows: name -> embed, or task -> embed where a row is another function for every task.
      similarity: a key of `similarities.SIMILARITIES`.

    Returns:
      row -> {task -> `evaluate_task`, "average": see `task_average`, of wmean, or None with a
      "reason"}.

    Raises:
      InputError: rows is no dict, or as `evaluate_task`.
    """
    if not isinstance(rows, Mapping):
        raise InputError(
            f"rows={shown(rows)}: must be a dict of name -> embed, as {{'raw': encoder.encode}}"
        )
    scored = {}
    for row, embed in rows.items():
        results = {
            task.name: evaluate_task(
                task, embed[task.name] if isinstance(embed, Mapping) else embed, similarity
            )
            for task in tasks
        }
        average, reason = task_average(results, PAPER_AGGREGATION)
        scored[row] = {**results, "average": average, **({"reason": reason} if reason else {})}
    return scored


def task_average(
    results: Mapping[str, Mapping[str, Any]], aggregation: str
) -> tuple[float | None, str]:
    """Return the unweighted mean over tasks of one aggregation's Spearman, or (None, reason).

    Tasks without a correlation (QNLI, MRPC, QQP: an AUC) are no part of it.
    """
    if aggregation not in AGGREGATIONS:
        raise InputError(f"aggregation {aggregation!r}: must be one of {', '.join(AGGREGATIONS)}")
    scores = {
        name: result[aggregation]["spearman"]
        for name, result in results.items()
        if aggregation in result
    }
    undefined = [name for name, score in scores.items() if score is None]
    if undefined or not scores:
        return None, f"no {aggregation} score of {', '.join(undefined) or 'any task'}"
    return float(np.mean(list(scores.values()))), ""


def _percent(score: Correlation) -> dict[str, Any]:
    if score.spearman is None or score.pearson is None:
        return {"spearman": None, "pearson": None, "reason": score.reason}
    return {"spearman": 100 * score.spearman, "pearson": 100 * score.pearson}
