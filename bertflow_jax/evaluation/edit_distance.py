"""Lexical against semantic similarity: does a cosine follow the meaning or the letters?

Li et al. (2020), section 5: the Spearman correlation of the edit distance of two sentences with
their gold similarity is weak; with the cosine of raw BERT embeddings it is strong, and the flow
weakens it.
"""

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.data.sts import StsTask
from bertflow_jax.evaluation.metrics import Correlation, correlation
from bertflow_jax.evaluation.tasks import SentenceTable, task_similarities

SMALL = 4  # the paper looks at pairs with an edit distance of at most 4
UNITS: dict[str, Callable[[str], Sequence[Hashable]]] = {"words": str.split, "characters": str}
GOLD = "gold"


@dataclasses.dataclass(frozen=True)
class EditDistances:
    """Edit distances of N pairs.

    Attributes:
      distance: int64[N], insertions, deletions and substitutions of a unit, 1 each.
      normalized: float64[N] in [0, 1], distance over the length of the longer text; 0 for two
        empty texts.
    """

    distance: NDArray[np.int64]
    normalized: NDArray[np.float64]


def levenshtein(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Return the fewest insertions, deletions and substitutions that turn a into b.

    Bit-parallel, after Myers (1999) and Hyyrö (2003): bit i of an integer says how row i + 1 of
    the table of distances differs from row i, and a step takes a whole column. O(len(a) len(b) /
    word size).
    """
    if not a:
        return len(b)
    positions: dict[Hashable, int] = {}
    for i, unit in enumerate(a):
        positions[unit] = positions.get(unit, 0) | 1 << i
    full, last = (1 << len(a)) - 1, 1 << (len(a) - 1)
    # Down a column, the rows that are one more and one less than the row above.
    more, less, distance = full, 0, len(a)
    for unit in b:
        equal = positions.get(unit, 0)
        same_diagonal = (((equal & more) + more) ^ more) | equal | less
        # Along the rows, from this column to the next.
        right_more, right_less = less | ~(same_diagonal | more), same_diagonal & more
        distance += bool(right_more & last) - bool(right_less & last)
        right_more, right_less = right_more << 1 | 1, right_less << 1
        more = (right_less | ~(same_diagonal | right_more)) & full
        less = same_diagonal & right_more & full
    return distance


def edit_distances(
    first: Sequence[str], second: Sequence[str], unit: str = "words"
) -> EditDistances:
    """Return the edit distances of matching texts, lower-cased.

    Args:
      first: N texts.
      second: N texts.
      unit: what one edit changes, `words` (between white space) or `characters`.
    """
    split = UNITS[unit]
    pairs = [(split(a.lower()), split(b.lower())) for a, b in zip(first, second, strict=True)]
    distance = np.array([levenshtein(a, b) for a, b in pairs], np.int64)
    longer = np.array([max(len(a), len(b), 1) for a, b in pairs], np.int64)
    return EditDistances(distance, distance / longer)


def task_edit_distances(task: StsTask, unit: str = "words") -> EditDistances:
    """Return the edit distances of a task's scored pairs, subsets one after the other."""
    subsets = list(task.subsets.values())
    return edit_distances(
        [text for pairs in subsets for text in pairs.sentences1],
        [text for pairs in subsets for text in pairs.sentences2],
        unit,
    )


def similarities(
    task: StsTask, tables: Mapping[str, SentenceTable]
) -> dict[str, NDArray[np.float64]]:
    """Return float64[N] of `gold` and of every row, over a task's pairs, subsets joined."""
    gold = {GOLD: np.concatenate([pairs.scores for pairs in task.subsets.values()])}
    return gold | {
        name: np.concatenate(list(task_similarities(task, table).values()))
        for name, table in tables.items()
    }


def lexical_analysis(task: StsTask, tables: Mapping[str, SentenceTable]) -> dict[str, Any]:
    """Correlate edit distance with gold score and with the cosine of every row.

    A negative number says that lexically close pairs are (taken for) similar.

    Args:
      task: its scored pairs; all subsets together.
      tables: row -> embeddings of all sentences.

    Returns:
      JSON-safe, unit (`words`, `characters`) -> {"pairs", "small_pairs" (distance <= `SMALL`),
      "rows": {"gold" or row -> {"distance", "normalized", "small_distance", "small_normalized" ->
      {"spearman": x 100, or None with a "reason"}}}}; the `small_` ones are over the small pairs.
    """
    scores = similarities(task, tables)
    found = {}
    for unit in UNITS:
        edits = task_edit_distances(task, unit)
        small = edits.distance <= SMALL
        found[unit] = {
            "pairs": len(small),
            "small_pairs": int(small.sum()),
            "rows": {
                name: {
                    "distance": _spearman(edits.distance, values),
                    "normalized": _spearman(edits.normalized, values),
                    "small_distance": _spearman(edits.distance[small], values[small]),
                    "small_normalized": _spearman(edits.normalized[small], values[small]),
                }
                for name, values in scores.items()
            },
        }
    return found


def _spearman(distance: NDArray[Any], similarity: NDArray[np.float64]) -> dict[str, Any]:
    # `correlation` names its arguments in a reason: its similarities are distances here.
    found: Correlation = correlation(distance, similarity)
    if found.spearman is None:
        reason = found.reason.replace("similarities", "distances")
        return {"spearman": None, "reason": reason.replace("gold scores", "similarities")}
    return {"spearman": 100 * found.spearman}
