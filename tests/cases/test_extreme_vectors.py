"""Very long and very short vectors, and maps of too few directions. Each test names the bug."""

import jax
import numpy as np
import pytest
import scipy.stats

from bertflow_jax import NATSV, Reduce, SentenceEncoder, Whitening
from bertflow_jax.encoder.embedding import unit_length
from bertflow_jax.errors import InputError
from bertflow_jax.evaluation.metrics import cosine_similarity
from bertflow_jax.postprocess import Center
from bertflow_jax.postprocess.apply_files import ApplyOptions, run_apply

TEXTS = ["a man", "b dog", "cat sat", "the market", "x y z"]


@pytest.fixture(scope="module")
def encoder():
    return SentenceEncoder.from_pretrained("mini_bert")


@pytest.mark.parametrize("size", [1e-37, 1e-30, 1e-14, 1e-13, 1, 1e17, 1e20, 1e25, 1e38])
def test_unit_length_on_a_device(size):
    """Bug: 0 for rows beyond 1e19, whose squares overflow, and 0.3 or 0 for those below 1e-12."""
    rows = np.array([[1.0, 2.0, -3.0], [0.0, 0.0, 0.0], [3.0, 0.0, 0.0]])
    wanted = rows / np.array([[np.sqrt(14)], [1], [3]])
    found = jax.jit(unit_length)((rows * size).astype(np.float32))
    np.testing.assert_allclose(found, wanted, rtol=5e-7)


def test_unit_length_of_numbers_below_the_normal_ones_is_no_nan():
    """Bug: 0 / 0 where the device takes them for 0 in the division, but not in the comparison."""
    found = np.asarray(jax.jit(unit_length)(np.full((1, 4), 1e-42, np.float32)))
    assert np.abs(found - 0.5).max() < 1e-6 or (found == 0).all()


@pytest.mark.parametrize("truncate_dim", [None, 3])
@pytest.mark.parametrize("size", [1e-30, 1e-14, 1e17, 1e20, 1e25])
def test_encode_with_normalize(encoder, size, truncate_dim):
    """Bug: vectors of zeros from `normalize=True`, and others from `truncate_dim` with it."""
    reduce = Reduce(4).fit(encoder.encode(TEXTS))
    wanted = reduce.transform(encoder.encode(["a man plays"]))[:, :truncate_dim]
    wanted = wanted / np.linalg.norm(wanted)
    reduce._matrix = reduce.matrix * size
    mapped = encoder.with_postprocess(reduce)
    found = mapped.encode(["a man plays"], normalize=True, truncate_dim=truncate_dim)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("size", [1e-44, 1e-20, 1e-14, 1e-10, 1e30, 1e36])
def test_apply_with_normalize(tmp_path, monkeypatch, size):
    """Bug: lengths of 1e-8 and 0.1 in the file where float32 holds the vectors well."""
    monkeypatch.chdir(tmp_path)
    u = size * np.round(4 * np.random.default_rng(0).normal(size=(40, 6)))
    u[39] = -u[:39].sum(axis=0)  # mean 0
    np.save("u.npy", u)
    Center().fit(u).save("center")
    run_apply(ApplyOptions("center", "u.npy", "unit.npy", normalize=True))
    lengths = np.linalg.norm(np.load("unit.npy").astype(np.float64), axis=1)
    np.testing.assert_allclose(lengths, 1, rtol=1e-6)


def test_cosine_of_the_shortest_vectors():
    """Bug: a norm of squares that are 0; the same helper for every length."""
    tiny = np.array([[5e-324, 5e-324], [1e308, 1e308]])
    np.testing.assert_allclose(cosine_similarity(tiny, tiny[::-1]), 1, rtol=1e-12)


def redundant():
    """float64[200, 8] of rank 7."""
    u = np.random.default_rng(0).normal(size=(200, 8))
    u[:, 7] = u[:, 0] + u[:, 1]
    return u


@pytest.mark.parametrize("kind", ["pca", "zca"])
def test_no_density_of_redundant_dimensions(kind, tmp_path):
    """Bug: a number from the determinant of ZCA's singular matrix, which is rounding and not 0."""
    u = redundant()
    fitted = Whitening(kind=kind).fit(u)
    fitted.save(tmp_path / "white")
    for white in (fitted, Whitening.load(tmp_path / "white")):
        for function in (white.log_prob, white.score):
            with pytest.raises(InputError, match="do not vary in every direction"):
                function(u)


@pytest.mark.parametrize("kind", ["pca", "zca"])
@pytest.mark.parametrize("unit", [1, 1e3, 1e6, 1e9])
def test_a_dimension_in_another_unit_keeps_the_density(kind, unit):
    """Bug: full rank taken for a lower one because one dimension is much larger."""
    even = redundant()[:, :7]
    normal = scipy.stats.multivariate_normal(even.mean(axis=0), np.cov(even.T, bias=True))
    u = even * np.array([unit, 1, 1, 1, 1, 1, 1])
    found = Whitening(kind=kind).fit(u).log_prob(u)
    np.testing.assert_allclose(found, normal.logpdf(even) - np.log(unit), rtol=1e-5)


@pytest.mark.parametrize("kind", [Center, lambda: Reduce(2), lambda: NATSV(1)])
def test_a_row_below_float32_is_refused(kind):
    """Bug: rows of zeros, whose every cosine is 0, while a row beyond float32 is refused."""
    u = np.random.default_rng(0).normal(size=(50, 8)) * 1e-50
    fitted = kind().fit(u)
    u[0] *= 1e20
    with pytest.raises(InputError, match=r"row 1: what .* is below float32, all zeros"):
        fitted.transform(u)
    assert fitted.transform(u[:1]).any()


def test_an_inverse_below_float32_is_refused():
    """Bug: as above, of the way back."""
    u = np.random.default_rng(0).normal(size=(50, 8)) * 1e-50
    u = np.concatenate([u, -u])  # mean 0, which no row lies below
    white = Whitening().fit(u)
    with pytest.raises(InputError, match=r"row 0: what the inverse of whitening .* below float32"):
        white.inverse_transform(white.transform(u))


def test_a_row_that_is_the_mean_is_still_zero():
    """Bug: the zeros that are right refused with the others; single zeros refused."""
    u = np.array([[0.0, 2.0], [0.0, -2.0], [0.0, 0.0], [1e-60, 1.0], [-1e-60, -1.0]])
    found = Center().fit(u).transform(u)
    np.testing.assert_array_equal(found, u.astype(np.float32))
