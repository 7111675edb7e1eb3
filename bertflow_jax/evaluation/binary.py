"""How well similarities tell pairs labelled 1 from pairs labelled 0: AUC, accuracy and F1.

A score that does not exist is None with a reason, never 0 and never NaN.
"""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertflow_jax.embedding_checks import as_numbers
from bertflow_jax.errors import InputError
from bertflow_jax.evaluation.metrics import as_float64


@dataclasses.dataclass(frozen=True)
class Thresholds:
    """The best thresholds on one set of pairs; a pair is called 1 if similarity >= threshold.

    Attributes:
      accuracy: of the most right answers.
      f1: of the highest F1 of label 1.
    """

    accuracy: float
    f1: float


def auc(similarities: ArrayLike, labels: ArrayLike) -> float:
    """Return the area under the ROC curve.

    With P pairs of label 1, N of label 0 and ranks r (equal similarities share their mean rank):
      AUC = (sum of r over label 1 - P (P + 1) / 2) / (P N),
    the share of (label 1, label 0) combinations in which label 1 is more similar, ties as half
    (Mann and Whitney, 1947).

    Args:
      similarities: float[n].
      labels: [n] of 0 and 1, both present.

    Raises:
      InputError: the lengths differ, a value is unusable, or a label is missing.
    """
    x, y = _checked(similarities, labels)
    positives = int(y.sum())
    negatives = y.size - positives
    if not positives or not negatives:
        raise InputError(f"no AUC: {one_class(y)}")
    import scipy.stats  # as in `metrics`

    rank_sum = float(scipy.stats.rankdata(x)[y].sum())
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


def best_thresholds(similarities: ArrayLike, labels: ArrayLike) -> Thresholds:
    """Return the thresholds with the highest accuracy and F1, of all that there are.

    The candidates are the midpoints between neighbouring distinct similarities (equal ones are
    never told apart), the lowest similarity (all pairs are 1) and the next number above the highest
    (none is). Of several that are equally good the highest one is taken.

    Args:
      similarities: float[n].
      labels: [n] of 0 and 1, both present.

    Raises:
      InputError: as `auc`.
    """
    x, y = _checked(similarities, labels)
    if one_class(y):
        raise InputError(f"no thresholds: {one_class(y)}")
    values, position = np.unique(x, return_inverse=True)
    ones = np.bincount(position, weights=y, minlength=values.size)
    zeros = np.bincount(position, weights=~y, minlength=values.size)
    # Entry k: the pairs called 1 are those of values k, k + 1, ...; entry K: none is.
    true_positives = np.append(np.cumsum(ones[::-1])[::-1], 0.0)
    false_positives = np.append(np.cumsum(zeros[::-1])[::-1], 0.0)
    positives, negatives = true_positives[0], false_positives[0]
    right = true_positives + (negatives - false_positives)
    f1 = 2 * true_positives / (true_positives + false_positives + positives)
    candidates = _candidates(values)
    return Thresholds(*(float(candidates[_last_best(score)]) for score in (right, f1)))


def accuracy(similarities: ArrayLike, labels: ArrayLike, threshold: float) -> float:
    """Return the share of right answers, label 1 being similarity >= threshold."""
    x, y = _checked(similarities, labels)
    if not y.size:
        raise InputError("no accuracy: no pairs")
    return float(np.mean((x >= threshold) == y))


def f1_score(similarities: ArrayLike, labels: ArrayLike, threshold: float) -> float:
    """Return F1 = 2 TP / (2 TP + FP + FN) of label 1, which at least one pair must have."""
    x, y = _checked(similarities, labels)
    if not y.any():
        raise InputError("no F1: no pair has label 1")
    called = x >= threshold
    return float(2 * np.sum(called & y) / (called.sum() + y.sum()))


def one_class(labels: ArrayLike) -> str:
    """Return why labels cannot be told apart: none, or all the same; "" where they can."""
    y = np.asarray(labels, bool)
    if not y.size:
        return "no pairs"
    if y.all() or not y.any():
        return f"all labels are {int(y[0])}"
    return ""


def score_binary(
    pairs: tuple[ArrayLike, ArrayLike], threshold_pairs: tuple[ArrayLike, ArrayLike]
) -> dict[str, Any]:
    """Score labelled pairs, with thresholds chosen on pairs of (it may be) another split.

    Args:
      pairs: (similarities float[n], labels [n]) to score.
      threshold_pairs: those that choose the thresholds.

    Returns:
      JSON-safe: `auc`, `accuracy`, `f1` x 100, `accuracy_threshold` and `f1_threshold` in units of
      the similarity, `positives` (pairs of label 1). None where undefined, with a `reason`.
    """
    (x, y), (chosen_x, chosen_y) = pairs, threshold_pairs
    names = ("auc", "accuracy", "accuracy_threshold", "f1", "f1_threshold")
    result: dict[str, Any] = {**dict.fromkeys(names), "positives": int(np.sum(np.asarray(y)))}
    reason = one_class(y)
    if reason:
        return {**result, "reason": reason}
    result["auc"] = 100 * auc(x, y)
    reason = one_class(chosen_y)
    if reason:
        return {**result, "reason": f"no thresholds: of the pairs that choose them, {reason}"}
    best = best_thresholds(chosen_x, chosen_y)
    result |= {
        "accuracy": 100 * accuracy(x, y, best.accuracy),
        "accuracy_threshold": best.accuracy,
        "f1": 100 * f1_score(x, y, best.f1),
        "f1_threshold": best.f1,
    }
    return result


def _checked(
    similarities: ArrayLike, labels: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    x, y = as_float64(similarities, "similarities"), as_numbers(labels, "labels")
    if x.ndim != 1 or x.shape != y.shape:
        raise InputError(f"{x.shape} similarities for {y.shape} labels: lengths must agree")
    if not np.isfinite(x).all():
        raise InputError("a similarity is NaN or infinite; it cannot be ranked")
    if not np.isin(y, (0, 1)).all():
        raise InputError("a label is neither 0 nor 1")
    return x, y.astype(bool)


def _candidates(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return K + 1 thresholds for K distinct ascending values; see `best_thresholds`."""
    lower, upper = values[:-1], values[1:]
    middle = lower / 2 + upper / 2
    # Between neighbouring floats the midpoint rounds to one of them; the lower would let it in.
    middle = np.where(middle > lower, middle, upper)
    return np.concatenate([values[:1], middle, [np.nextafter(values[-1], np.inf)]])


def _last_best(scores: NDArray[np.float64]) -> int:
    return int(scores.size - 1 - np.argmax(scores[::-1]))
