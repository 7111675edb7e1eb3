"""Standardisation, whitening, NATSV, reduction: against numpy and by their definitions."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from bertflow_jax.config import FlowConfig, TrainConfig
from bertflow_jax.errors import (
    BertFlowError,
    CheckpointError,
    ConfigError,
    DataNotFoundError,
    InputError,
)
from bertflow_jax.evaluation.metrics import cosine_similarity
from bertflow_jax.postprocess import (
    NATSV,
    Center,
    Compose,
    Flow,
    Reduce,
    Standardize,
    Whitening,
    load,
)

D = 12


def correlated(n=500, seed=0):
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(99).normal(size=(D, D)) * np.linspace(0.1, 3, D)
    return (rng.normal(size=(n, D)) @ mixing + np.linspace(-5, 20, D)).astype(np.float32)


KINDS = {
    "center": Center,
    "standardize": Standardize,
    "whitening": Whitening,
    "whitening-4": lambda: Whitening(4),
    "whitening-half": lambda: Whitening(alpha=0.5),
    "zca": lambda: Whitening(kind="zca"),
    "natsv": lambda: NATSV(3),
    "block_mean": lambda: Reduce(4, "block_mean"),
    "truncate": lambda: Reduce(5, "truncate"),
    "pca": lambda: Reduce(5),
    "compose": lambda: Compose([Standardize(), NATSV(2)]),
}
EXACT = ("center", "standardize", "whitening", "whitening-half", "zca")


@pytest.fixture(params=KINDS)
def fitted(request):
    return request.param, KINDS[request.param]().fit(correlated())


def test_standardised_dimensions_have_mean_0_and_variance_1():
    z = Standardize().fit(correlated()).transform(correlated())
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(z.std(axis=0), 1, atol=1e-5)


@pytest.mark.parametrize("kind", ["pca", "zca"])
def test_the_covariance_of_whitened_embeddings_is_the_identity(kind):
    z = Whitening(kind=kind).fit(correlated()).transform(correlated())
    np.testing.assert_allclose(np.cov(z.T, bias=True), np.eye(D), atol=1e-4)
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-4)


def test_alpha_leaves_the_eigenvalues_to_the_power_of_one_minus_alpha():
    """Catches -alpha in place of -alpha / 2, and eigenvalues in ascending order."""
    values = np.sort(np.linalg.eigvalsh(np.cov(correlated().T, bias=True)))[::-1]
    z = Whitening(k=7, alpha=0.3).fit(correlated()).transform(correlated())
    np.testing.assert_allclose(np.cov(z.T, bias=True), np.diag(values[:7] ** 0.7), atol=2e-3)


def test_alpha_0_has_the_cosines_of_centring():
    u = correlated(40)
    first, second = u[::2], u[1::2]
    centred = Center().fit(u)
    rotated = Whitening(alpha=0).fit(u)
    np.testing.assert_allclose(
        cosine_similarity(rotated.transform(first), rotated.transform(second)),
        cosine_similarity(centred.transform(first), centred.transform(second)),
        atol=1e-6,
    )


def test_zca_and_pca_have_the_same_cosines_and_zca_stays_close():
    """Catches a rotation left out: ZCA of data that is white already changes nothing."""
    u = correlated(300)
    pca, zca = Whitening(5).fit(u).transform(u), Whitening(5, kind="zca").fit(u).transform(u)
    np.testing.assert_allclose(pca @ pca.T, zca @ zca.T, atol=1e-3)
    white = Whitening().fit(u).transform(u)
    np.testing.assert_allclose(Whitening(kind="zca").fit(white).transform(white), white, atol=1e-3)


def test_natsv_removes_the_top_singular_vectors():
    """Against the SVD of the centred embeddings, as Mu & Viswanath write it."""
    u = correlated()
    centred = u - u.mean(axis=0)
    top = np.linalg.svd(centred, full_matrices=False)[2][:3]
    expected = centred - centred @ top.T @ top
    np.testing.assert_allclose(NATSV(3).fit(u).transform(u), expected, atol=1e-3)


def test_block_mean_and_truncate_by_hand():
    u = np.array([[1, 3, 10, 20], [5, 7, 2, 4]], np.float32)
    np.testing.assert_array_equal(Reduce(2, "block_mean").fit(u).transform(u), [[2, 15], [6, 3]])
    np.testing.assert_array_equal(Reduce(3, "truncate").fit(u).transform(u), u[:, :3])
    back = Reduce(2, "block_mean").fit(u).inverse_transform(np.array([[2.0, 15.0]]))
    np.testing.assert_array_equal(back, [[2, 2, 15, 15]])


def test_compose_fits_each_step_to_what_the_first_gives():
    u = correlated()
    standardised = Standardize().fit(u).transform(u)
    expected = NATSV(2).fit(standardised).transform(standardised)
    both = Compose([Standardize(), NATSV(2)]).fit(u)
    np.testing.assert_allclose(both.transform(u), expected, atol=1e-5)


def test_inverse_undoes_transform(fitted):
    name, processor = fitted
    x = correlated(30, seed=1)
    z = processor.transform(x)
    assert z.dtype == np.float32
    back = processor.inverse_transform(z)
    if name in EXACT:
        np.testing.assert_allclose(back, x, atol=1e-3)
    # What was removed is gone for good, the rest comes back: a second trip changes nothing.
    np.testing.assert_allclose(processor.transform(back), z, atol=1e-3)


def test_the_pure_function_is_transform(fitted):
    """Catches an encoder's compiled call that differs from the object on arrays."""
    _, processor = fitted
    x = correlated(7, seed=2)
    pure = processor.pure()
    z = jax.jit(pure.transform)(pure.params, jnp.asarray(x))
    np.testing.assert_allclose(z, processor.transform(x), atol=1e-3)


def test_saved_and_loaded_is_bit_equal(fitted, tmp_path):
    _, processor = fitted
    processor.save(tmp_path / "p")
    loaded = load(tmp_path / "p")
    x = correlated(9, seed=3)
    np.testing.assert_array_equal(loaded.transform(x), processor.transform(x))
    np.testing.assert_array_equal(
        loaded.inverse_transform(loaded.transform(x)),
        processor.inverse_transform(processor.transform(x)),
    )
    assert type(loaded) is type(processor)
    assert loaded.features == D


def test_a_composed_flow_survives_saving(tmp_path):
    train = TrainConfig(steps=2, batch_size=16)
    both = Compose([Whitening(8), Flow(FlowConfig(levels=1, depth=1, width=4), train=train)])
    both.fit(correlated(50)).save(tmp_path / "p")
    x = correlated(4, seed=3)
    np.testing.assert_array_equal(load(tmp_path / "p").transform(x), both.transform(x))


def test_batches_give_what_the_whole_gives():
    """Catches means of batches merged without their sizes."""
    u = correlated(1000)
    cuts = [u[:3], u[3:3], u[3:4], u[4:700], u[700:]]
    for kind in (Standardize, Whitening):
        whole, parts = kind().fit(u), kind().fit_batches(iter(cuts))
        np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-12)
        np.testing.assert_allclose(np.abs(parts.matrix), np.abs(whole.matrix), rtol=1e-7)


def test_statistics_are_exact_far_from_zero():
    """Catches E[x^2] - E[x]^2, which loses the variance of values around 1e4 in float32."""
    rng = np.random.default_rng(0)
    u = (1e4 + rng.normal(size=(2000, 3)) * [1, 2, 4]).astype(np.float32)
    expected = u.astype(np.float64).std(axis=0)
    np.testing.assert_allclose(1 / Standardize().fit(u).matrix, expected, rtol=1e-9)


@pytest.mark.parametrize("kind", ["standardize", "whitening", "zca", "whitening-half", "natsv"])
def test_constant_and_repeated_dimensions_stay_finite(kind):
    """all-MiniLM-L6-v2 has two constant dimensions; a repeated one makes the covariance singular."""
    u = correlated(50)
    u[:, 3], u[:, 7], u[:, 8] = 0.1, u[:, 2], 0.0
    processor = KINDS[kind]().fit(u)
    other = correlated(20, seed=4)
    assert np.isfinite(processor.transform(other)).all()
    assert np.isfinite(processor.inverse_transform(processor.transform(other))).all()
    # Unseen rows that differ there must not be thrown far away by a huge gain.
    assert np.abs(processor.transform(other)).max() < 1e3


def test_fewer_rows_than_dimensions():
    u = correlated(5)
    z = Whitening().fit(u).transform(u)
    np.testing.assert_allclose(np.cov(z.T, bias=True)[:4, :4], np.eye(4), atol=1e-4)
    np.testing.assert_array_equal(z[:, 4:], 0)
    with pytest.raises(InputError, match="k=5, but the embeddings vary in 4 direction"):
        Whitening(5).fit(u)
    with pytest.raises(InputError, match=r"k=6 removes all 4 .*give k < 4"):
        NATSV(6).fit(u)


@pytest.mark.parametrize("kind", ["standardize", "whitening", "zca"])
def test_log_prob_is_that_of_the_fitted_gaussian(kind):
    """Against scipy; catches a log-det of the wrong sign."""
    u, x = correlated(), correlated(6, seed=5)
    cov = np.cov(u.astype(np.float64).T, bias=True)
    if kind == "standardize":
        cov = np.diag(np.diag(cov))
    expected = scipy.stats.multivariate_normal(u.mean(axis=0, dtype=np.float64), cov).logpdf(x)
    processor = KINDS[kind]().fit(u)
    np.testing.assert_allclose(processor.log_prob(x), expected, rtol=1e-4)
    samples = processor.sample(jax.random.key(0), 20_000)
    np.testing.assert_allclose(np.cov(samples.T), cov, atol=0.05 * cov.max())
    with pytest.raises(InputError, match=r"key must be one JAX random key.*not int"):
        processor.sample(0, 3)


@pytest.mark.parametrize("kind", ["natsv", "whitening-4", "whitening-half", "center"])
def test_what_has_no_density_says_so(kind):
    with pytest.raises(InputError, match="has no density"):
        KINDS[kind]().fit(correlated()).log_prob(correlated(2))


def test_impossible_arguments():
    for make in (lambda: NATSV(0), lambda: Whitening(k=2.5), lambda: Whitening(alpha=1.5)):
        with pytest.raises(InputError):
            make()
    for make in (
        lambda: Whitening(kind="x"), lambda: Reduce(2, "x"), lambda: Compose([]),
    ):  # fmt: skip
        with pytest.raises(ConfigError):
            make()
    with pytest.raises(InputError, match="divides 12"):
        Reduce(5, "block_mean").fit(correlated())
    with pytest.raises(InputError, match="at least two"):
        Standardize().fit(correlated(1))
    with pytest.raises(InputError, match="all embeddings are equal"):
        Whitening().fit(np.ones((4, 3)))
    with pytest.raises(BertFlowError, match="not fitted yet"):
        Whitening().transform(correlated(2))
    with pytest.raises(InputError, match="have 3 dimensions, those of the fit had 12"):
        Whitening().fit(correlated()).transform(np.zeros((1, 3)))


def test_damaged_folders(tmp_path):
    with pytest.raises(DataNotFoundError, match="holds no saved post-processor"):
        load(tmp_path)
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    with pytest.raises(DataNotFoundError, match="is the folder of a run: give it as --workdir"):
        load(tmp_path / "run")
    Whitening().fit(correlated()).save(tmp_path)
    with pytest.raises(CheckpointError, match="holds a whitening, not a natsv"):
        NATSV.load(tmp_path)
    file = tmp_path / "postprocess.json"
    text = file.read_text()
    for broken in (
        "{", "[]", "{}", text.replace("whitening", "unknown"), text.replace("[\n      12", "[\n      13"),
        json.dumps({**json.loads(text), "settings": {"k": -1}}),
    ):  # fmt: skip
        assert broken != text
        file.write_text(broken)
        with pytest.raises(CheckpointError):
            load(tmp_path)
    file.write_text(text)
    arrays = tmp_path / "postprocess.safetensors"
    raw = bytearray(arrays.read_bytes())
    raw[-3] ^= 64
    arrays.write_bytes(raw)
    with pytest.raises(CheckpointError, match="not those"):
        load(tmp_path)
