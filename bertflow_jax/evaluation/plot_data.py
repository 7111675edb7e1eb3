"""The numbers behind the figures of a report, computed from the embeddings of each row."""

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.data.glue import BinaryTask
from bertflow_jax.data.sts import StsTask
from bertflow_jax.errors import DataError
from bertflow_jax.evaluation.metrics import random_pair_cosines
from bertflow_jax.evaluation.tasks import SentenceTable, task_similarities
from bertflow_jax.training.metrics import metric_records

_MAX_SPECTRUM_ROWS = 10_000
_MAX_POINTS = 2_000

Curve = list[tuple[int, float]]


@dataclasses.dataclass(frozen=True)
class RowPlot:
    """What the figures show of one row (raw, flow, ...).

    Attributes:
      name: of the row.
      spectrum: float64[D], eigenvalues of the covariance over their sum, largest first; all 0 for
        embeddings without variance.
      random_cosines: float64[P], cosines of random pairs of sentences.
      gold: float64[N], gold scores of (a sample of) one task's pairs, labels 0 and 1 of a
        `BinaryTask`.
      similarities: float64[N], of the same pairs.
      score: of all pairs of that task, x 100, or None: Spearman, of a `BinaryTask` AUC.
      binary: whether the gold scores are labels.
      similarity: a key of `similarities.SIMILARITIES`.
    """

    name: str
    spectrum: NDArray[np.float64]
    random_cosines: NDArray[np.float64]
    gold: NDArray[np.float64]
    similarities: NDArray[np.float64]
    score: float | None
    binary: bool = False
    similarity: str = "cosine"

    def __post_init__(self) -> None:
        """Leave out what is not finite: no axis has a place for it, and the rest can be drawn."""
        drawn = np.isfinite(self.gold) & np.isfinite(self.similarities)
        kept = {
            "spectrum": np.where(np.isfinite(self.spectrum), self.spectrum, 0.0),
            "random_cosines": self.random_cosines[np.isfinite(self.random_cosines)],
            "gold": self.gold[drawn],
            "similarities": self.similarities[drawn],
        }
        for name, values in kept.items():
            object.__setattr__(self, name, values)

    @property
    def mean_random_cosine(self) -> float | None:
        """Mean of `random_cosines`, or None without any."""
        return float(self.random_cosines.mean()) if self.random_cosines.size else None

    def directions_for(self, share: float) -> int:
        """Return how many directions together hold a share of the variance (0 without any)."""
        if not self.spectrum.any():
            return 0
        return int(np.searchsorted(np.cumsum(self.spectrum), share - 1e-12) + 1)


def plot_rows(
    task: StsTask,
    tables: Mapping[str, SentenceTable],
    results: Mapping[str, Mapping[str, Any]],
    seed: int = 0,
    similarity: str = "cosine",
) -> list[RowPlot]:
    """Return the plotted numbers of every row.

    Args:
      task: whose pairs the gold figures show.
      tables: row -> embeddings of all sentences.
      results: row -> scores, from `tasks.evaluate`.
      seed: of the sampled pairs and points; every row samples the same ones.
      similarity: that the results are of.
    """
    binary = isinstance(task, BinaryTask)
    gold = np.concatenate([pairs.scores for pairs in task.subsets.values()])
    rng = np.random.default_rng(seed)
    shown = np.sort(rng.choice(len(gold), min(len(gold), _MAX_POINTS), replace=False))
    rows = []
    for name, table in tables.items():
        values = np.concatenate(list(task_similarities(task, table, similarity).values()))
        scores = results[name][task.name]
        rows.append(
            RowPlot(
                name,
                spectrum(table.embeddings, seed),
                random_pair_cosines(table.embeddings, seed=seed),
                gold[shown],
                values[shown],
                scores["auc"] if binary else scores["all"]["spearman"],
                binary,
                similarity,
            )
        )
    return rows


def spectrum(embeddings: NDArray[Any], seed: int = 0) -> NDArray[np.float64]:
    """Return the eigenvalues of the covariance over their sum, largest first, float64[D].

    At most 10,000 rows are used (drawn with the seed): more would not move the curve.
    """
    x = np.asarray(embeddings, np.float64)
    if len(x) > _MAX_SPECTRUM_ROWS:
        x = x[np.random.default_rng(seed).choice(len(x), _MAX_SPECTRUM_ROWS, replace=False)]
    if len(x) < 2:
        return np.zeros(x.shape[1])
    centred = x - x.mean(axis=0)
    values = np.linalg.eigvalsh(centred.T @ centred)[::-1]
    total = values.sum()
    return np.clip(values / total, 0.0, None) if total > 0 else np.zeros(x.shape[1])


def training_curves(metrics_path: Path, series: Mapping[str, str]) -> dict[str, Curve]:
    """Return series of a run's metrics.jsonl.

    Args:
      metrics_path: one JSON object a line, with "step".
      series: label -> key of the objects.

    Returns:
      label -> [(step, value)] by step, for the series that have a finite value. Of a step written
      twice (a resumed run) the later line counts; a line cut off by an interruption does not.

    Raises:
      DataError: the file cannot be read.
    """
    try:
        records = metric_records(metrics_path)
    except OSError as error:
        raise DataError(f"{metrics_path} cannot be read: {error.strerror or error}") from error
    curves: dict[str, dict[int, float]] = {}
    for record in records:
        for label, key in series.items():
            value: Any = record.get(key)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            # JSON holds integers beyond every float too; no metric is one.
            if number and abs(value) <= sys.float_info.max:
                curves.setdefault(label, {})[record["step"]] = float(value)
    return {label: sorted(points.items()) for label, points in curves.items()}
