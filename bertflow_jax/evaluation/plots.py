"""Figures of an evaluation, drawn with matplotlib's Agg and SVG writers, never a window."""

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bertflow_jax.errors import ConfigError
from bertflow_jax.evaluation.plot_data import Curve, RowPlot
from bertflow_jax.evaluation.similarities import TITLES
from bertflow_jax.text_output import write_bytes

FIGURE_SUFFIXES = (".png", ".svg")
# Blue and vermilion of Okabe and Ito: told apart under every common colour blindness.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 10.0,
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.labelcolor": "#222222",
    "axes.grid": True,
    "grid.color": "#e5e5e5",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "bertflow_jax",
}
_GOLD_TICKS = range(6)
_NEGATIVE = "#8a8a8a"


def row_color(position: int) -> str:
    """Return the colour of the row at a position: the same in every figure."""
    return _COLORS[position % len(_COLORS)]


def svg(draw: Callable[..., None], *args: Any, width: float = 4.6, height: float = 3.3) -> bytes:
    """Return the panel that draw(axes, *args) makes as an SVG file of width x height inches."""
    with rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure.subplots(), *args)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", dpi=144, metadata={"Date": None})
    return buffer.getvalue()


def draw_random_cosines(axes: Axes, row: RowPlot, color: str) -> None:
    """Histogram of the cosines of random pairs, with their mean as a line."""
    axes.hist(row.random_cosines, bins=list(np.linspace(-1, 1, 81)), color=color)
    if row.mean_random_cosine is not None:
        axes.axvline(row.mean_random_cosine, color="#222222", linewidth=1.2)
        # z: a tiny mean that is rounded to 0 has no sign.
        title = f"{row.name}: mean cosine {row.mean_random_cosine:z.2f}"
    else:
        title = f"{row.name}: fewer than two sentences"
    axes.set(
        title=title,
        xlim=(-1, 1),
        xticks=[-1, -0.5, 0, 0.5, 1],
        xlabel="cosine of two random sentences",
        ylabel="pairs",
    )


def similarity_limits(rows: Sequence[RowPlot]) -> tuple[float, float]:
    """Return the ends of the similarity axis that all rows share, so that panels compare."""
    values = np.concatenate([row.similarities for row in rows] or [np.empty(0)])
    if not rows or rows[0].similarity == "cosine":
        return float(values.min(initial=0.0)) - 0.05, 1.05
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    margin = 0.05 * (high - low) or 0.5
    return low - margin, high + margin


def draw_gold(axes: Axes, row: RowPlot, color: str, limits: tuple[float, float]) -> None:
    """Gold score against similarity, one point a pair; of labels, a histogram of each."""
    score = "undefined" if row.score is None else f"{row.score:z.1f}"
    if row.binary:
        axes.set_title(f"{row.name}: AUC {score}")
        _draw_labels(axes, row, color, limits)
        return
    # Thousands of points as vectors would make a file of megabytes.
    axes.scatter(
        row.gold, row.similarities, s=7, alpha=0.35, color=color, linewidths=0, rasterized=True
    )
    axes.set(
        title=f"{row.name}: Spearman {score}",
        xlim=(-0.2, 5.2),
        ylim=limits,
        xticks=list(_GOLD_TICKS),
        xlabel="gold score (0 unrelated, 5 same meaning)",
        ylabel=TITLES[row.similarity],
    )


def _draw_labels(axes: Axes, row: RowPlot, color: str, limits: tuple[float, float]) -> None:
    """Share of the pairs of each label over their similarity."""
    bins = list(np.linspace(*limits, 41))
    for label, shade, name in ((0, _NEGATIVE, "label 0"), (1, color, "label 1")):
        values = row.similarities[row.gold == label]
        if values.size:
            weights = np.full(values.size, 1 / values.size)
            axes.hist(values, bins=bins, weights=weights, color=shade, alpha=0.6, label=name)
            axes.legend()
    axes.set(xlim=limits, xlabel=TITLES[row.similarity], ylabel="share of the label's pairs")


def draw_spectrum(axes: Axes, rows: Sequence[RowPlot]) -> None:
    """Share of the variance in each direction, largest first, one line a row."""
    for position, row in enumerate(rows):
        positive = row.spectrum[row.spectrum > 0]
        if positive.size:
            ranks = np.arange(1, positive.size + 1)
            axes.plot(ranks, positive, ".-", ms=2, color=row_color(position), label=row.name)
    axes.set(xlabel="direction, largest variance first", ylabel="share of the variance")
    axes.set_yscale("log")
    if axes.lines:
        axes.legend()


def draw_training(axes: Axes, curves: Mapping[str, Curve]) -> None:
    """Bits per dimension over steps, one line a series."""
    for position, (name, points) in enumerate(curves.items()):
        steps, values = zip(*points, strict=True)
        marker = "o" if len(points) == 1 else None
        axes.plot(steps, values, marker=marker, color=row_color(position), label=name)
    axes.set(xlabel="step", ylabel="bits per dimension (lower is better)")
    axes.legend()


def check_figure_path(path: Path) -> None:
    """Raise ConfigError unless the file's extension is one a figure can be written as."""
    if path.suffix.lower() not in FIGURE_SUFFIXES:
        raise ConfigError(
            f"figure {path}: its name must end in {' or '.join(FIGURE_SUFFIXES)}, not "
            f"{path.suffix or 'nothing'!r}"
        )


def effect_figure(path: Path, rows: Sequence[RowPlot], title: str) -> None:
    """Write the effect of a flow as one picture: a column a row (raw, flow, ...).

    The upper panels show the cosines of random pairs, the lower ones gold score against
    similarity.

    Args:
      path: ends in `.png` or `.svg`.
      rows: at least one, as `plot_data.plot_rows` makes them.
      title: of the picture; name the scored pairs in it.

    Raises:
      ConfigError: another extension.
      WorkdirError: the file cannot be written.
    """
    check_figure_path(path)
    suffix = path.suffix.lower()
    with rc_context(_STYLE):
        figure = Figure(figsize=(3.8 * len(rows), 5.8), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(2, len(rows), squeeze=False, sharey="row")
        for position, row in enumerate(rows):
            color = row_color(position)
            draw_random_cosines(panels[0, position], row, color)
            draw_gold(panels[1, position], row, color, similarity_limits(rows))
        for panel in panels[:, 1:].flat:
            panel.set_ylabel("")
        figure.suptitle(title)
        buffer, date = io.BytesIO(), {"Date": None} if suffix == ".svg" else None
        figure.savefig(buffer, format=suffix.removeprefix("."), dpi=130, metadata=date)
    write_bytes(path, buffer.getvalue())
