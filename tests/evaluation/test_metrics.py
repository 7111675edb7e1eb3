"""Numbers a hand can check. Each test names the bug it catches."""

import numpy as np
import pytest

from bertflow_jax.errors import InputError
from bertflow_jax.evaluation.metrics import (
    aggregate,
    correlation,
    cosine_similarity,
    mean_random_cosine,
    random_pair_cosines,
)

A = ([0.9, 0.8, 0.7, 0.6], [4, 3, 2, 1])
B = ([0.2, 0.3, 0.1], [5, 4.5, 4])


def test_three_aggregations_of_one_task():
    # Bug: pooled and per-subset scores taken for each other; they differ by 118 points here.
    total, subsets = aggregate({"A": A, "B": B})
    assert subsets["A"].spearman == pytest.approx(1.0, abs=1e-12)
    assert subsets["B"].spearman == pytest.approx(0.5, abs=1e-12)
    assert total["mean"].spearman == pytest.approx(0.75, abs=1e-12)
    assert total["wmean"].spearman == pytest.approx(0.785714, abs=1e-6)
    assert total["all"].spearman == pytest.approx(-0.432450, abs=1e-6)
    assert total["all"].pearson == pytest.approx(-0.495285, abs=1e-6)
    assert type(total["all"].spearman) is float
    assert type(total["wmean"].pearson) is float


def test_ties_share_their_mean_rank():
    # Bug: ordinal ranks. Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: r = 4.5 / sqrt(4.5 * 5).
    assert correlation([0.1, 0.5, 0.5, 0.9], [1, 2, 3, 4]).spearman == pytest.approx(
        4.5 / np.sqrt(4.5 * 5), abs=1e-12
    )


def test_spearman_sees_ranks_and_pearson_values():
    # Bug: one statistic reported under both names.
    score = correlation([1, 2, 3, 4], [1, 4, 9, 16])
    assert score.spearman == pytest.approx(1.0, abs=1e-12)
    assert score.pearson == pytest.approx(25 / np.sqrt(5 * 129), abs=1e-12)


@pytest.mark.parametrize(
    ("sims", "gold", "reason"),
    [
        ([], [], "fewer than two scored pairs (0)"),
        ([0.5], [3], "fewer than two scored pairs (1)"),
        ([0.5, 0.5, 0.5], [1, 2, 3], "all similarities are equal"),
        ([0.1, 0.2, 0.3], [2, 2, 2], "all gold scores are equal"),
    ],
)
def test_undefined_is_none_with_a_reason(sims, gold, reason):
    # Bug: NaN that poisons an average, or 0 that looks like a score.
    score = correlation(sims, gold)
    assert (score.spearman, score.pearson, score.reason) == (None, None, reason)


def test_undefined_subset_makes_its_means_undefined_but_not_all():
    # Bug: a collapsed subset left out of the mean, which flatters the model.
    total, subsets = aggregate({"A": A, "tiny": ([0.5], [3])})
    assert subsets["A"].spearman == pytest.approx(1.0)
    assert total["mean"].spearman is None
    assert total["wmean"].reason == "undefined subset: tiny (fewer than two scored pairs (1))"
    # .5 against gold 3 added to A: ranks 1, 2, 3, 4, 5 against 3.5, 1, 2, 3.5, 5.
    assert total["all"].spearman == pytest.approx(5.5 / np.sqrt(10 * 9.5), abs=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_that_is_no_number_is_refused(bad):
    # Bug: rank of NaN is some rank, and the score looks fine.
    with pytest.raises(InputError, match="1 of 3 embeddings are not finite \\(first: row 1\\)"):
        cosine_similarity(np.array([[1, 0], [bad, 0], [0, 1]]), np.ones((3, 2)))
    with pytest.raises(InputError, match="NaN or infinite"):
        correlation([0.1, bad], [1, 2])


def test_cosine_by_hand():
    # Bug: dot product without norms; NaN at a zero vector; overflow of squares.
    a = np.array([[3, 4], [1, 0], [0, 0], [1e200, 0], [1e-200, 0]])
    b = np.array([[4, 3], [-2, 0], [1, 1], [1e200, 1e200], [1e-200, 0]])
    expected = [24 / 25, -1, 0, np.sqrt(0.5), 1]
    np.testing.assert_allclose(cosine_similarity(a, b), expected, rtol=0, atol=1e-12)


def test_cosine_is_computed_in_float64():
    # Bug: float32 accumulation. (1, 1e-5) against (1, -1e-5): 1 - 2e-10, which float32 rounds to 1.
    cosine = cosine_similarity(np.float32([[1, 1e-5]]), np.float32([[1, -1e-5]]))
    assert cosine.dtype == np.float64
    assert cosine[0] == pytest.approx(1 - 2e-10, abs=1e-12)


def test_a_collapsed_encoder_is_undefined_not_noise():
    # Bug: parallel vectors of different length give cosines 1 +- 1e-16, and the noise is ranked.
    direction = np.random.default_rng(0).normal(size=64)
    a = np.outer(np.linspace(0.1, 7, 50), direction).astype(np.float32)
    score = correlation(cosine_similarity(a, a[::-1]), np.arange(50))
    assert score.reason == "all similarities are equal"


@pytest.mark.parametrize("shapes", [((3, 2), (2, 2)), ((2, 3), (2, 2)), ((2,), (2,))])
def test_shapes_must_match(shapes):
    # Bug: broadcasting makes a score of unpaired rows.
    with pytest.raises(InputError, match="same shape"):
        cosine_similarity(np.ones(shapes[0]), np.ones(shapes[1]))
    with pytest.raises(InputError, match="lengths must agree"):
        correlation([1, 2, 3], [1, 2])


def test_random_pairs_are_of_different_rows_and_seeded():
    # Bug: a row paired with itself counts as cosine 1.
    x = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert mean_random_cosine(x, 1000) == -1.0
    y = np.random.default_rng(1).normal(size=(50, 4))
    np.testing.assert_array_equal(random_pair_cosines(y, 99, 3), random_pair_cosines(y, 99, 3))
    assert not np.array_equal(random_pair_cosines(y, 99, 3), random_pair_cosines(y, 99, 4))
    assert mean_random_cosine(x[:1]) is None


def test_random_pairs_estimate_the_mean_over_all_pairs():
    # Bug: neighbours only, or a biased second index.
    x = np.random.default_rng(2).normal(size=(30, 5)) + np.array([1.0, 0, 0, 0, 0])
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    exact = ((unit @ unit.T).sum() - 30) / (30 * 29)
    assert mean_random_cosine(x, 200_000) == pytest.approx(exact, abs=0.005)
