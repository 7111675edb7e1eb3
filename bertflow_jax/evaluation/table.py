"""Scores as a text table, columns in the paper's order."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bertflow_jax.data.glue import BINARY_TASKS
from bertflow_jax.evaluation.comparable import (
    AVERAGE,
    MARK,
    marked_columns,
    unlike_tasks,
    whole_text,
)
from bertflow_jax.evaluation.published import PublishedRow
from bertflow_jax.evaluation.similarities import TITLES
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
    "qnli": "QNLI",
    "mrpc": "MRPC",
    "qqp": "QQP",
}
UNDEFINED = "n/a"
PLUS_MINUS = "±"


def task_columns(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the tasks present in a results' rows, in the paper's order."""
    return [task for task in COLUMNS if any(task in row for row in rows.values())]


def split_tasks(tasks: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the tasks scored by a correlation and those scored by an AUC, in the given order."""
    correlations = [task for task in tasks if task not in BINARY_TASKS]
    return correlations, [task for task in tasks if task in BINARY_TASKS]


def score_cells(row: Mapping[str, Any], tasks: Sequence[str], aggregation: str) -> list[str]:
    """Return Spearman x 100, (for several tasks) its average, then AUC x 100, as text.

    Of a row over several seeds, the standard deviation stands after the mean.
    """
    correlations, binary = split_tasks(tasks)
    spread = row.get("spread", {})
    scores = [
        (row[task][aggregation]["spearman"], spread.get(task, {}).get(aggregation))
        for task in correlations
    ]
    if len(correlations) > 1:
        average = task_average({task: row[task] for task in correlations}, aggregation)[0]
        scores.append((average, spread.get("average", {}).get(aggregation)))
    scores += [(row[task]["auc"], spread.get(task, {}).get("auc")) for task in binary]
    return [_score_cell(score, deviation) for score, deviation in scores]


def _score_cell(score: float | None, deviation: float | None) -> str:
    if score is None:
        return UNDEFINED
    return f"{score:z.2f}" + ("" if deviation is None else f" {PLUS_MINUS} {deviation:.2f}")


def header_cells(tasks: Sequence[str], marked: Sequence[str] = ()) -> list[str]:
    """Return the column titles that go with `score_cells`, those of `marked` columns with a *."""
    correlations, binary = split_tasks(tasks)
    titles = {task: COLUMNS[task] + (MARK if task in marked else "") for task in tasks}
    average = ["Avg" + (MARK if AVERAGE in marked else "")] if len(correlations) > 1 else []
    return [titles[task] for task in correlations] + average + [titles[task] for task in binary]


def mark_notes(results: Mapping[str, Any]) -> list[str]:
    """Return what the marks of the column titles mean, a sentence (without full stop) a reason."""
    whole = [COLUMNS[task] for task in whole_text(results)]
    notes = [f"{MARK} {', '.join(whole)}: fitted on all text of the task, which has one split"]
    unlike = unlike_tasks(results)
    said = [f"{MARK} {COLUMNS[task]}: {unlike[task]}" for task in COLUMNS if task in unlike]
    return (notes if whole else []) + said


def published_cells(row: PublishedRow, tasks: Sequence[str]) -> list[str]:
    """Return a published row's cells under the same columns; blank where nothing is published."""
    correlations, binary = split_tasks(tasks)
    scores = [row.scores.get(task) for task in correlations]
    known = [score for score in scores if score is not None]
    if len(correlations) > 1:
        scores.append(sum(known) / len(known) if len(known) == len(correlations) else None)
    scores += [row.scores.get(task) for task in binary]
    return ["" if score is None else f"{score:.2f}" for score in scores]


def score_title(results: Mapping[str, Any], aggregation: str) -> str:
    """Return what the numbers of a table are: statistic, similarity, aggregation."""
    correlations, binary = split_tasks(task_columns(results["rows"]))
    of = f"of the {TITLES[results['provenance']['similarity']]}"
    if not correlations:
        return f"AUC x 100 {of}"
    title = f"Spearman x 100 {of}, {aggregation} over subsets"
    names = ", ".join(COLUMNS[task] for task in binary)
    return f"{title}; {names}: AUC x 100" if binary else title


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
    lines = [["", *header_cells(tasks, marked_columns(results))]]
    lines += [[name, *score_cells(row, tasks, aggregation)] for name, row in rows.items()]
    lines += [
        [f"{row.model} ({row.source}; {row.aggregation})", *published_cells(row, tasks)]
        for row in published
        if any(task in row.scores for task in tasks)
    ]
    cosines = [
        f"{name} {cosine:z.3f}"
        for name, cosine in results["mean_random_cosine"].items()
        if cosine is not None
    ]
    notes = mark_notes(results)
    notes += [
        f"{COLUMNS[task]}, {name}: {row[task]['reason']}"
        for task in split_tasks(tasks)[1]
        for name, row in rows.items()
        if row[task]["auc"] is None
    ]
    # The isotropy measures are of the sentences of one task where rows are fitted.
    of = COLUMNS[tasks[0]] if len(tasks) == 1 else "all tasks"
    cosine = f"mean cosine of random pairs: {', '.join(cosines)} (sentences of {of})"
    return "\n".join([score_title(results, aggregation), *aligned(lines), *notes, cosine])


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
