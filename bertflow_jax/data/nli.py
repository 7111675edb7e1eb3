"""Natural language inference: sentence pairs in three classes.

Sources: SNLI and MultiNLI (official JSON lines and tables, GLUE's MNLI, a prepared TFDS data_dir),
AllNLI, SICK's entailment labels, and any table or JSON lines with two sentences and a label.
"""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.data.sts_files import Row
from bertflow_jax.errors import DataError

LABELS = ("entailment", "neutral", "contradiction")
GOLD_NAMES = ("gold_label", "label", "entailment_judgment", "entailment_label")
NO_GOLD = "-"  # SNLI's and MultiNLI's mark of a pair whose annotators did not agree


@dataclasses.dataclass(frozen=True)
class NliPairs:
    """Pairs with a class.

    Attributes:
      sentences1: N texts.
      sentences2: N texts.
      labels: int32[N], an index into `LABELS`.
      without_gold: pairs left out because their gold label is "-".
    """

    sentences1: list[str]
    sentences2: list[str]
    labels: NDArray[np.int32]
    without_gold: int

    def __len__(self) -> int:
        return len(self.sentences1)

    def counts(self) -> dict[str, int]:
        """Return the number of pairs of each class."""
        numbers = np.bincount(self.labels, minlength=len(LABELS))
        return {name: int(n) for name, n in zip(LABELS, numbers, strict=True)}


def classify(rows: Iterable[Row], names: Sequence[str] = LABELS) -> NliPairs:
    """Turn the gold column into classes.

    Args:
      rows: pairs as written.
      names: what the source calls entailment, neutral and contradiction; case does not matter.

    Raises:
      DataError: a label that is none of the names and not "-"; names line and value.
    """
    classes = {name.lower(): number for number, name in enumerate(names)}
    firsts, seconds, labels = [], [], []
    left_out = 0
    for row in rows:
        if row.gold == NO_GOLD:
            left_out += 1
            continue
        label = classes.get(row.gold.lower())
        if label is None:
            raise DataError(
                f"{row.place}: unknown label {row.gold!r}; known: {', '.join(names)}, and "
                f"{NO_GOLD!r} for a pair without a gold label. Other names are set with "
                "supervision.label_names, another column with supervision.label_column"
            )
        firsts.append(row.sentence1)
        seconds.append(row.sentence2)
        labels.append(label)
    return NliPairs(firsts, seconds, np.asarray(labels, np.int32), left_out)
