"""Constant, huge and far dimensions; float64 input; what does not fit into float32."""

import logging
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bertflow_jax.config import FlowConfig, TrainConfig
from bertflow_jax.constant_dimensions import ordinary_dimensions
from bertflow_jax.errors import InputError
from bertflow_jax.postprocess import NATSV, Center, Compose, Flow, Reduce, Standardize, Whitening
from bertflow_jax.training.fit import spread_constant_dimensions

KINDS = [Center, Standardize, Whitening, NATSV, lambda: Reduce(1), Flow]


def normal(n=300, d=8, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def minilm_like():
    """Rounding where all-MiniLM-L6-v2's [CLS] has it: means of 5e-32 and 9e-8, deviation 1e-9."""
    u = 0.05 * normal(d=10)
    u[:, 3] = 5e-32 * (1 + 1e-7 * u[:, 0])
    u[:, 7] = 9e-8 + 1.6e-9 * normal(d=1, seed=5)[:, 0]
    return u.astype(np.float32)


def test_dimensions_that_hold_rounding_are_not_scaled_up():
    """Their means are so small that rounding relative to them did not look like rounding."""
    u = minilm_like()
    constant = [3, 7]
    assert spread_constant_dimensions(u, 0)[1] == tuple(constant)  # the flow's own rule
    standardize = Standardize().fit(u)
    np.testing.assert_array_equal(np.flatnonzero(standardize.matrix == 0), constant)
    others = [d for d in range(10) if d not in constant]
    v = u[:, others].astype(np.float64)
    z = standardize.transform(u)
    np.testing.assert_allclose(z[:, others], (v - v.mean(axis=0)) / v.std(axis=0), atol=1e-5)
    np.testing.assert_array_equal(z[:, constant], 0)
    white = Whitening().fit(u)
    np.testing.assert_array_equal(white.matrix[constant], 0)
    np.testing.assert_allclose(
        np.cov(white.transform(u).T, bias=True), np.diag([1.0] * 8 + [0.0] * 2), atol=1e-5
    )
    back = standardize.inverse_transform(z)
    np.testing.assert_allclose(back, u, atol=1e-7)


def test_the_rule_by_hand():
    """Above 1e-6 of the mean, and above 1e-3 of the median 2 of those that are."""
    mean = np.array([0.0, 0.0, 0.0, 100.0, 0.0, 0.0])
    deviation = np.array([2.0, 1e6, 2.0, 0.9e-4, 0.0021, 0.0019])
    ordinary, typical = ordinary_dimensions(mean, deviation)
    assert ordinary.tolist() == [True, True, True, False, True, False]
    assert typical == 2.0
    assert ordinary_dimensions(np.ones(3), np.full(3, 1e-7)) == (pytest.approx([0, 0, 0]), 0.0)


@pytest.mark.parametrize("kind", ["pca", "zca"])
def test_one_huge_dimension_hides_no_other(kind):
    """1e-11 of the largest eigenvalue was above the variance of every ordinary direction."""
    u = (normal() @ normal(8, 8, 1)) * np.array([1e6, 1, 1, 1, 1, 1, 1, 1])
    z = Whitening(kind=kind).fit(u).transform(u)
    np.testing.assert_allclose(np.cov(z.T, bias=True), np.eye(8), atol=1e-4)
    # The same Mahalanobis distances as numpy's, in units in which all dimensions are ordinary.
    even = u / np.array([1e6, 1, 1, 1, 1, 1, 1, 1])
    centred = even - even.mean(axis=0)
    inverse = np.linalg.inv(np.cov(even.T, bias=True))
    np.testing.assert_allclose(z @ z.T, centred @ inverse @ centred.T, atol=1e-3)


def test_a_dimension_far_from_0_hides_no_other():
    """The largest (1e-6 mean)^2 was the floor of every eigenvalue, here 1 above 1e-6."""
    u = 1e-3 * normal()
    u[:, 2] = 1e3 * u[:, 2] + 1e6
    z = Whitening().fit(u).transform(u)
    np.testing.assert_allclose(np.cov(z.T, bias=True), np.eye(8), atol=1e-4)


def test_a_repeated_direction_of_small_dimensions_is_seen():
    """The other way round: a sum of dimensions 1e-3 as large as the rest is no direction."""
    u = normal().astype(np.float32)
    u[:, 5:7] *= 1e-2
    u[:, 7] = u[:, 5] + u[:, 6]
    with pytest.raises(InputError, match="vary in 7 direction"):
        Whitening(8).fit(u)
    assert np.abs(Whitening().fit(u).transform(u)).max() < 10


def test_float64_is_not_rounded_before_it_is_centred():
    """At 1e8 the steps of float32 are 8 wide: the deviation 1 was gone before the mean was known."""
    small = normal()
    u = 1e8 + small
    expected = (small - small.mean(axis=0)) / small.std(axis=0)
    standardize = Standardize().fit(u)
    np.testing.assert_allclose(standardize.transform(u), expected, atol=1e-5)
    rows = np.arange(len(u), dtype=np.int32)[:, None]
    np.testing.assert_allclose(
        Standardize().fit_examples(u, rows).transform(u), expected, atol=1e-5
    )
    batches = Standardize().fit_batches([u[:7], u[7:]])
    np.testing.assert_allclose(batches.transform(u), expected, atol=1e-5)
    z = Whitening().fit(u).transform(u)
    np.testing.assert_allclose(np.cov(z.T, bias=True), np.eye(8), atol=1e-4)
    integers = np.round(100 * small).astype(np.int64) + 10**12
    spread = np.ptp(Center().fit(integers).transform(integers), axis=0)
    np.testing.assert_allclose(spread, np.ptp(integers, axis=0), rtol=1e-5)


def test_float32_numbers_that_come_as_float64_are_rounded_all_the_same():
    """Rounding of a constant dimension would pass for variation at the resolution of float64."""
    u = normal(d=6)
    u[:, 2] = 100 + 1e-6 * u[:, 0]
    u = u.astype(np.float32)
    for kind in (Standardize, Whitening):
        single, double = kind().fit(u), kind().fit(u.astype(np.float64))
        np.testing.assert_array_equal(single.matrix, double.matrix)


def test_natsv_of_every_direction_is_refused():
    """k = rank left rounding, which the cosine blows up to an answer."""
    u = normal(d=4)
    u[:, 3] = u[:, 0] - u[:, 1]
    with pytest.raises(InputError, match=r"k=3 removes all 3 .* give k < 3"):
        NATSV(3).fit(u)
    assert np.linalg.matrix_rank(NATSV(2).fit(u).transform(u), tol=1e-4) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_no_dimension_and_masked_arrays_are_refused(kind):
    with pytest.raises(InputError, match="no dimension"):
        kind().fit(np.zeros((5, 0)))
    masked = np.ma.masked_invalid([[1.0, np.nan], [2.0, 3.0], [4.0, 1.0]])
    with pytest.raises(InputError, match="masked array"):
        kind().fit(masked)
    if kind is not Flow:
        with pytest.raises(InputError, match="masked array"):
            kind().fit(normal(d=2)).transform(masked)


def test_overflow_names_the_row():
    """Infinite latents went on without a word; the row is that of the whole array."""
    u = normal(9000).astype(np.float32)
    x = u.copy()
    x[8500, 1] = 3e38
    for processor in (Standardize().fit(0.1 * u), Whitening().fit(0.1 * u)):
        with pytest.raises(InputError, match=r"row 8500: what .* beyond float32"):
            processor.transform(x)
    with pytest.raises(InputError, match="row 8500: what the inverse of standardize"):
        Standardize().fit(10 * u).inverse_transform(x)
    with pytest.raises(InputError, match="row 8500: what log_prob of standardize"):
        Standardize().fit(u).log_prob(x / 3)


def test_overflow_in_a_flow_names_the_row():
    config = FlowConfig(levels=1, depth=1, width=4)
    flow = Flow(config, train=TrainConfig(steps=1)).fit(normal(64).astype(np.float32))
    x = np.zeros((3, 8), np.float32)
    x[2] = 3e38
    for function in (flow.transform, flow.inverse_transform, flow.log_prob):
        with pytest.raises(InputError, match=r"row 2: what .* of the flow"):
            function(x)


def test_the_pure_function_subtracts_the_float64_mean():
    """A mean rounded to float32 moved every vector by 1e3 deviations' rounding."""
    u = (1e3 + 1e-2 * normal()).astype(np.float32)
    processor = Standardize().fit(u)
    pure = processor.pure()
    z = jax.jit(pure.transform)(pure.params, jnp.asarray(u))
    np.testing.assert_allclose(z, processor.transform(u), atol=1e-5)


@pytest.mark.parametrize("size", [1e-39, 1e38, 1e200])
def test_a_map_that_float32_cannot_hold_has_no_pure_function(size):
    """Factors of 1e39 became infinite, and those of 1e-39 were taken for 0 on the device."""
    processor = Center().fit(normal())
    processor._matrix = processor.matrix / size
    with pytest.raises(InputError, match="does not fit into float32"):
        processor.pure()
    processor._matrix = np.ones(8)
    processor._mean = processor.mean + 1e39
    with pytest.raises(InputError, match="does not fit into float32"):
        processor.pure()


def test_no_density_on_constant_dimensions():
    """Standardize gave the density of the other dimensions as if it were that of all."""
    u = minilm_like()
    for kind in (Standardize, Whitening):
        with pytest.raises(InputError, match="no density"):
            kind().fit(u).log_prob(u)
        with pytest.raises(InputError, match="all embeddings are equal"):
            kind().fit(np.ones((5, 3)))


@pytest.mark.parametrize(
    ("processor", "rows", "text"),
    [
        (Whitening(3), 300, None),
        (Whitening(3), 5, None),
        (Whitening(3), 4, "k=3 directions of 8 dimensions are kept of 4 embeddings"),
        (Whitening(), 6, "all directions .* of 8 dimensions are kept of 6 embeddings"),
        (Whitening(alpha=0.0), 6, None),
        (Reduce(3), 4, None),
        (Whitening(), 300, None),
        (Whitening(kind="zca"), 0, "vary in 7 of 8 directions; the other 1 become 0"),
        (Whitening(7), 0, None),
    ],
)
def test_warnings_of_whitening(processor, rows, text, caplog):
    """It spoke of all dimensions though k was given, and of maps that scale nothing."""
    u = normal()
    u[:, 2] = u[:, 1] if not rows else u[:, 2]
    with caplog.at_level(logging.WARNING):
        processor.fit(u[: rows or 300])
    messages = [record.getMessage() for record in caplog.records]
    assert bool(messages) == (text is not None)
    if text:
        assert len(messages) == 1
        assert re.search(text, messages[0])


def test_dimensions_of_rounding_are_no_warning(caplog):
    """Every task of an evaluation warned of the constant dimensions of all-MiniLM-L6-v2."""
    u = minilm_like()
    with caplog.at_level(logging.INFO):
        Whitening().fit(u)
        u[:, 4] *= 1e-4  # small, but no rounding: what is left out is told
        Whitening().fit(u)
    text = "whitening: the embeddings vary in {} of 10 directions; the other {} become 0 (k={} "
    for record, level, rank in zip(caplog.records, ("INFO", "WARNING"), (8, 7), strict=True):
        assert record.levelname == level
        assert record.getMessage().startswith(text.format(rank, 10 - rank, rank))


def test_errors_of_pca_name_pca():
    with pytest.raises(InputError, match="reduce: k=9"):
        Reduce(9).fit(normal())


def test_steps_of_compose_are_checked_in_turn():
    both = Compose([Center(), Whitening()]).fit(1e8 + normal())
    z = both.transform(1e8 + normal())
    np.testing.assert_allclose(np.cov(z.T, bias=True), np.eye(8), atol=1e-4)


def test_no_row_gives_no_row():
    """The check of the results must not fail on an empty array."""
    processor = Standardize().fit(normal())
    none = np.zeros((0, 8))
    assert processor.transform(none).shape == processor.inverse_transform(none).shape == (0, 8)
    assert processor.log_prob(none).shape == (0,)
