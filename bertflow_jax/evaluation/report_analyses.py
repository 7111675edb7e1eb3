"""The sections of report.html that show isotropy and the paper's analyses."""

from collections.abc import Mapping, Sequence
from typing import Any

from bertflow_jax.evaluation import analyses, plots, report_page
from bertflow_jax.evaluation.edit_distance import GOLD, SMALL
from bertflow_jax.evaluation.isotropy import MAX_ROWS, POSITIVE_GOLD
from bertflow_jax.evaluation.lexical_plot import LexicalPlot, draw_lexical
from bertflow_jax.evaluation.table import COLUMNS

_GOLD_COLOR = "#222222"


def isotropy(results: Mapping[str, Any]) -> list[str]:
    """Return the section of the isotropy measures; empty where the results hold none."""
    found = results.get("isotropy")
    if not found:
        return []
    header, *lines = analyses.isotropy_lines(found)
    first = next(iter(found.values()))
    out = [
        report_page.heading("How evenly the space is used"),
        report_page.paragraph(
            "Isotropic vectors point in all directions alike. The last column is the value that "
            "perfectly isotropic vectors have; in the last three lines, that of a normal "
            f"distribution. From {first['rows']} sentences of {analyses.measured(results)}, and "
            f"{first['positive_pairs']} "
            f"pairs with a gold score of at least {POSITIVE_GOLD:g} for the alignment."
        ),
        report_page.table(header, lines),
        report_page.details("What the measures are", report_page.facts(_MEANING)),
    ]
    constant = [
        f"{row['constant_dimensions']} of {name}"
        for name, row in found.items()
        if row["constant_dimensions"]
    ]
    if constant:
        out.append(
            report_page.paragraph(
                f"Dimensions that do not vary ({', '.join(constant)}) are left out of the last "
                "three measures.",
                "quiet",
            )
        )
    reasons = analyses.isotropy_reasons(found)
    if reasons:
        out.append(report_page.paragraph("Undefined: " + " ".join(reasons), "quiet"))
    return out


_MEANING = (
    ("mean cosine", "of 10,000 random pairs of sentences"),
    (
        "I(W)",
        "smallest over largest Z(c) = sum exp(c . w) over the eigenvectors c of W'W, both signs "
        "(Mu & Viswanath, 2018); it depends on the length of the vectors, so it is given for unit "
        "vectors too",
    ),
    ("IsoScore", "share of the dimensions that the variance is spread over (Rudman et al., 2022)"),
    (
        "uniformity",
        "ln mean exp(-2 d^2), d the distance of two unit vectors (Wang & Isola, 2020); lower is "
        "more even, and many independent directions give about -4",
    ),
    (
        "alignment",
        "mean d^2 of pairs that mean the same (Wang & Isola, 2020); read it together with the "
        "uniformity: vectors that are all alike have the best alignment",
    ),
    (
        "skewness, kurtosis, KS",
        "of every dimension scaled to mean 0 and variance 1, against the normal distribution; "
        "means over dimensions",
    ),
    ("rows", f"at most {MAX_ROWS:,} sentences, drawn with the seed of the evaluation"),
)


def edit_distance(
    results: Mapping[str, Any], task: str, panels: Sequence[LexicalPlot]
) -> list[str]:
    """Return the section of lexical against semantic similarity; empty if it was not asked for."""
    found = results.get("analyses", {}).get("edit_distance", {}).get(task)
    if not found:
        return []
    header, *lines = analyses.lexical_lines(found)
    lowest = min(
        [0.0, *(float(p.similarity.min()) for p in panels if p.name != GOLD and p.similarity.size)]
    )
    colors = [_GOLD_COLOR, *(plots.row_color(position) for position in range(len(panels) - 1))]
    images = [
        (
            plots.svg(draw_lexical, panel, color, lowest - 0.05),
            f"Edit distance against similarity of {len(panel.similarity)} pairs, {panel.name}",
        )
        for panel, color in zip(panels, colors, strict=True)
    ]
    return [
        report_page.heading("Meaning or letters"),
        report_page.paragraph(
            f"The edit distance of a pair of {COLUMNS[task]} counts the words (or characters) to "
            "insert, delete or replace to turn one sentence into the other. A cosine that follows "
            "it much more closely than the gold score does judges by the letters. Grey: more than "
            f"{SMALL} words differ."
        ),
        report_page.panels(images),
        report_page.paragraph(
            "Spearman x 100 of the similarity with the edit distance, with the distance over the "
            "length of the longer sentence, and with the distance among the pairs of at most "
            f"{SMALL} edits (their number in brackets). Li et al. (2020), STS-B "
            "dev: gold -24.61, BERT -50.49, flow -28.01."
        ),
        report_page.table(header, lines),
    ]


def word_frequency(results: Mapping[str, Any]) -> list[str]:
    """Return the section of word embeddings by frequency; empty if it was not asked for."""
    found = results.get("analyses", {}).get("word_frequency")
    if not found:
        return []
    header, *lines = analyses.word_lines(found)
    out = [
        report_page.heading("Word embeddings by frequency"),
        report_page.paragraph(
            "In BERT-base, rare words lie farther from the origin, and farther from their nearest "
            "neighbours, than frequent ones (Li et al., 2020). Here: ranks by "
            f"{analyses.origin(found)}; neighbours are the nearest of "
            f"{found['candidates']:,} words by l2 distance."
        ),
        report_page.table(header, lines),
    ]
    reasons = [
        f"{name}: {part['reason']}." for name, part in found["bins"].items() if "reason" in part
    ]
    if reasons:
        out.append(report_page.paragraph("Undefined: " + " ".join(reasons), "quiet"))
    return out
