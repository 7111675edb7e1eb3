"""Cosine similarity, correlations and their aggregation over the subsets of a task, in float64.

A correlation that does not exist is None with a reason, never 0 and never NaN.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertflow_jax.embedding_checks import as_numbers
from bertflow_jax.errors import InputError
from bertflow_jax.unit_rows import unit_rows

AGGREGATIONS = ("all", "mean", "wmean")
# Parallel vectors give 1 +- 1e-15: without rounding, a collapsed encoder's noise would be ranked.
_DECIMALS = 12


@dataclasses.dataclass(frozen=True)
class Correlation:
    """Agreement of similarities with gold scores, each in [-1, 1] or None with a reason.

    Attributes:
      spearman: rank correlation, ties at their average rank.
      pearson: linear correlation.
      reason: why both are None; "" where they are defined.
    """

    spearman: float | None
    pearson: float | None
    reason: str = ""


def cosine_similarity(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Return cos(a_i, b_i) = a_i . b_i / (|a_i| |b_i|) of matching rows.

    Args:
      a: float[N, D].
      b: float[N, D].

    Returns:
      float64[N] in [-1, 1], rounded to 12 decimals; 0 where either vector is zero.

    Raises:
      InputError: the shapes differ, or a value is NaN or infinite (the row is named), masked,
        complex or no number.
    """
    left, right = matching_rows(a, b)
    cosine = np.sum(unit_rows(left) * unit_rows(right), axis=1)
    return np.round(np.clip(cosine, -1.0, 1.0), _DECIMALS)


def matching_rows(a: ArrayLike, b: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two float[N, D] as float64; raises InputError for other shapes or NaN (row named)."""
    left, right = as_float64(a, "embeddings"), as_float64(b, "embeddings")
    if left.ndim != 2 or left.shape != right.shape:
        raise InputError(
            f"embeddings of shapes {left.shape} and {right.shape}: two arrays float[N, D] of the "
            "same shape are needed"
        )
    check_finite(left)
    check_finite(right)
    return left, right


def as_float64(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return `as_numbers` of values as float64; raises InputError, also for other objects."""
    array = as_numbers(values, name)
    try:
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers ({error})") from error


def check_finite(embeddings: NDArray[np.floating]) -> None:
    """Raise InputError naming the first row with NaN or infinity in it."""
    bad = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
    if bad.size:
        raise InputError(
            f"{bad.size} of {len(embeddings)} embeddings are not finite (first: row {bad[0]}); "
            "a score of them would mean nothing: check the model and its compute dtype"
        )


def correlation(similarities: ArrayLike, gold: ArrayLike) -> Correlation:
    """Correlate similarities with gold scores.

    Pearson r = sum (x - mean x)(y - mean y) / sqrt(sum (x - mean x)^2 sum (y - mean y)^2);
    Spearman is r of the ranks, where equal values share the mean of their ranks.

    Args:
      similarities: float[N].
      gold: float[N].

    Returns:
      Both values, or None with a reason: fewer than two pairs, or one side constant.

    Raises:
      InputError: the lengths differ, or a value is not finite, masked, complex or no number.
    """
    x, y = as_float64(similarities, "similarities"), as_float64(gold, "gold scores")
    if x.ndim != 1 or x.shape != y.shape:
        raise InputError(f"{x.shape} similarities for {y.shape} gold scores: lengths must agree")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InputError("a similarity or gold score is NaN or infinite; no correlation exists")
    if x.size < 2:
        return Correlation(None, None, f"fewer than two scored pairs ({x.size})")
    for values, name in ((x, "similarities"), (y, "gold scores")):
        if np.ptp(values) == 0:
            return Correlation(None, None, f"all {name} are equal")
    # Loaded here: it takes longer than all else that a command imports to check its flags.
    import scipy.stats

    return Correlation(
        float(scipy.stats.spearmanr(x, y).statistic), float(scipy.stats.pearsonr(x, y).statistic)
    )


def aggregate(
    subsets: Mapping[str, tuple[ArrayLike, ArrayLike]],
) -> tuple[dict[str, Correlation], dict[str, Correlation]]:
    """Score a task from the similarities and gold scores of its subsets.

    With r_k the correlation of subset k and n_k its pairs:
      all: one correlation over the concatenated subsets (SBERT, SimCSE, MTEB);
      mean: sum_k r_k / K;
      wmean: sum_k n_k r_k / sum_k n_k (BERT-flow, BERT-whitening).
    mean and wmean are None, with the subsets named, if any r_k is undefined: leaving it out would
    give a number of another task. `all` may still be defined.

    Args:
      subsets: name -> (similarities float[n_k], gold float[n_k]).

    Returns:
      (aggregation -> correlation, subset -> correlation).
    """
    pairs = {
        name: (as_float64(x, "similarities"), as_float64(y, "gold scores"))
        for name, (x, y) in subsets.items()
    }
    scores = {name: correlation(x, y) for name, (x, y) in pairs.items()}
    total = {
        "all": correlation(
            np.concatenate([x for x, _ in pairs.values()]),
            np.concatenate([y for _, y in pairs.values()]),
        )
    }
    sizes = np.array([len(x) for x, _ in pairs.values()], np.float64)
    total["mean"] = _weighted(scores, np.ones_like(sizes))
    total["wmean"] = _weighted(scores, sizes)
    return total, scores


def _weighted(scores: Mapping[str, Correlation], weights: NDArray[np.float64]) -> Correlation:
    undefined = [f"{name} ({score.reason})" for name, score in scores.items() if score.reason]
    if undefined:
        return Correlation(None, None, f"undefined subset: {', '.join(undefined)}")
    return Correlation(
        float(np.average([score.spearman for score in scores.values()], weights=weights)),
        float(np.average([score.pearson for score in scores.values()], weights=weights)),
    )


def random_pair_cosines(
    embeddings: ArrayLike, pairs: int = 10_000, seed: int = 0
) -> NDArray[np.float64]:
    """Return cosines of pairs of different rows, drawn with replacement.

    Isotropic embeddings have mean 0 and standard deviation near 1 / sqrt(D); raw BERT embeddings
    lie in a cone, with a mean far above 0.

    Args:
      embeddings: float[N, D].
      pairs: number of pairs drawn.
      seed: of the draw; the same seed and N draw the same pairs.

    Returns:
      float64[pairs]; empty for N < 2.
    """
    x = as_numbers(embeddings, "embeddings")
    if len(x) < 2:
        return np.empty(0)
    rng = np.random.default_rng(seed)
    first = rng.integers(len(x), size=pairs)
    second = (first + rng.integers(1, len(x), size=pairs)) % len(x)
    return cosine_similarity(x[first], x[second])


def mean_random_cosine(embeddings: ArrayLike, pairs: int = 10_000, seed: int = 0) -> float | None:
    """Return the mean of `random_pair_cosines`, or None for fewer than two embeddings."""
    cosines = random_pair_cosines(embeddings, pairs, seed)
    return float(cosines.mean()) if cosines.size else None
