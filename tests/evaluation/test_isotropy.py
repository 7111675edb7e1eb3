"""Isotropy measures against hand-computed cases and scipy. Each test names the bug it catches."""

import json
import math

import numpy as np
import pytest
import scipy.stats

from bertflow_jax.data.sts import ScoredPairs, StsTask
from bertflow_jax.errors import InputError
from bertflow_jax.evaluation.isotropy import (
    MAX_ROWS,
    MEASURES,
    alignment,
    isoscore,
    isotropy,
    log_partition_ratio,
    measures,
    normality,
    sample_rows,
    uniformity,
)
from bertflow_jax.evaluation.tasks import SentenceTable

E1, E2 = [1.0, 0.0], [0.0, 1.0]


def test_partition_function_of_a_cross_is_one():
    # Bug: a value other than 0 = ln 1 for the isotropic case.
    assert log_partition_ratio(np.array([E1, E2, [-1, 0], [0, -1]])).value == 0.0


def isoscore_by_steps(x):
    """Rudman et al.'s algorithm 1, step by step, through the principal components."""
    dims = x.shape[1]
    components = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[2]
    variances = np.cov((x @ components.T).T).diagonal()
    scaled = np.sqrt(dims) * variances / np.linalg.norm(variances)
    defect = np.linalg.norm(scaled - 1) / np.sqrt(2 * (dims - np.sqrt(dims)))
    used = (dims - defect**2 * (dims - np.sqrt(dims))) ** 2 / dims**2
    return (dims * used - 1) / (dims - 1)


def test_isoscore_of_a_cross_a_line_and_between():
    # Bug: standard deviations for variances, no centring, or the defect returned for the score.
    cross = np.array([E1, [-1, 0], E2, [0, -1]]) + 7.0
    assert isoscore(cross).value == pytest.approx(1.0, abs=1e-12)
    assert isoscore(np.array([[1.0, 2], [2, 4], [5, 10]])).value == pytest.approx(0, abs=1e-12)
    # Variances 4 : 1, so (4 + 1)^2 / (16 + 1) - 1.
    assert isoscore(cross * [2, 1]).value == pytest.approx(8 / 17, abs=1e-12)
    x = np.random.default_rng(0).normal(size=(40, 5)) @ np.diag([9, 3, 2, 1, 0.1]) + 4
    assert isoscore(x).value == pytest.approx(isoscore_by_steps(x), abs=1e-12)


def test_uniformity_by_hand():
    # Bug: a vector paired with itself, ordered pairs counted once, vectors that are not unit.
    assert uniformity(np.array([E1, [0, 5]])).value == pytest.approx(-4, abs=1e-12)
    three = uniformity(np.array([E1, E2, [-3, 0]])).value
    assert three == pytest.approx(math.log((2 * math.exp(-4) + math.exp(-8)) / 3), abs=1e-12)
    assert uniformity(np.array([E1, E1])).value == 0.0


def test_uniformity_over_several_blocks_is_that_over_one(monkeypatch):
    # Bug: pairs across blocks forgotten or counted twice.
    x = np.random.default_rng(1).normal(size=(23, 3))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    expected = math.log(np.mean(np.exp(-2 * scipy.spatial.distance.pdist(unit, "sqeuclidean"))))
    monkeypatch.setattr("bertflow_jax.evaluation.isotropy._CHUNK", 5)
    assert uniformity(x).value == pytest.approx(expected, abs=1e-12)


def test_alignment_by_hand():
    # Bug: the distance not squared, or of vectors that are not unit.
    assert alignment([E1, E1], [[3, 0], E2]).value == pytest.approx(1.0, abs=1e-12)


def test_normality_against_scipy():
    # Bug: sample moments, |mean| for mean | |, one-sided KS, or dims not standardised.
    rng = np.random.default_rng(2)
    x = np.stack([rng.exponential(size=300), 5 - rng.gamma(2, size=300), rng.normal(9, 4, 300)], 1)
    found = {name: measure.value for name, measure in normality(x).items()}
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    expected = {
        "skewness": np.abs(scipy.stats.skew(x)).mean(),
        "excess_kurtosis": np.abs(scipy.stats.kurtosis(x)).mean(),
        "ks_distance": np.mean([scipy.stats.kstest(z[:, d], "norm").statistic for d in range(3)]),
    }
    assert found == pytest.approx(expected, abs=1e-12)
    # A constant dimension has no standardised form and must not become NaN or count as 0.
    constant = np.concatenate([x, np.full((300, 1), 0.1)], axis=1)
    assert {n: m.value for n, m in normality(constant).items()} == pytest.approx(found)


def undefined(x, positive=((), ())):
    side = [np.asarray(p, float).reshape(-1, np.shape(x)[1]) for p in positive]
    found = measures(np.asarray(x, float), side)
    json.dumps(found, allow_nan=False)
    assert {n for n in MEASURES if found[n] is None} == set(found.get("reasons", {}))
    return found


def test_degenerate_embeddings_have_reasons_and_no_nan():
    # Bug: NaN in results.json, a warning of numpy, or 0 for a number that does not exist.
    with np.errstate(all="raise"):
        one = undefined([[1, 2]])
        assert all(one[name] is None for name in MEASURES)
        assert one["reasons"]["isoscore"] == "fewer than two vectors (1)"
        assert one["reasons"]["alignment"] == "no pair has a gold score of 4 or more"
        assert all(undefined(np.zeros((0, 2)))[name] is None for name in MEASURES)
        same = undefined([[0.1, 2]] * 3, ([E1], [E1]))
        assert same["reasons"].keys() == {"isoscore", "skewness", "excess_kurtosis", "ks_distance"}
        assert same["reasons"]["isoscore"] == "no dimension varies"
        assert (same["uniformity"], same["constant_dimensions"]) == (0.0, 2)
        zero = undefined([E1, [0, 0], [0.5, 2]], ([E1], [[0, 0]]))
        assert zero["reasons"].keys() == {"partition_unit", "uniformity", "alignment"}
        assert zero["reasons"]["uniformity"] == "1 of 3 vectors are zero and have no direction"
        assert undefined(np.zeros((3, 2)))["reasons"]["log_partition"] == "all vectors are zero"
        line = undefined([[1.0], [2.0], [4.0]])
        assert line["reasons"]["isoscore"] == "fewer than two dimensions"


def test_huge_values_do_not_overflow():
    # Bug: squares taken in float32, or exp of a projection.
    x = np.array([E1, E2, [-1, 0.5], [0.3, -1]])
    with np.errstate(over="raise"):
        big = measures((x * 1e37).astype(np.float32), (x[:1], x[1:2]))
    assert big["isoscore"] == pytest.approx(isoscore(x).value, rel=1e-6)
    assert big["uniformity"] == pytest.approx(uniformity(x).value, rel=1e-6)
    assert -1e38 < big["log_partition"] < -1e36


def test_bad_arrays_are_refused():
    # Bug: a NaN embedding becomes a NaN measure.
    with pytest.raises(InputError, match="row 1"):
        sample_rows(np.array([[1.0, 2], [np.nan, 1]]))
    with pytest.raises(InputError, match=r"float\[N, D\]"):
        sample_rows(np.ones(3))


def test_large_tables_are_sampled_alike_for_every_row():
    # Bug: raw and flow measured on different sentences; the whole table in float64.
    x = np.arange(MAX_ROWS + 50.0)[:, None]
    found = sample_rows(x, seed=3)
    assert len(found) == len(np.unique(found)) == MAX_ROWS
    np.testing.assert_array_equal(found, sample_rows(x, seed=3))
    np.testing.assert_array_equal(found * 2, sample_rows(x * 2, seed=3))
    assert not np.array_equal(found, sample_rows(x, seed=4))


def test_positive_pairs_are_those_of_gold_four_and_more_of_every_task():
    # Bug: a pair of gold 4.0 left out, or all pairs taken.
    table = SentenceTable({"a": 0, "b": 1, "c": 2}, np.array([E1, E2, [-1, 0]]))
    first = StsTask("stsb", {"x": ScoredPairs("x", ["a", "a"], ["b", "c"], np.array([4.0, 3.9]))})
    second = StsTask("sts12", {"y": ScoredPairs("y", ["a"], ["a"], np.array([5.0]))})
    found = isotropy({"raw": table}, [first, second])["raw"]
    assert (found["positive_pairs"], found["rows"]) == (2, 3)
    assert found["alignment"] == pytest.approx((2 + 0) / 2)
