"""Scores as a text table, columns in the paper's order."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bertflow_jax.evaluation.published import PublishedRow
from bertflow_jax.evaluation.tasks import PAPER_AGGREGATION, task_average

COLUMNS = {
    "stsb": "STS-B",
    "sickr": "SICK-R",
    "sts12": "STS12",
    "sts13": "STS13",
    "sts14": "STS14",
    "sts15": "STS15",
    "sts16": "STS16",
    "everyday": "everyday",
}
UNDEFINED = "n/a"


def task_columns(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the tasks present in a results' rows, in the paper's order."""
    return [task for task in COLUMNS if any(task in row for row in rows.values())]


def score_cells(row: Mapping[str, Any], tasks: Sequence[str], aggregation: str) -> list[str]:
    """Return the Spearman x 100 of each task and (for several tasks) their average, as text."""
    scores = [row[task][aggregation]["spearman"] for task in tasks]
    if len(tasks) > 1:
        scores.append(task_average({task: row[task] for task in tasks}, aggregation)[0])
    return [UNDEFINED if score is None else f"{score:.2f}" for score in scores]


def header_cells(tasks: Sequence[str]) -> list[str]:
    """Return the column titles that go with `score_cells`."""
    return [COLUMNS[task] for task in tasks] + (["Avg"] if len(tasks) > 1 else [])


def published_cells(row: PublishedRow, tasks: Sequence[str]) -> list[str]:
    """Return a published row's cells under the same columns; blank where nothing is published."""
    scores = [row.scores.get(task) for task in tasks]
    known = [score for score in scores if score is not None]
    if len(tasks) > 1:
        scores.append(sum(known) / len(known) if len(known) == len(tasks) else None)
    return ["" if score is None else f"{score:.2f}" for score in scores]


def format_table(
    results: Mapping[str, Any],
    aggregation: str = PAPER_AGGREGATION,
    published: Iterable[PublishedRow] = (),
) -> str:
    """Return the rows of a results.json as an aligned text table.

    Args:
      results: as `results.build_results` makes it.
      aggregation: `all`, `mean` or `wmean`.
      published: rows to print below, each named with its source and its own aggregation.
    """
    rows = results["rows"]
    tasks = task_columns(rows)
    header = header_cells(tasks)
    lines = [["", *header]]
    lines += [[name, *score_cells(row, tasks, aggregation)] for name, row in rows.items()]
    lines += [
        [f"{row.model} ({row.source}; {row.aggregation})", *published_cells(row, tasks)]
        for row in published
    ]
    cosines = [
        f"{name} {cosine:.3f}"
        for name, cosine in results["mean_random_cosine"].items()
        if cosine is not None
    ]
    title = f"Spearman x 100 of the cosine, {aggregation} over subsets"
    return "\n".join([title, *aligned(lines), "mean cosine of random pairs: " + ", ".join(cosines)])


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of equally many cells with columns aligned, the first left, the others right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            [line[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        ).rstrip()
        for line in lines
    ]
