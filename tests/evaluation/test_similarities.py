"""Similarities against hand-computed and scipy's values. Each test names the bug it catches."""

import numpy as np
import pytest
from scipy.spatial import distance

from bertflow_jax.data.sts import ScoredPairs, StsTask
from bertflow_jax.errors import InputError
from bertflow_jax.evaluation import similarities
from bertflow_jax.evaluation.similarities import (
    SIMILARITIES,
    dot_similarity,
    euclidean_similarity,
    manhattan_similarity,
    pair_similarities,
)
from bertflow_jax.evaluation.tasks import evaluate_task, task_similarities

UNBOUNDED = [dot_similarity, euclidean_similarity, manhattan_similarity]


def test_by_hand():
    # Bug: a distance that grows with distance, a squared one, a mean instead of a sum.
    a, b = np.array([[1.0, 2.0], [0.0, 0.0], [3.0, -1.0]]), np.array([[4.0, 6.0], [0, 0], [3, -1]])
    np.testing.assert_array_equal(dot_similarity(a, b), [16, 0, 10])
    np.testing.assert_array_equal(euclidean_similarity(a, b), [-5, 0, 0])
    np.testing.assert_array_equal(manhattan_similarity(a, b), [-7, 0, 0])
    assert not np.signbit(euclidean_similarity(a, b)[1:]).any()


def test_against_scipy():
    # Bug: a norm over the wrong axis, float32 arithmetic.
    a, b = np.random.default_rng(0).normal(size=(2, 40, 7)).astype(np.float32)
    rows = list(zip(a.astype(float), b.astype(float), strict=True))
    for name, expected in {
        "cosine": [1 - distance.cosine(u, v) for u, v in rows],
        "dot": [np.dot(u, v) for u, v in rows],
        "euclidean": [-distance.euclidean(u, v) for u, v in rows],
        "manhattan": [-distance.cityblock(u, v) for u, v in rows],
    }.items():
        found = SIMILARITIES[name](a, b)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=2e-12, atol=2e-12)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("function", UNBOUNDED)
def test_rounding_is_relative(function, scale):
    # Bug: 12 decimals of a value of size 1e-30 are nothing; of 1e30, noise is kept and ranked.
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 50, 64))
    base, scaled = function(a, b), function(scale * a, scale * b)
    power = scale**2 if function is dot_similarity else scale
    np.testing.assert_allclose(scaled, power * base, rtol=2e-12)
    # The order of summation changes the last bits; rounded, the values are equal.
    order = rng.permutation(64)
    shuffled = function(scale * a[:, order], scale * b[:, order])
    assert np.mean(shuffled == scaled) > 0.95


def test_noise_of_the_arithmetic_is_zero():
    # Bug: what is left of 0 after rounding errors is ranked: orthogonal, or equal vectors.
    a = np.random.default_rng(2).normal(size=(30, 64)) * 1e6
    np.testing.assert_array_equal(euclidean_similarity(a, a * (1 + 1e-16) + 1e-9), np.zeros(30))
    np.testing.assert_array_equal(manhattan_similarity(a, a + 1e-9), np.zeros(30))
    turned = np.concatenate([-a[:, 32:], a[:, :32]], axis=1)
    np.testing.assert_array_equal(dot_similarity(a, turned), np.zeros(30))


@pytest.mark.parametrize("function", UNBOUNDED)
def test_rounding_never_changes_an_order(function):
    # Bug: a grid that jumps at powers of ten (9.99 above 10.0) swaps neighbours.
    x = np.geomspace(0.1, 1000, 4001)
    found = function(np.stack([x, 0 * x], 1), np.stack([0 * x + 1, 0 * x], 1) * [[1e-3, 1]])
    assert (np.diff(found if function is dot_similarity else -found)[1000:] > 0).all()


def test_large_and_small_values():
    # Bug: overflow or underflow of squares; infinity handed on as a score.
    a, b = np.array([[3e200, 0.0]]), np.array([[0.0, 4e200]])
    assert euclidean_similarity(a, b)[0] == pytest.approx(-5e200, rel=1e-12)
    tiny = euclidean_similarity(a * 1e-200 * 1e-200, b * 1e-200 * 1e-200)[0]
    assert tiny == pytest.approx(-5e-200, rel=1e-12, abs=0)
    with pytest.raises(InputError, match=r"pair 0 overflows float64.*--similarity=cosine"):
        dot_similarity(a, a)


@pytest.mark.parametrize("name", list(SIMILARITIES))
def test_unusable_embeddings_are_refused(name):
    # Bug: broadcasting, or a NaN ranked.
    with pytest.raises(InputError, match="same shape"):
        SIMILARITIES[name](np.ones((3, 2)), np.ones((2, 2)))
    with pytest.raises(InputError, match="row 1"):
        SIMILARITIES[name](np.ones((2, 2)), np.array([[1, 1], [np.nan, 1]]))
    assert SIMILARITIES[name](np.ones((0, 2)), np.ones((0, 2))).shape == (0,)


def test_many_pairs_in_parts(monkeypatch):
    # Bug: the rest after the last whole part lost, or a part taken twice.
    a, b = np.random.default_rng(3).normal(size=(2, 23, 4))
    whole = dot_similarity(a, b)
    monkeypatch.setattr(similarities, "_CHUNK", 5)
    np.testing.assert_array_equal(
        pair_similarities("dot", 23, lambda part: (a[part], b[part])), whole
    )
    assert pair_similarities("dot", 0, lambda part: (a[part], b[part])).shape == (0,)
    with pytest.raises(InputError, match="similarity 'angle': must be one of cosine, dot"):
        pair_similarities("angle", 23, lambda part: (a[part], b[part]))


VECTORS = {"a": [1, 0], "near": [1, 1], "same way": [3, 0], "far": [-2, 0]}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cosine", [0.5**0.5, 1, -1]),
        ("dot", [1, 3, -2]),
        ("euclidean", [-1, -2, -3]),
        ("manhattan", [-1, -2, -3]),
    ],
)
def test_a_task_is_scored_with_the_similarity_asked_for(name, expected):
    # Bug: the flag recorded but the cosine computed.
    right = ["near", "same way", "far"]
    task = StsTask("stsb", {"test": ScoredPairs("test", ["a"] * 3, right, np.array([3.0, 2, 1]))})

    def embed(sentences):
        return np.array([VECTORS[text] for text in sentences], float)

    np.testing.assert_allclose(task_similarities(task, embed, name)["test"], expected, atol=1e-12)
    score = 50.0 if name in ("cosine", "dot") else 100.0
    assert evaluate_task(task, embed, name)["all"]["spearman"] == pytest.approx(score)
