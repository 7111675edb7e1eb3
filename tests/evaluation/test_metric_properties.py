"""What holds for any similarities and any embeddings. Each test names the bug it catches."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bertflow_jax.evaluation.isotropy import (
    isoscore,
    log_partition_ratio,
    measures,
    uniformity,
)
from bertflow_jax.evaluation.metrics import aggregate, correlation, cosine_similarity
from bertflow_jax.evaluation.similarities import SIMILARITIES

check = settings(deadline=None, max_examples=100)
# Few distinct values, so that there are ties.
values = st.integers(-8, 8).map(lambda k: k / 4)
columns = st.integers(2, 12).flatmap(
    lambda n: st.tuples(
        st.lists(values, min_size=n, max_size=n), st.lists(values, min_size=n, max_size=n)
    )
)
subsets = st.lists(columns, min_size=1, max_size=4)
numbers = st.floats(-1e6, 1e6, width=32)


def arrays(rows=(1, 8), dims=(1, 5)):
    shape = st.tuples(st.integers(*rows), st.integers(*dims))
    return shape.flatmap(lambda s: hnp.arrays(np.float32, s, elements=numbers))


two_arrays = st.tuples(st.integers(1, 6), st.integers(1, 5)).flatmap(
    lambda s: st.tuples(*[hnp.arrays(np.float32, s, elements=numbers)] * 2)
)


@check
@given(columns)
def test_correlations_are_scipys_and_bounded(pair):
    """Bug: ties ranked in their order, a value outside [-1, 1], None where there is a number."""
    x, y = map(np.array, pair)
    score = correlation(x, y)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert (score.spearman, score.pearson) == (None, None)
        assert score.reason
        return
    ranks = [scipy.stats.rankdata(side) for side in (x, y)]
    assert score.spearman == pytest.approx(np.corrcoef(*ranks)[0, 1], abs=1e-9)
    assert score.pearson == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-9)
    assert max(abs(score.spearman), abs(score.pearson)) <= 1 + 1e-12
    swapped, turned = correlation(y, x), correlation(-x, y)
    assert swapped.spearman == pytest.approx(score.spearman, abs=1e-12)
    assert turned.spearman == pytest.approx(-score.spearman, abs=1e-12)
    assert turned.pearson == pytest.approx(-score.pearson, abs=1e-12)


@check
@given(columns, st.permutations(range(12)))
def test_spearman_sees_the_order_alone(pair, order):
    """Bug: values in the place of ranks, or a score that depends on the order of the pairs."""
    x, y = map(np.array, pair)
    score = correlation(x, y)
    assume(not score.reason)
    for same in (np.exp(x), x**3, 7 * x - 100):
        assert correlation(same, y).spearman == pytest.approx(score.spearman, abs=1e-12)
    assert correlation(3 * x + 5, y).pearson == pytest.approx(score.pearson, abs=1e-9)
    shuffled = [i for i in order if i < len(x)]
    assert correlation(x[shuffled], y[shuffled]).spearman == pytest.approx(
        score.spearman, abs=1e-12
    )


@check
@given(subsets)
def test_aggregations_of_any_subsets(parts):
    """Bug: mean and wmean mixed up, an undefined subset left out of them, all not pooled."""
    named = {str(i): part for i, part in enumerate(parts)}
    total, scores = aggregate(named)
    pooled = correlation(*(np.concatenate([np.array(p[i]) for p in parts]) for i in (0, 1)))
    assert total["all"] == pooled
    if any(score.reason for score in scores.values()):
        for name in ("mean", "wmean"):
            assert total[name].spearman is None
            assert all(n in total[name].reason for n, s in scores.items() if s.reason)
        return
    each = [score.spearman for score in scores.values()]
    sizes = [len(x) for x, _ in parts]
    assert total["mean"].spearman == pytest.approx(sum(each) / len(each), abs=1e-12)
    weighted = sum(n * r for n, r in zip(sizes, each, strict=True)) / sum(sizes)
    assert total["wmean"].spearman == pytest.approx(weighted, abs=1e-12)
    assert min(each) - 1e-12 <= total["wmean"].spearman <= max(each) + 1e-12
    if len(parts) == 1:
        # A task of one subset has one value: that of stsb and sickr under all three names.
        assert total["all"].spearman == pytest.approx(total["mean"].spearman, abs=1e-12)
    if len(set(sizes)) == 1:
        assert total["mean"].pearson == pytest.approx(total["wmean"].pearson, abs=1e-12)


@check
@given(two_arrays, st.floats(1e-3, 1e3))
def test_cosine_of_any_rows(pair, factor):
    """Bug: a length that stays in it, NaN at a zero row, another value for (b, a) than (a, b)."""
    a, b = pair
    cosine = cosine_similarity(a, b)
    assert np.isfinite(cosine).all()
    assert np.abs(cosine).max() <= 1
    np.testing.assert_array_equal(cosine, cosine_similarity(b, a))
    scaled = np.asarray(a, np.float64) * factor
    np.testing.assert_allclose(cosine_similarity(scaled, b), cosine, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(cosine_similarity(-a, b), -cosine)
    zero = ~a.any(axis=1) | ~b.any(axis=1)
    assert not cosine[zero].any()
    np.testing.assert_array_equal(cosine_similarity(a, a), a.any(axis=1))


@check
@given(two_arrays)
def test_similarities_are_symmetric_and_largest_at_the_row_itself(pair):
    """Bug: a distance without its minus, so that the farthest pair is the most similar."""
    a, b = pair
    for name, similarity in SIMILARITIES.items():
        found = similarity(a, b)
        assert np.isfinite(found).all()
        np.testing.assert_array_equal(found, similarity(b, a))
        if name in ("euclidean", "manhattan"):
            assert (found <= 0).all()
            assert not similarity(a, a).any()


@check
@given(arrays(rows=(1, 10), dims=(1, 4)), st.integers(0, 2**31))
def test_isotropy_measures_have_their_bounds_and_their_symmetries(x, seed):
    """Bug: NaN, a score above 1, or a number that changes when the space is only turned."""
    found = measures(x, (x[:1], x[:1]))
    bounds = {
        "mean_cosine": (-1, 1),
        "log_partition": (-np.inf, 0),
        "partition_unit": (0, 1),
        "isoscore": (0, 1),
        "uniformity": (-8, 0),
        "alignment": (0, 4),
        "skewness": (0, np.inf),
        "excess_kurtosis": (0, np.inf),
        "ks_distance": (0, 1),
    }
    for name, (low, high) in bounds.items():
        if found[name] is None:
            assert found["reasons"][name]
        else:
            assert low - 1e-12 <= found[name] <= high + 1e-12, name
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(x.shape[1], x.shape[1])))[0]
    # Well-conditioned rows: of a cloud that is a point, what varies is rounding.
    x = rng.normal(size=(12, x.shape[1])) + rng.normal(size=x.shape[1])
    for measure in (isoscore, uniformity):
        before, after = measure(x), measure(x @ turn)
        assert (before.value is None) == (after.value is None)
        if before.value is not None:
            assert after.value == pytest.approx(before.value, abs=1e-9)
            assert measure(x * 37.5).value == pytest.approx(before.value, abs=1e-9)
    if x.shape[1] > 1:
        # A covariance does not depend on the origin; directions do, and so uniformity.
        assert isoscore(x + 3.0).value == pytest.approx(isoscore(x).value, abs=1e-9)
    assert log_partition_ratio(x @ turn).value == pytest.approx(
        log_partition_ratio(x).value, abs=1e-8
    )
    assert log_partition_ratio(-x).value == pytest.approx(log_partition_ratio(x).value, abs=1e-8)
