"""How evenly embeddings use their space: partition function, IsoScore, uniformity, normality.

Everything is computed in float64, where no product of float32 embeddings overflows, on at most
`MAX_ROWS` rows. A measure that does not exist is None with a reason, never NaN.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import scipy.special
from numpy.typing import ArrayLike, NDArray

from bertflow_jax.data.sts import StsTask
from bertflow_jax.errors import InputError
from bertflow_jax.evaluation.metrics import check_finite, cosine_similarity, mean_random_cosine
from bertflow_jax.evaluation.tasks import SentenceTable

MEASURES = (
    "mean_cosine",
    "log_partition",
    "partition_unit",
    "isoscore",
    "uniformity",
    "alignment",
    "skewness",
    "excess_kurtosis",
    "ks_distance",
)
MAX_ROWS = 5_000
POSITIVE_GOLD = 4.0
_ROUNDING = 1e-6  # float32 rounding of a constant c leaves a deviation of up to about 1e-7 |c|
_CHUNK = 512  # rows of a block of the matrix of all pairs

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Measure:
    """A number, or None with the reason why there is none."""

    value: float | None
    reason: str = ""


def isotropy(
    tables: Mapping[str, SentenceTable], tasks: Iterable[StsTask], seed: int = 0
) -> dict[str, dict[str, Any]]:
    """Measure every row (raw, flow, ...) on the same sampled sentences.

    Args:
      tables: row -> embeddings of all sentences.
      tasks: whose pairs with a gold score >= `POSITIVE_GOLD` are the positive pairs of the
        alignment.
      seed: of the sampled rows and random pairs.

    Returns:
      row -> `measures`.
    """
    positive = [
        (first, second)
        for task in tasks
        for pairs in task.subsets.values()
        for first, second, gold in zip(
            pairs.sentences1, pairs.sentences2, pairs.scores, strict=True
        )
        if gold >= POSITIVE_GOLD
    ]
    firsts, seconds = zip(*positive, strict=True) if positive else ((), ())
    return {
        name: measures(table.embeddings, (table(firsts), table(seconds)), seed)
        for name, table in tables.items()
    }


def measures(
    embeddings: ArrayLike, positive: tuple[ArrayLike, ArrayLike], seed: int = 0
) -> dict[str, Any]:
    """Return every measure of one set of embeddings, JSON-safe.

    Args:
      embeddings: float[N, D].
      positive: two arrays float[P, D], the embeddings of pairs that mean the same.
      seed: of the sampled rows and random pairs.

    Returns:
      `MEASURES` -> float or None; "rows" used, "positive_pairs", "constant_dimensions" -> int; and
      "reasons", {measure: reason}, where a measure is None.

    Raises:
      InputError: a value is NaN or infinite, or a shape is wrong.
    """
    x = sample_rows(embeddings, seed)
    mean = mean_random_cosine(embeddings, seed=seed)
    unit, undirected = _directions(x)
    found = {
        "mean_cosine": Measure(mean, "" if mean is not None else _too_few(x)),
        "log_partition": log_partition_ratio(x),
        "partition_unit": undirected or _exponential(log_partition_ratio(unit)),
        "isoscore": isoscore(x),
        "uniformity": uniformity(x),
        "alignment": alignment(*positive),
        **normality(x),
    }
    reasons = {name: measure.reason for name, measure in found.items() if measure.reason}
    return {
        **{name: measure.value for name, measure in found.items()},
        "rows": len(x),
        "positive_pairs": len(np.asarray(positive[0])),
        "constant_dimensions": int(np.sum(~_varying(x))) if len(x) else 0,
        **({"reasons": reasons} if reasons else {}),
    }


def sample_rows(embeddings: ArrayLike, seed: int = 0) -> Array:
    """Return at most `MAX_ROWS` rows as float64, drawn without replacement, in their order.

    The rows drawn depend on N and the seed alone, so all rows of a results.json share them.
    """
    x = np.asarray(embeddings)
    if x.ndim != 2:
        raise InputError(f"embeddings of shape {x.shape}: an array float[N, D] is needed")
    if len(x) > MAX_ROWS:
        x = x[np.sort(np.random.default_rng(seed).choice(len(x), MAX_ROWS, replace=False))]
    x = x.astype(np.float64)
    check_finite(x)
    return x


def log_partition_ratio(x: Array, both_signs: bool = True) -> Measure:
    """Return ln I(W), I(W) = min_c Z(c) / max_c Z(c), Z(c) = sum_i exp(c . w_i).

    Mu & Viswanath (2018), equation 7. c runs over the unit eigenvectors of W^T W. An eigenvector
    has no sign of its own, and Z(c) and Z(-c) differ: both are taken. I = 1 (ln I = 0) is perfectly
    isotropic. I depends on the length of the vectors, and long ones take it below any float: hence
    its logarithm, by log-sum-exp.

    Args:
      x: W, float64[N, D].
      both_signs: False takes each eigenvector once, turned so that its component of largest
        magnitude is positive.
    """
    if len(x) < 2:
        return Measure(None, _too_few(x))
    if not x.any():
        return Measure(None, "all vectors are zero")
    _, vectors = np.linalg.eigh(x.T @ x)
    largest = np.take_along_axis(vectors, np.argmax(np.abs(vectors), axis=0)[None], axis=0)
    projections = x @ (vectors * np.sign(largest))
    log_z = scipy.special.logsumexp(projections, axis=0)
    if both_signs:
        log_z = np.concatenate([log_z, scipy.special.logsumexp(-projections, axis=0)])
    # Adding 0 turns -0.0 into 0.0.
    return Measure(float(log_z.min() - log_z.max()) + 0.0)


def isoscore(x: Array) -> Measure:
    """Return the IsoScore, the share of dimensions that the variance is spread over, in [0, 1].

    Rudman et al. (2022), algorithm 1: the variances lambda along the principal components are
    scaled to length sqrt(D), s = sqrt(D) lambda / |lambda|; the isotropy defect is
    d = |s - 1| / sqrt(2 (D - sqrt(D))), the fraction of dimensions used is
    phi = (D - d^2 (D - sqrt(D)))^2 / D^2, and the score (D phi - 1) / (D - 1). As
    |s - 1|^2 = 2 D - 2 sum s, D phi = (sum lambda)^2 / |lambda|^2, and of the covariance C that is
    (trace C)^2 / |C|_F^2: no principal component has to be found.

    N rows have at most N - 1 directions: with N <= D the score says more of N than of the space.
    """
    dims = x.shape[1]
    if len(x) < 2:
        return Measure(None, _too_few(x))
    if dims < 2:
        return Measure(None, "fewer than two dimensions")
    if not _varying(x).any():
        return Measure(None, "no dimension varies")
    centred = x - x.mean(axis=0)
    covariance = centred.T @ centred  # its scale cancels
    used = np.trace(covariance) ** 2 / np.sum(covariance**2)  # D phi
    return Measure(float(np.clip((used - 1) / (dims - 1), 0.0, 1.0)))


def uniformity(x: Array) -> Measure:
    """Return ln mean_{i<j} exp(-2 |f_i - f_j|^2) of the unit vectors f_i = x_i / |x_i|.

    Wang & Isola (2020), equation 2 with t = 2. Lower is more uniform; 0 is a single point, -4 many
    independent directions.
    """
    if len(x) < 2:
        return Measure(None, _too_few(x))
    unit, undirected = _directions(x)
    if undirected is not None:
        return undirected
    total = 0.0
    for start in range(0, len(unit), _CHUNK):
        block = unit[start : start + _CHUNK]
        # Each pair once: with the rows of the block itself, those after the row.
        inner = np.triu(np.exp(-2 * _squared_distances(block, block)), k=1)
        total += inner.sum() + np.exp(-2 * _squared_distances(block, unit[start + _CHUNK :])).sum()
    return Measure(math.log(total / (len(unit) * (len(unit) - 1) / 2)) + 0.0)


def alignment(first: ArrayLike, second: ArrayLike) -> Measure:
    """Return mean |f_i - g_i|^2 = 2 - 2 cos of the unit vectors of pairs that mean the same.

    Wang & Isola (2020), equation 1 with alpha = 2. Lower is better; 0 is perfect.

    Args:
      first: float[P, D].
      second: float[P, D].
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if not len(a):
        return Measure(None, f"no pair has a gold score of {POSITIVE_GOLD:g} or more")
    for side in (a, b):
        undirected = _directions(side)[1]
        if undirected is not None:
            return undirected
    return Measure(float(np.mean(2 - 2 * cosine_similarity(a, b))) + 0.0)


def normality(x: Array) -> dict[str, Measure]:
    """Compare every dimension, scaled to mean 0 and variance 1, with N(0, 1).

    Dimensions that do not vary are left out. Each measure is a mean over dimensions, 0 for a
    normal distribution:
      skewness: |mean z^3|;
      excess_kurtosis: |mean z^4 - 3|;
      ks_distance: sup_t |F(t) - Phi(t)|, F the empirical distribution of z.
    """
    names = ("skewness", "excess_kurtosis", "ks_distance")
    if len(x) < 2:
        return dict.fromkeys(names, Measure(None, _too_few(x)))
    x = x[:, _varying(x)]
    if not x.shape[1]:
        return dict.fromkeys(names, Measure(None, "no dimension varies"))
    z = np.sort((x - x.mean(axis=0)) / x.std(axis=0), axis=0)
    expected = scipy.special.ndtr(z)
    ranks = np.arange(1, len(z) + 1)[:, None] / len(z)
    distance = np.maximum(ranks - expected, expected - ranks + 1 / len(z)).max(axis=0)
    values = (np.abs(np.mean(z**3, axis=0)), np.abs(np.mean(z**4, axis=0) - 3), distance)
    return {name: Measure(float(v.mean())) for name, v in zip(names, values, strict=True)}


def _exponential(log: Measure) -> Measure:
    return log if log.value is None else Measure(math.exp(log.value))


def _varying(x: Array) -> NDArray[np.bool_]:
    """Return bool[D]: which dimensions vary by more than the rounding of float32."""
    return x.std(axis=0) > _ROUNDING * np.abs(x.mean(axis=0))


def _directions(x: Array) -> tuple[Array, Measure | None]:
    """Return unit rows, and the Measure that says why if some row has no direction."""
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    zero = int(np.sum(norms == 0))
    if zero:
        return x, Measure(None, f"{zero} of {len(x)} vectors are zero and have no direction")
    return x / norms, None


def _squared_distances(a: Array, b: Array) -> Array:
    """Return |a_i - b_j|^2 = 2 - 2 a_i . b_j of unit rows, float64[N, M]."""
    return np.clip(2 - 2 * (a @ b.T), 0.0, 4.0)


def _too_few(x: Array) -> str:
    return f"fewer than two vectors ({len(x)})"
