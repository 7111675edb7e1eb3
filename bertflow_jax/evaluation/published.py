"""Published scores to hold a run against: Spearman x 100 of the cosine, for QNLI AUC x 100."""

import dataclasses

_COLUMNS = ("stsb", "sickr", "sts12", "sts13", "sts14", "sts15", "sts16")
_BERT_FLOW = "Li et al., EMNLP 2020 (BERT-flow)"
_WHITENING = "Su et al., 2021 (BERT-whitening)"
_MTEB = "MTEB leaderboard; its SICK-R is all 9,927 pairs"


@dataclasses.dataclass(frozen=True)
class PublishedRow:
    """One row of a published table.

    Attributes:
      model: encoder, pooling and post-processing, in our names.
      scores: task -> Spearman x 100 on the test split; `qnli` -> AUC x 100 on dev.
      aggregation: of the years' subsets, `wmean` or `all`.
      source: paper or leaderboard.
    """

    model: str
    scores: dict[str, float]
    aggregation: str
    source: str


def _row(
    model: str, source: str, aggregation: str, *scores: float, qnli: float | None = None
) -> PublishedRow:
    known = dict(zip(_COLUMNS, scores, strict=True)) if scores else {}
    if qnli is not None:
        known["qnli"] = qnli
    return PublishedRow(model, known, aggregation, source)


# ruff: noqa: E501 (a table reads best with one row a line)
# fmt: off
PUBLISHED = (
    _row("BERT-base mean", _BERT_FLOW, "wmean", 47.29, 58.21, 49.07, 55.92, 54.75, 62.75, 65.19),
    _row("BERT-base first_last", _BERT_FLOW, "wmean", 59.04, 63.75, 57.84, 61.95, 62.48, 70.95, 69.81),
    _row("BERT-base first_last, flow on NLI", _BERT_FLOW, "wmean", 58.56, 65.44, 59.54, 64.69, 64.66, 72.92, 71.84),
    _row("BERT-base first_last, flow on target", _BERT_FLOW, "wmean", 70.72, 63.11, 63.48, 72.14, 68.42, 73.77, 75.37),
    _row("BERT-base, whitening 256 on target", _WHITENING, "wmean", 71.43, 62.2, 63.89, 73.76, 69.08, 74.59, 74.40),
    _row("BERT-large first_last", _BERT_FLOW, "wmean", 59.56, 60.22, 57.68, 61.37, 61.02, 68.04, 70.32),
    _row("BERT-large first_last, flow on NLI", _BERT_FLOW, "wmean", 68.09, 64.62, 61.72, 66.05, 66.34, 74.87, 74.47),
    _row("BERT-large first_last, flow on target", _BERT_FLOW, "wmean", 72.26, 62.50, 65.20, 73.39, 69.42, 74.92, 77.63),
    _row("BERT-base-NLI first_last", _BERT_FLOW, "wmean", 78.03, 74.07, 68.37, 72.44, 73.98, 79.15, 75.39, qnli=70.30),
    _row("BERT-base-NLI first_last, flow on NLI", _BERT_FLOW, "wmean", 79.10, 78.03, 67.75, 76.73, 75.53, 80.63, 77.58, qnli=72.52),
    _row("BERT-base-NLI first_last, flow on target", _BERT_FLOW, "wmean", 81.03, 74.97, 68.95, 78.48, 77.62, 81.95, 78.94, qnli=76.17),
    _row("BERT-large-NLI first_last", _BERT_FLOW, "wmean", qnli=70.41),
    _row("BERT-large-NLI first_last, flow on NLI", _BERT_FLOW, "wmean", qnli=74.19),
    _row("BERT-large-NLI first_last, flow on target", _BERT_FLOW, "wmean", 81.18, 74.52, 70.19, 80.27, 78.85, 82.97, 80.57, qnli=77.09),
    _row("all-MiniLM-L6-v2 mean", _MTEB, "all", 82.0325, 77.5825, 72.3690, 80.6032, 75.5891, 85.3896, 78.9895),
)
# fmt: on
