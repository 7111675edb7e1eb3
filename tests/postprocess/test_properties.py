"""What holds for any embeddings that a baseline is fitted to. Each test names its bug."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertflow_jax.evaluation.metrics import cosine_similarity
from bertflow_jax.postprocess import Compose, Standardize, Whitening, load
from bertflow_jax.postprocess.standardize import Center

check = settings(deadline=None, max_examples=60)


@st.composite
def embeddings(draw):
    """float64[N, D] with N > D, correlated, of any scale, far from the origin or not."""
    dims = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    mixing = np.linalg.qr(rng.normal(size=(dims, dims)))[0] * rng.uniform(0.3, 3.0, dims)
    scale = 10.0 ** draw(st.integers(-4, 4))
    offset = draw(st.sampled_from([0.0, 1.0, 30.0])) * rng.normal(size=dims)
    return (rng.normal(size=(4 * dims + 8, dims)) @ mixing + offset) * scale


KINDS = {
    "center": Center,
    "standardize": Standardize,
    "pca": Whitening,
    "zca": lambda: Whitening(kind="zca"),
    "half": lambda: Whitening(alpha=0.5),
    "compose": lambda: Compose([Standardize(), Whitening()]),
}


@pytest.mark.parametrize("kind", list(KINDS))
@check
@given(embeddings())
def test_inverse_undoes_transform(kind, u):
    """Bug: the inverse of another order, of another scale, or without the mean."""
    model = KINDS[kind]().fit(u)
    z = model.transform(u)
    back = model.inverse_transform(z)
    assert z.shape == u.shape
    np.testing.assert_allclose(back, u, rtol=0, atol=3e-5 * np.abs(u).max())
    np.testing.assert_allclose(
        np.asarray(z, np.float64).mean(axis=0), 0, atol=1e-4 * np.abs(z).max()
    )


@pytest.mark.parametrize("kind", list(KINDS))
@check
@given(embeddings(), st.floats(0.01, 100), st.integers(0, 2**32))
def test_a_fit_follows_shift_scale_and_order_of_the_rows(kind, u, factor, seed):
    """Bug: a mean that is not subtracted first, a floor in absolute units, statistics of some rows."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(u))
    moved = (u[order] + rng.normal(size=u.shape[1]) * np.abs(u).max()) * factor
    z = np.asarray(KINDS[kind]().fit(u).transform(u), np.float64)
    other = np.asarray(KINDS[kind]().fit(moved).transform(moved), np.float64)
    pairs = rng.integers(len(u), size=(2, 20))
    rank = np.argsort(order)  # where a row has gone
    np.testing.assert_allclose(
        cosine_similarity(z[pairs[0]], z[pairs[1]]),
        cosine_similarity(other[rank[pairs[0]]], other[rank[pairs[1]]]),
        atol=1e-4,
    )


@pytest.mark.parametrize("kind", ["pca", "zca", "compose"])
@check
@given(embeddings(), st.integers(0, 2**32))
def test_cosines_of_whitened_rows_ignore_any_linear_map(kind, u, seed):
    """Bug: a whitening that leaves some of the covariance: then a map of the space shows."""
    rng = np.random.default_rng(seed)
    dims = u.shape[1]
    turn, turn2 = (np.linalg.qr(rng.normal(size=(dims, dims)))[0] for _ in range(2))
    moved = u @ (turn * rng.uniform(0.5, 2.0, dims) @ turn2)
    z = np.asarray(KINDS[kind]().fit(u).transform(u), np.float64)
    other = np.asarray(KINDS[kind]().fit(moved).transform(moved), np.float64)
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(dims), atol=2e-3)
    np.testing.assert_allclose(
        cosine_similarity(z[1:], z[:-1]), cosine_similarity(other[1:], other[:-1]), atol=1e-3
    )


@check
@given(embeddings())
def test_standardised_columns_have_mean_0_and_variance_1(u):
    """Bug: the deviation of N - 1, or one deviation for all columns."""
    z = np.asarray(Standardize().fit(u).transform(u), np.float64)
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(z.var(axis=0), 1, atol=1e-4)


@pytest.mark.parametrize("kind", list(KINDS))
@settings(deadline=None, max_examples=8)
@given(u=embeddings())
def test_saved_and_loaded_gives_the_same_bits(kind, tmp_path_factory, u):
    """Bug: float32 in the file of a float64 map, or an array under another name."""
    folder = tmp_path_factory.mktemp("saved")
    model = KINDS[kind]().fit(u)
    model.save(folder)
    np.testing.assert_array_equal(load(folder).transform(u), model.transform(u))
