"""Properties of whole flows over random architectures, sizes, parameters and rows (Hypothesis).

test_laws.py has a few fixed flows; here every combination of the config's fields can come up.
"""

import jax
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bertflow_jax.config import FlowConfig
from bertflow_jax.flow import glow
from bertflow_jax.flow.actnorm import ActNorm, fit_actnorm

# Few sizes, and nothing compiled as a whole: single operations are compiled once for a shape.
SIZES = [(1, 4), (1, 5), (2, 5), (2, 8)]  # (levels, D)
PROPERTY = settings(max_examples=20, deadline=None, derandomize=True, database=None)


@st.composite
def flows(draw):
    """(config, D, variables of any values, rows float32[2, D])."""
    levels, features = draw(st.sampled_from(SIZES), label="levels, D")
    config = FlowConfig(
        levels=levels,
        depth=draw(st.integers(1, 2), label="depth"),
        width=3,
        coupling=draw(st.sampled_from(["additive", "affine"]), label="coupling"),
        permutation=draw(st.sampled_from(["reverse", "plu"]), label="permutation"),
        activation=draw(st.sampled_from(["relu", "gatu"]), label="activation"),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**31 - 1), label="seed"))
    scale = draw(st.sampled_from([0.0, 0.1, 0.3]), label="scale")

    def value(path, leaf):
        name = path[-1].key
        if name == "sign_s":
            return rng.choice(np.float32([-1, 1]), leaf.shape)
        if name == "order":
            return rng.permutation(leaf.shape[0]).astype(np.int32)
        return rng.normal(0, scale, leaf.shape).astype(np.float32)

    shapes = jax.eval_shape(lambda: glow.init_variables(config, features, 0))
    variables = jax.tree_util.tree_map_with_path(value, shapes)
    spread = draw(st.sampled_from([0.1, 1.0, 5.0]), label="spread of the rows")
    return config, features, variables, rng.normal(0, spread, (2, features)).astype(np.float32)


@given(flows())
@PROPERTY
def test_f06_inverse_and_log_dets_of_any_flow(flow):
    """Bug: an order of channels, a level, a sign or a factor that only some architectures have."""
    config, features, variables, x = flow
    bijector = glow.bijector(config, variables, features)
    z, log_det = bijector.forward_and_log_det(x)
    back, inverse = bijector.inverse_and_log_det(z)
    size = 1.0 + np.abs(np.asarray(z)).max() + np.abs(x).max()
    np.testing.assert_allclose(back, x, atol=1e-4 * size)
    np.testing.assert_allclose(np.asarray(log_det) + inverse, 0.0, atol=1e-4 * size)
    jacobian = np.asarray(jax.vmap(jax.jacfwd(bijector.forward))(x), np.float64)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(jacobian)[1], atol=2e-3, rtol=1e-4)


@given(
    st.sampled_from([2, 3, 40]),
    st.sampled_from([1, 4]),
    st.integers(0, 2**31 - 1),
    st.floats(-1e3, 1e3),
    st.floats(1e-2, 1e3),
)
@example(2, 2, 0, 0.0, 1.0)
@settings(max_examples=100, deadline=None, derandomize=True, database=None)
def test_f06_actnorm_whitens_the_rows_that_it_was_fitted_to(rows, channels, seed, mean, std):
    """Bug: scale * x + shift with shift = -mean, not -mean * scale: the mean is not 0."""
    rng = np.random.default_rng(seed)
    x = rng.normal(mean, std, (rows, channels)) * np.geomspace(1, 20, channels)
    x = x.astype(np.float32)
    actnorm = ActNorm(**fit_actnorm(x))
    y, log_det = actnorm.forward_and_log_det(x)
    varies = np.asarray(x, np.float64).std(0)
    # The mean of a float32 column is known to its rounding, in deviations of that column.
    rounding = 1e-6 * np.abs(x).max(0) / varies
    ordinary = varies > 0.05 * varies.mean()
    assert (np.abs(np.mean(y, 0)) < 1e-5 + 4 * rounding).all()
    error = np.abs(np.std(np.asarray(y, np.float64), 0) - 1.0)
    assert (error[ordinary] < (1e-4 + 4 * rounding + 2e-6 / varies)[ordinary]).all()
    if ordinary.all():
        expected = -np.log(varies).sum()
        slack = 1e-4 * channels + float((4 * rounding + 2e-6 / varies).sum())
        assert np.asarray(log_det) == pytest.approx(np.full(rows, expected), abs=slack)
