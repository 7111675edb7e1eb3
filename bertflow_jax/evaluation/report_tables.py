"""The tables at the foot of report.html: every subset, published scores, provenance."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from bertflow_jax.evaluation import report_page
from bertflow_jax.evaluation.published import PUBLISHED
from bertflow_jax.evaluation.table import (
    COLUMNS,
    UNDEFINED,
    header_cells,
    published_cells,
    task_columns,
)


def subsets(results: Mapping[str, Any]) -> list[str]:
    """Return the section with the scores of every subset, and why some are undefined."""
    rows = results["rows"]
    lines, reasons = [], []
    for task in task_columns(rows):
        for subset, any_row in next(iter(rows.values()))[task]["subsets"].items():
            scores = {name: row[task]["subsets"][subset] for name, row in rows.items()}
            cells = [_cell(score["spearman"]) for score in scores.values()]
            title = COLUMNS[task] if subset == task else f"{COLUMNS[task]} {subset}"
            lines.append([title, str(any_row["pairs"]), *cells])
            reasons += [
                f"{title}, {name}: {score['reason']}."
                for name, score in scores.items()
                if "reason" in score
            ]
    out = [
        report_page.heading("Every subset"),
        report_page.paragraph("Spearman x 100 of each subset on its own."),
        report_page.table(["", "pairs", *rows], lines),
    ]
    if reasons:
        out.append(report_page.paragraph("Undefined: " + " ".join(reasons)))
    return out


def published(results: Mapping[str, Any]) -> list[str]:
    """Return the section of published scores; empty where none is of these tasks."""
    tasks = task_columns(results["rows"])
    if not any(task in row.scores for row in PUBLISHED for task in tasks):
        return []
    lines = [
        [row.model, *published_cells(row, tasks), row.aggregation, row.source] for row in PUBLISHED
    ]
    return [
        report_page.heading("Published scores"),
        report_page.paragraph("Other encoders and papers, for comparison. Mind the aggregation."),
        report_page.details(
            "Show the table",
            report_page.table(["", *header_cells(tasks), "years by", "source"], lines),
        ),
    ]


def provenance(results: Mapping[str, Any]) -> list[str]:
    """Return the section with everything that decided the numbers."""
    values = [*_flatten(results["model"], "model."), *_flatten(results["provenance"])]
    return [
        report_page.heading("Where these numbers come from"),
        report_page.paragraph(
            "The same facts and all scores are in results.json beside this page."
        ),
        report_page.details("Show the details", report_page.facts(values)),
    ]


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield prefix + key, shown


def _cell(score: float | None) -> str:
    return UNDEFINED if score is None else f"{score:.2f}"
