"""The scatter of similarity against edit distance: gold scores, then every row of the results."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from bertflow_jax.data.sts import StsTask
from bertflow_jax.evaluation.edit_distance import GOLD, SMALL, similarities, task_edit_distances
from bertflow_jax.evaluation.metrics import correlation
from bertflow_jax.evaluation.tasks import SentenceTable

_MAX_POINTS = 2_000
_GREY = "#8c8c8c"


@dataclasses.dataclass(frozen=True)
class LexicalPlot:
    """One panel.

    Attributes:
      name: `gold`, or of the row.
      normalized: float64[N], edit distance in words over the words of the longer sentence.
      small: bool[N], edit distance of at most `edit_distance.SMALL` words.
      similarity: float64[N], gold score or cosine.
      spearman: of all pairs, normalized distance and similarity, x 100, or None.
    """

    name: str
    normalized: NDArray[np.float64]
    small: NDArray[np.bool_]
    similarity: NDArray[np.float64]
    spearman: float | None


def lexical_plots(
    task: StsTask, tables: Mapping[str, SentenceTable], seed: int = 0
) -> list[LexicalPlot]:
    """Return the panels, gold first; all show the same (at most 2,000) pairs."""
    edits = task_edit_distances(task)
    small = edits.distance <= SMALL
    count = len(small)
    rng = np.random.default_rng(seed)
    shown = np.sort(rng.choice(count, min(count, _MAX_POINTS), replace=False))
    panels = []
    for name, values in similarities(task, tables).items():
        found = correlation(edits.normalized, values).spearman
        panels.append(
            LexicalPlot(
                name,
                edits.normalized[shown],
                small[shown],
                values[shown],
                None if found is None else 100 * found,
            )
        )
    return panels


def draw_lexical(axes: Axes, panel: LexicalPlot, color: str, lowest: float) -> None:
    """Edit distance against similarity, one point a pair: pairs of few edits in color, else grey.

    Args:
      axes: of the panel.
      panel: its numbers.
      color: of the row.
      lowest: lower end of the cosine axis, shared by the panels of rows.
    """
    for chosen, shade in ((~panel.small, _GREY), (panel.small, color)):
        axes.scatter(
            panel.normalized[chosen],
            panel.similarity[chosen],
            s=7,
            alpha=0.4,
            color=shade,
            linewidths=0,
            # Thousands of points as vectors would make a file of megabytes.
            rasterized=True,
        )
    gold = panel.name == GOLD
    score = "undefined" if panel.spearman is None else f"{panel.spearman:z.1f}"
    axes.set(
        title=f"{panel.name}: Spearman {score}",
        xlim=(-0.03, 1.03),
        ylim=(-0.2, 5.2) if gold else (lowest, 1.05),
        xlabel="edit distance over words of the longer sentence",
        ylabel="gold score" if gold else "cosine",
    )
