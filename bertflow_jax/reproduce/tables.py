"""Which rows the paper's tables have, the recipe of each and its published scores.

Li et al., EMNLP 2020: Table 2 (STS without labels), 3 (STS, encoder trained on NLI labels), 4 (QNLI
by AUC), 5 (calibration baselines on STS-B), 6 (edit distance on STS-B dev), 1 (word embeddings by
frequency).
"""

import dataclasses

from bertflow_jax.data.sts_files import STS_YEARS
from bertflow_jax.evaluation.published import PUBLISHED

STS_COLUMNS = ("stsb", "sickr", *STS_YEARS)
NONE, TARGET, SHARED = "none", "target", "shared"


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes:
      name: of the row; of its config too, unless `config` names another.
      published: task -> published score x 100; empty where none is published.
      fit: `none` (no flow), `target` (a flow for every task, on its own text) or `shared` (one flow
        for all tasks).
      config: file in configs/paper without .py.
      postprocess: a spec of `postprocess.spec` fitted on each task's own text, for Table 5.
      pooling: in place of the config's; "" keeps it.
    """

    name: str
    published: dict[str, float]
    fit: str
    config: str = ""
    postprocess: str = ""
    pooling: str = ""

    @property
    def recipe(self) -> str:
        """Name of the config."""
        return self.config or self.name

    @property
    def is_fitted(self) -> bool:
        """Whether a flow or post-processor is fitted for it."""
        return self.fit != NONE or bool(self.postprocess)

    @property
    def encoder(self) -> str:
        """Which encoder it needs: `base`, `large`, `base_nli` or `large_nli`."""
        size, second, *_ = self.recipe.split("_")
        return f"{size}_nli" if second == "nli" else size


@dataclasses.dataclass(frozen=True)
class Table:
    """One table.

    Attributes:
      number: in the paper.
      title: what it shows.
      tasks: its columns.
      rows: by name.
      splits: of the tasks; None takes each task's own.
    """

    number: int
    title: str
    tasks: tuple[str, ...]
    rows: tuple[Row, ...]
    splits: tuple[str, ...] | None = None


def _sts(name: str, published: str, fit: str) -> Row:
    return Row(name, next(row.scores for row in PUBLISHED if row.model == published), fit)


def _calibration(name: str, score: float, spec: str) -> Row:
    return Row(name, {"stsb": score}, NONE, "base_mean", spec)


_BASE, _LARGE = "BERT-base first_last", "BERT-large first_last"
_NLI_ROWS = (
    _sts("base_nli_first_last", "BERT-base-NLI first_last", NONE),
    _sts("base_nli_flow_nli", "BERT-base-NLI first_last, flow on NLI", SHARED),
    _sts("base_nli_flow_target", "BERT-base-NLI first_last, flow on target", TARGET),
    _sts("large_nli_first_last", "BERT-large-NLI first_last", NONE),
    _sts("large_nli_flow_nli", "BERT-large-NLI first_last, flow on NLI", SHARED),
    _sts("large_nli_flow_target", "BERT-large-NLI first_last, flow on target", TARGET),
)
TABLES = {
    2: Table(
        2,
        "STS without NLI supervision, Spearman x 100, wmean",
        STS_COLUMNS,
        (
            _sts("base_mean", "BERT-base mean", NONE),
            _sts("base_first_last", _BASE, NONE),
            _sts("base_flow_nli", f"{_BASE}, flow on NLI", SHARED),
            _sts("base_flow_target", f"{_BASE}, flow on target", TARGET),
            _sts("large_first_last", _LARGE, NONE),
            _sts("large_flow_nli", f"{_LARGE}, flow on NLI", SHARED),
            _sts("large_flow_target", f"{_LARGE}, flow on target", TARGET),
        ),
    ),
    3: Table(3, "STS with NLI supervision, Spearman x 100, wmean", STS_COLUMNS, _NLI_ROWS),
    4: Table(4, "QNLI without labels, AUC x 100 of the cosine", ("qnli",), _NLI_ROWS),
    5: Table(
        5,
        "Calibration baselines on STS-B, BERT-base mean, Spearman x 100",
        ("stsb",),
        (
            _calibration("raw", 47.29, ""),
            _calibration("standardize", 55.46, "standardize"),
            _calibration("natsv_1", 51.79, "natsv:1"),
            _calibration("natsv_10", 60.40, "natsv:10"),
            _calibration("standardize_natsv_1", 56.02, "standardize+natsv:1"),
            _calibration("standardize_natsv_6", 63.51, "standardize+natsv:6"),
            Row("flow_target", {"stsb": 65.62}, TARGET, "base_flow_target", pooling="mean"),
        ),
    ),
    6: Table(
        6,
        "Edit distance against similarity on STS-B dev, Spearman x 100 (words)",
        ("stsb",),
        (
            Row("gold", {"stsb": -24.61}, NONE, "base_first_last"),
            Row("bert", {"stsb": -50.49}, NONE, "base_first_last"),
            Row("flow", {"stsb": -28.01}, TARGET, "base_flow_target"),
        ),
        ("dev",),
    ),
    1: Table(
        1,
        "Word embeddings of BERT-base by frequency rank: mean l2 norm, distance to 3 neighbours",
        ("norm", "distance"),
        tuple(
            Row(bins, {"norm": norm, "distance": distance}, NONE, "base_mean")
            for bins, norm, distance in (
                ("(0, 100)", 0.95, 0.77),
                ("[100, 500)", 1.04, 0.93),
                ("[500, 5K)", 1.22, 1.16),
                ("[5K, 10K)", 1.45, 1.30),
            )
        ),
    ),
}
