"""AUC, accuracy and F1 of labelled pairs. Each test names the bug it catches."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from bertflow_jax.errors import InputError
from bertflow_jax.evaluation.binary import (
    accuracy,
    auc,
    best_thresholds,
    f1_score,
    score_binary,
)


def random_pairs(seed, n=300, ties=True):
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=n)
    x = rng.normal(size=n) + labels
    return (np.round(x, 1) if ties else x), labels


def test_auc_by_hand():
    # Bug: ties counted as wins or as losses. Four combinations: one win, one tie, two losses.
    assert auc([0.5, 0.2, 0.5, 0.9], [1, 1, 0, 0]) == 0.5 / 4
    assert auc([0.9, 0.5, 0.5, 0.1], [1, 1, 0, 0]) == 3.5 / 4
    assert auc([1, 1, 1], [1, 0, 0]) == 0.5


@pytest.mark.parametrize("seed", range(6))
def test_auc_is_scikit_learns(seed):
    # Bug: label 0 taken as positive; ordinal ranks where similarities are equal.
    x, y = random_pairs(seed, ties=seed % 2 == 0)
    assert auc(x, y) == pytest.approx(sk.roc_auc_score(y, x), abs=1e-14)
    assert auc(-x, y) == pytest.approx(1 - sk.roc_auc_score(y, x), abs=1e-14)


def test_auc_of_many_pairs_is_exact():
    # Bug: rank sums in float32 or int32, which lose or overflow at the 400,000 pairs of QQP.
    n = 400_000
    labels = np.arange(n) % 2
    similarities = np.arange(n, dtype=float)
    # Odd k has k // 2 + 1 even numbers below it: the mean of 1 ... n / 2 over n / 2.
    assert auc(similarities, labels) == (n / 2 + 1) / n


@pytest.mark.parametrize("seed", range(4))
def test_accuracy_and_f1_are_scikit_learns(seed):
    # Bug: a similarity equal to the threshold on the wrong side; F1 of label 0.
    x, y = random_pairs(seed)
    for threshold in (x[0], -9.0, 9.0, 0.55):
        called = x >= threshold
        assert accuracy(x, y, threshold) == pytest.approx(sk.accuracy_score(y, called))
        assert f1_score(x, y, threshold) == pytest.approx(sk.f1_score(y, called), abs=1e-14)


def every_threshold(x):
    """All that can differ: between any two values, below all and above all."""
    values = sorted(set(x))
    between = [(low + high) / 2 for low, high in itertools.pairwise(values)]
    return [values[0] - 1, *between, values[-1] + 1]


pairs = st.lists(
    st.tuples(st.sampled_from([-1.5, -0.25, 0.0, 0.125, 0.5, 2.0]), st.integers(0, 1)),
    min_size=2,
    max_size=12,
).filter(lambda found: len({label for _, label in found}) == 2)


@settings(deadline=None, max_examples=300)
@given(pairs)
def test_best_thresholds_against_brute_force(found):
    # Bug: a threshold search that skips an end, breaks ties apart, or counts from one side.
    x, y = np.array([s for s, _ in found]), np.array([label for _, label in found])
    best = best_thresholds(x, y)
    tried = every_threshold(x)
    assert accuracy(x, y, best.accuracy) == max(accuracy(x, y, t) for t in tried)
    assert f1_score(x, y, best.f1) == max(f1_score(x, y, t) for t in tried)
    # Never on a value that occurs with a lower neighbour: unseen pairs lie on both sides of it.
    inside = [t for t in (best.accuracy, best.f1) if x.min() < t <= x.max()]
    assert not set(inside) & set(x)
    assert auc(x, y) == pytest.approx(sk.roc_auc_score(y, x), abs=1e-14)


def test_of_equal_thresholds_the_highest_is_taken():
    # Bug: the result depends on the order of the pairs.
    x, y = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0, 1, 0, 1])
    order = [2, 0, 3, 1]
    # Between 0 and 1 and between 2 and 3, three of four are right.
    assert best_thresholds(x, y).accuracy == best_thresholds(x[order], y[order]).accuracy == 2.5


def test_neighbouring_floats_are_told_apart():
    # Bug: their midpoint rounds to the lower one, which is then called 1.
    low = 0.1
    high = np.nextafter(low, 1)
    best = best_thresholds([low, high], [0, 1])
    assert low < best.accuracy <= high
    assert accuracy([low, high], [0, 1], best.accuracy) == 1.0


def test_useless_similarities_call_all_pairs_the_same():
    # Bug: equal similarities told apart, an accuracy that the vectors cannot give.
    x, y = np.ones(5), np.array([1, 0, 0, 0, 0])
    best = best_thresholds(x, y)
    assert accuracy(x, y, best.accuracy) == 0.8
    assert f1_score(x, y, best.f1) == pytest.approx(2 / 6)


def test_thresholds_come_from_the_other_split():
    # Bug: thresholds chosen on the pairs that are scored.
    test = ([0.1, 0.4, 0.6, 0.9], [0, 1, 1, 1])
    dev = ([0.2, 0.4, 0.6, 0.8], [0, 0, 1, 1])
    found = score_binary(test, dev)
    assert found == {
        "auc": 100.0,
        "accuracy": 75.0,
        "accuracy_threshold": 0.5,
        "f1": pytest.approx(80.0),
        "f1_threshold": 0.5,
        "positives": 3,
    }
    assert score_binary(test, test)["accuracy"] == 100.0


@pytest.mark.parametrize(
    ("labels", "chosen", "reason", "scored"),
    [
        ([1, 1], [0, 1], "all labels are 1", False),
        ([0, 0], [0, 1], "all labels are 0", False),
        ([], [0, 1], "no pairs", False),
        ([0, 1], [0, 0], "no thresholds: of the pairs that choose them, all labels are 0", True),
    ],
)
def test_one_class_is_null_with_a_reason(labels, chosen, reason, scored):
    # Bug: NaN, which is no JSON, or 0 or 100 that looks like a score.
    similarities = [0.1, 0.9][: len(labels)]
    found = score_binary((similarities, labels), ([0.2, 0.8], chosen))
    assert found["reason"] == reason
    assert found["auc"] == (100.0 if scored else None)
    assert (found["accuracy"], found["f1"], found["accuracy_threshold"]) == (None, None, None)
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(
    ("similarities", "labels", "message"),
    [
        ([0.1, 0.2], [1], "lengths must agree"),
        ([0.1, np.nan], [0, 1], "NaN or infinite"),
        ([0.1, 0.2], [0, 2], "neither 0 nor 1"),
        ([0.1, 0.2], [1, 1], "all labels are 1"),
    ],
)
def test_unusable_pairs_are_refused(similarities, labels, message):
    # Bug: NaN ranked as the highest; a gold score of 0 to 5 taken for a label.
    for function in (auc, best_thresholds):
        with pytest.raises(InputError, match=message):
            function(similarities, labels)
