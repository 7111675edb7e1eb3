"""report.html: the scores of one evaluation and what the flow did, for people to read."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertflow_jax.evaluation import (
    captions,
    plots,
    report_analyses,
    report_page,
    report_tables,
)
from bertflow_jax.evaluation.comparable import marked_columns
from bertflow_jax.evaluation.lexical_plot import LexicalPlot
from bertflow_jax.evaluation.metrics import AGGREGATIONS
from bertflow_jax.evaluation.plot_data import Curve, RowPlot
from bertflow_jax.evaluation.similarities import TITLES
from bertflow_jax.evaluation.table import (
    COLUMNS,
    header_cells,
    score_cells,
    split_tasks,
    task_columns,
)
from bertflow_jax.evaluation.tasks import PAPER_AGGREGATION
from bertflow_jax.text_output import write_text

_MEANING = {
    "all": "one correlation over all pairs of a year (SBERT, SimCSE, MTEB)",
    "mean": "mean of the subsets' correlations",
    "wmean": "mean of the subsets' correlations, weighted by pairs (BERT-flow)",
}


def write_report(
    path: Path,
    results: Mapping[str, Any],
    rows: Sequence[RowPlot],
    task: str,
    curves: Mapping[str, Curve] | None = None,
    lexical: Sequence[LexicalPlot] = (),
) -> None:
    """Write the page; it needs no network and no script.

    Args:
      path: of report.html.
      results: as `results.build_results` makes it.
      rows: the plotted numbers, one a row of the results.
      task: the task whose pairs `rows` show.
      curves: of the fit, from `plot_data.training_curves`.
      lexical: panels of the task, from `lexical_plot.lexical_plots`, if the results hold its edit
        distances.

    Raises:
      WorkdirError: the file cannot be written.
    """
    body = [
        *_summary(results),
        *_scores(results),
        *_random_pairs(rows),
        *_gold(rows, COLUMNS[task]),
        *_spectrum(rows),
        *report_analyses.isotropy(results),
        *report_analyses.edit_distance(results, task, lexical),
        *report_analyses.word_frequency(results),
        *_training(curves or {}),
        *report_tables.subsets(results),
        *report_tables.labelled(results),
        *report_tables.published(results),
        *report_tables.provenance(results),
    ]
    write_text(path, report_page.page("Sentence similarity: bertflow_jax report", body))


def _summary(results: Mapping[str, Any]) -> list[str]:
    model = results["model"]
    what, averages = _headline(results)
    first, last = captions.compared_rows(averages)
    before, after = averages[first], averages[last]
    if before is None or after is None:
        kind = "AUC" if "AUC" in what else "average"
        text = f"At least one {kind} is undefined; the reasons are in the tables below."
    elif first == last:
        text = f"{what} is {before:z.2f}."
    else:
        # Of the rounded values, so that a reader who subtracts finds the same number.
        change = round(after, 2) - round(before, 2)
        text = (
            f"{what} goes from {before:z.2f} ({first}) to {after:z.2f} ({last}), "
            f"{abs(change):z.2f} points {'up' if change >= 0 else 'down'}."
        )
    return [
        "<h1>Sentence similarity report</h1>",
        report_page.paragraph(text, "lead"),
        report_page.paragraph(f"{_model_name(model)}. {results['provenance']['date']}.", "quiet"),
    ]


def _headline(results: Mapping[str, Any]) -> tuple[str, dict[str, float | None]]:
    """Return what the first sentence is about, and its number in every row."""
    rows = results["rows"]
    correlations, binary = split_tasks(task_columns(rows))
    if correlations:
        what = "The average Spearman correlation with the gold scores"
        return what, {name: row["average"] for name, row in rows.items()}
    what = f"The AUC of {COLUMNS[binary[0]]}"
    return what, {name: row[binary[0]]["auc"] for name, row in rows.items()}


def _model_name(model: Mapping[str, Any]) -> str:
    encoder = model["encoder"]
    name = f"Encoder {encoder['path']}, pooling {captions.pooling_name(encoder)}"
    if model["flow"] is None and "fitted" in model:
        return f"{name}, rows fitted here: {', '.join(model['fitted']['rows'])}"
    if model["flow"] is None:
        return f"{name}, without a flow"
    if "workdir" not in model:
        return f"{name}, flow of {model['flow']['path']}"
    return f"{name}, flow of step {model['step']} in {model['workdir']}"


def _scores(results: Mapping[str, Any]) -> list[str]:
    rows = results["rows"]
    tasks = task_columns(rows)
    correlations, binary = split_tasks(tasks)
    similarity = TITLES[results["provenance"]["similarity"]]
    marked = marked_columns(results)
    header = ["", *header_cells(tasks, marked)]
    main = [[name, *score_cells(row, tasks, PAPER_AGGREGATION)] for name, row in rows.items()]
    out = [report_page.heading("Scores")]
    if correlations:
        out.append(
            report_page.paragraph(
                "Each pair has a gold score of how similar its sentences are, in the STS sets "
                "given by people. The number here says how well the order of the similarities "
                f"({similarity}) agrees with it: Spearman correlation x 100. 100 is full "
                "agreement, 0 none."
            )
        )
    if binary:
        names = ", ".join(COLUMNS[task] for task in binary)
        out.append(
            report_page.paragraph(
                f"The pairs of {names} have a label, yes or no. Their number is AUC x 100: how "
                f"often a pair labelled yes has the higher similarity ({similarity}) of the two, "
                "where one pair of each label is drawn. 100 is always, 50 is chance. It is no part "
                "of an average."
            )
        )
    out.append(report_page.table(header, main, best=True))
    if any(len(row[task]["subsets"]) > 1 for row in rows.values() for task in correlations):
        out.append(
            report_page.paragraph(
                "A year has several subsets. Its score here is the "
                f"{_MEANING[PAPER_AGGREGATION]}. Papers differ in this: compare like with like."
            )
        )
        others = [
            [f"{name}, {how}", *score_cells(row, correlations, how)]
            for how in AGGREGATIONS
            for name, row in rows.items()
        ]
        out.append(
            report_page.details(
                "The same scores under all three aggregations",
                report_page.paragraph(
                    "; ".join(f"{how}: {_MEANING[how]}" for how in AGGREGATIONS) + "."
                )
                + report_page.table(["", *header_cells(correlations, marked)], others),
            )
        )
    return out + report_tables.notes(results)


def _random_pairs(rows: Sequence[RowPlot]) -> list[str]:
    images = [
        (
            plots.svg(plots.draw_random_cosines, row, color),
            f"Histogram of the cosines of random sentence pairs, {row.name}",
        )
        for row, color in _colored(rows)
    ]
    return [
        report_page.heading("Unrelated sentences"),
        report_page.paragraph(
            "Two random sentences should have a cosine near 0. Where the histogram sits far to the "
            "right, all vectors point the same way and a high cosine says little. The black line "
            "is the mean."
        ),
        report_page.panels(images),
    ]


def _gold(rows: Sequence[RowPlot], title: str) -> list[str]:
    images = [
        (
            plots.svg(plots.draw_gold, row, color, plots.similarity_limits(rows)),
            f"Gold score against similarity of {len(row.gold)} pairs, {row.name}",
        )
        for row, color in _colored(rows)
    ]
    count = len(rows[0].gold) if rows else 0
    similarity = TITLES[rows[0].similarity] if rows else TITLES["cosine"]
    if rows and rows[0].binary:
        heading = f"{similarity[0].upper()}{similarity[1:]} by label"
        text = (
            f"{count} sentence pairs of {title}, those of each label as a share of that label. The "
            "better the vectors, the less the two overlap, with label 1 to the right."
        )
    else:
        heading = f"{similarity[0].upper()}{similarity[1:]} against gold score"
        text = (
            f"Each point is one of {count} sentence pairs of {title}. The better the vectors, the "
            "more the points rise from lower left to upper right."
        )
    return [
        report_page.heading(heading),
        report_page.paragraph(text),
        report_page.panels(images),
    ]


def _spectrum(rows: Sequence[RowPlot]) -> list[str]:
    counts = [f"{row.directions_for(0.9)} of {len(row.spectrum)} ({row.name})" for row in rows]
    image = plots.svg(plots.draw_spectrum, rows)
    return [
        report_page.heading("Variance by direction"),
        report_page.paragraph(
            "A steep curve means that a few directions hold most of the variance and decide every "
            "cosine. A flat curve means that all directions count. Directions that hold 90 % of "
            f"the variance: {', '.join(counts)}."
        ),
        report_page.panels([(image, "Share of the variance in each direction, one line a row")]),
    ]


def _training(curves: Mapping[str, Curve]) -> list[str]:
    if not curves:
        return []
    image = plots.svg(plots.draw_training, curves)
    return [
        report_page.heading("Fit of the flow"),
        report_page.paragraph(
            "The flow is fitted without labels: it learns to give the sentences a high density. "
            "Lower is better, and values below 0 are normal. A curve that still falls at its end "
            "says that more steps would fit better; where the curve of held-out sentences rises, "
            "fewer would."
        ),
        report_page.panels([(image, "Bits per dimension over the steps of the fit")]),
    ]


def _colored(rows: Sequence[RowPlot]) -> Iterable[tuple[RowPlot, str]]:
    return ((row, plots.row_color(position)) for position, row in enumerate(rows))
