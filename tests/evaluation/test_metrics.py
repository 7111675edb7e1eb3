"""Numbers a hand can check. Each test names the bug it catches."""

import numpy as np
import pytest

from bertflow_jax.errors import InputError
from bertflow_jax.evaluation.metrics import (
    correlation,
    cosine_similarity,
    mean_random_cosine,
    random_pair_cosines,
)


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


def test_cosine_is_computed_in_float64():
    # Bug: float32 accumulation. (1, 1e-5) against (1, -1e-5): 1 - 2e-10, which float32 rounds to 1.
    cosine = cosine_similarity(np.float32([[1, 1e-5]]), np.float32([[1, -1e-5]]))
    assert cosine.dtype == np.float64
    assert cosine[0] == pytest.approx(1 - 2e-10, abs=1e-12)


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
