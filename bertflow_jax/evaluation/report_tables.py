"""The tables at the foot of report.html: every subset, published scores, provenance."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from bertflow_jax.evaluation import captions, report_page
from bertflow_jax.evaluation.comparable import unlike_tasks
from bertflow_jax.evaluation.published import PUBLISHED
from bertflow_jax.evaluation.table import (
    COLUMNS,
    UNDEFINED,
    header_cells,
    mark_notes,
    published_cells,
    split_tasks,
    task_columns,
)


def notes(results: Mapping[str, Any]) -> list[str]:
    """Return the paragraph below the scores: fitted on what, and what is special about the data."""
    found, marked = results["provenance"]["tasks"], unlike_tasks(results)
    said = [*captions.fitted_on(results), *mark_notes(results)]
    said += [
        f"{COLUMNS[task]}: {note}"
        for task in COLUMNS
        if task in found
        for note in found[task]["notes"]
        if note != marked.get(task)  # the mark of the column says it already
    ]
    return [report_page.paragraph(" ".join(f"{note}." for note in said), "quiet")] if said else []


def subsets(results: Mapping[str, Any]) -> list[str]:
    """Return the section with the correlations of every subset, and why some are undefined."""
    rows = results["rows"]
    correlations, _ = split_tasks(task_columns(rows))
    if not correlations:
        return []
    lines, reasons = [], []
    for task in correlations:
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


def labelled(results: Mapping[str, Any]) -> list[str]:
    """Return the section with AUC, accuracy and F1 of the labelled pairs; empty without any."""
    rows = results["rows"]
    _, binary = split_tasks(task_columns(rows))
    if not binary:
        return []
    lines, reasons = [], []
    for task in binary:
        for name, row in rows.items():
            score = row[task]
            numbers = [score[key] for key in ("auc", "accuracy", "f1")]
            lines.append(
                [
                    f"{COLUMNS[task]} {score['split']}, {name}",
                    str(score["pairs"]),
                    str(score["positives"]),
                    *(_cell(number) for number in numbers),
                    *(_threshold(score[f"{key}_threshold"]) for key in ("accuracy", "f1")),
                    score["threshold_from"],
                ]
            )
            if "reason" in score:
                reasons.append(f"{COLUMNS[task]}, {name}: {score['reason']}.")
    header = ["", "pairs", "label 1", "AUC", "accuracy", "F1"]
    out = [
        report_page.heading("Labelled pairs"),
        report_page.paragraph(
            "A pair is called 1 where its similarity is at least the threshold that is best, for "
            "accuracy or for F1, on the split named last. Where that is the scored split itself, "
            "accuracy and F1 are upper bounds. All x 100."
        ),
        report_page.table(
            [*header, "threshold (accuracy)", "threshold (F1)", "thresholds from"], lines
        ),
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
        [row.model, *published_cells(row, tasks), row.aggregation, row.source]
        for row in PUBLISHED
        if any(task in row.scores for task in tasks)
    ]
    return [
        report_page.heading("Published scores"),
        report_page.paragraph(
            "Other encoders and papers, for comparison, all with the cosine. Mind the aggregation."
        ),
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
    return UNDEFINED if score is None else f"{score:z.2f}"


def _threshold(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:.4g}"
