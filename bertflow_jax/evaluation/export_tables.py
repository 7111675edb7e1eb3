"""table.md and table.tex: the rows of a results.json in the paper's layout, ready to paste."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertflow_jax.evaluation.captions import caption
from bertflow_jax.evaluation.comparable import marked_columns
from bertflow_jax.evaluation.table import (
    PLUS_MINUS,
    UNDEFINED,
    header_cells,
    split_tasks,
    task_columns,
)
from bertflow_jax.evaluation.tasks import PAPER_AGGREGATION, task_average
from bertflow_jax.text_output import write_text

_NOT_SCORED = "--"
_MARKDOWN_SPECIAL = "\\`*_{}[]<>#|~"
_LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    PLUS_MINUS: r"$\pm$",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
}


def write_tables(folder: Path, results: Mapping[str, Any]) -> None:
    """Write table.md and table.tex.

    Raises:
      WorkdirError: a file cannot be written.
    """
    write_text(folder / "table.md", markdown_table(results))
    write_text(folder / "table.tex", latex_table(results))


def markdown_table(results: Mapping[str, Any], aggregation: str = PAPER_AGGREGATION) -> str:
    """Return the scores as a Markdown table; see `_cells` for what is in it."""
    header, lines = _cells(results, aggregation, _escape_markdown, "**{}**", PLUS_MINUS)
    out = [header, ["---", *(["---:"] * (len(header) - 1))], *lines]
    table = "\n".join(f"| {' | '.join(line)} |" for line in out)
    return f"{table}\n\n{_escape_markdown(caption(results, aggregation))}\n"


def latex_table(results: Mapping[str, Any], aggregation: str = PAPER_AGGREGATION) -> str:
    r"""Return the scores as a LaTeX table; it needs \usepackage{booktabs} and UTF-8 input."""
    header, lines = _cells(results, aggregation, _escape_latex, r"\textbf{{{}}}", r"$\pm$")
    rows = [rf"    {' & '.join(line)} \\" for line in lines]
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{_escape_latex(caption(results, aggregation))}}}",
            rf"  \begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
            r"    \toprule",
            rf"    {' & '.join(header)} \\",
            r"    \midrule",
            *rows,
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _cells(
    results: Mapping[str, Any],
    aggregation: str,
    escape: Callable[[str], str],
    bold: str,
    plus_minus: str,
) -> tuple[list[str], list[list[str]]]:
    """Return header and lines, escaped: a line a row, STS-B, SICK-R, STS12..16, Avg, then AUCs.

    The best of a column is bold, ties too, where there is more than one row. A row with "spread",
    {task (or "average") -> {aggregation or "auc" -> standard deviation}}, shows it after its score.
    """
    rows = results["rows"]
    tasks = task_columns(rows)
    correlations, binary = split_tasks(tasks)
    columns = [_column(rows, task, aggregation, plus_minus) for task in correlations]
    if len(correlations) > 1:
        columns.append(_average_column(rows, correlations, aggregation, plus_minus))
    columns += [_column(rows, task, "auc", plus_minus) for task in binary]
    header = header_cells(tasks, marked_columns(results))
    marked = [_marked(column, bold) for column in columns]
    lines = [[escape(name), *(column[i] for column in marked)] for i, name in enumerate(rows)]
    return ["", *(escape(title) for title in header)], lines


_Column = list[tuple[float | None, str]]  # (score, text) of every row


def _column(
    rows: Mapping[str, Mapping[str, Any]], task: str, aggregation: str, plus_minus: str
) -> _Column:
    column: _Column = []
    for row in rows.values():
        if task not in row:
            column.append((None, _NOT_SCORED))
            continue
        found = row[task][aggregation]
        score = found if aggregation == "auc" else found["spearman"]
        column.append((score, _number(score, row, task, aggregation, plus_minus)))
    return column


def _average_column(
    rows: Mapping[str, Mapping[str, Any]],
    tasks: Sequence[str],
    aggregation: str,
    plus_minus: str,
) -> _Column:
    column: _Column = []
    for row in rows.values():
        if not all(task in row for task in tasks):
            column.append((None, _NOT_SCORED))
            continue
        score = task_average({task: row[task] for task in tasks}, aggregation)[0]
        column.append((score, _number(score, row, "average", aggregation, plus_minus)))
    return column


def _number(
    score: float | None, row: Mapping[str, Any], name: str, aggregation: str, plus_minus: str
) -> str:
    if score is None:
        return UNDEFINED
    deviation = row.get("spread", {}).get(name, {}).get(aggregation)
    return f"{score:z.2f}" + ("" if deviation is None else f" {plus_minus} {deviation:.2f}")


def _marked(column: _Column, bold: str) -> list[str]:
    # Of the rounded scores: two that print alike are both the best.
    scores = [None if score is None else round(score, 2) for score, _ in column]
    best = max((score for score in scores if score is not None), default=None)
    mark = best is not None and len(column) > 1
    return [
        bold.format(text) if mark and score == best else text
        for score, (_, text) in zip(scores, column, strict=True)
    ]


def _escape_markdown(text: str) -> str:
    return "".join("\\" + c if c in _MARKDOWN_SPECIAL else " " if c in "\r\n" else c for c in text)


def _escape_latex(text: str) -> str:
    return "".join(_LATEX_SPECIAL.get(c, " " if c in "\r\n" else c) for c in text)
