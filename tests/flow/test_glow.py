"""The assembled flow: sizes, initialisation, dropout, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bertflow_jax.config import FlowConfig
from bertflow_jax.errors import ConfigError
from bertflow_jax.flow import glow
from bertflow_jax.flow.actnorm import ActNorm, fit_actnorm, init_actnorm
from bertflow_jax.flow.permutation import PLULinear, init_plu
from bertflow_jax.training.losses import bits_per_dim


@pytest.mark.parametrize(
    ("features", "levels", "count"),
    [(768, 3, 151_488), (768, 2, 127_872), (1024, 3, 198_528), (1024, 2, 168_192)],
)
def test_parameter_counts_of_the_paper(features, levels, count):
    """A missing bias, an extra ActNorm or a wrong level width changes the count."""
    config = FlowConfig(levels=levels)
    variables = jax.eval_shape(lambda: glow.init_variables(config, features, 0))
    assert sum(leaf.size for leaf in jax.tree.leaves(variables["params"])) == count


def test_f06_actnorm_by_hand():
    """Case F06: [[2, 10], [4, 30]] has means 3, 20 and deviations 1, 10."""
    x = jnp.asarray([[2.0, 10.0], [4.0, 30.0]])
    actnorm = ActNorm(**fit_actnorm(x))
    y, log_det = actnorm.forward_and_log_det(x)
    np.testing.assert_allclose(y, [[-1, -1], [1, 1]], atol=1e-5)
    np.testing.assert_allclose(log_det, -np.log(10.0), atol=1e-5)


def test_actnorm_bounds_the_scale_of_a_constant_channel():
    """A channel that never varies must not get a gain of 1e6."""
    x = np.random.default_rng(0).normal(0, 0.05, (50, 4)).astype(np.float32)
    x[:, 2] = 0.7
    gain = np.exp(3 * np.asarray(fit_actnorm(x)["log_scale"]))
    assert np.isfinite(gain).all()
    assert gain[2] < 2 * gain.min()
    np.testing.assert_allclose(gain[[0, 1, 3]], 1 / x.std(0)[[0, 1, 3]], rtol=1e-3)


def test_released_initial_values_lie_in_the_glorot_bounds():
    """`released` is Glorot uniform over [1, 1, 1, C], not normal and not zero."""
    params = init_actnorm(jax.random.key(0), 768, "released")
    limit = np.sqrt(6 / 769)
    for leaf in params.values():
        assert np.abs(leaf).max() <= limit
        np.testing.assert_allclose(np.std(leaf), limit / np.sqrt(3), rtol=0.1)


def test_released_start_loss():
    """The released start gives 4.06 bits/dim at D = 768 on its data; identity on N(0, 1) 2.05."""
    x = np.random.default_rng(0).normal(size=(256, 768)).astype(np.float32)
    losses = {}
    for mode in ("released", "identity", "data"):
        config = FlowConfig(actnorm_init=mode)
        flow = glow.bijector(config, glow.init_variables(config, 768, 0), 768)
        losses[mode] = float(bits_per_dim(*jax.jit(flow.forward_and_log_det)(x)).total.mean())
    entropy = 0.5 * np.log2(2 * np.pi * np.e)
    assert losses["identity"] == losses["data"] == pytest.approx(entropy, abs=0.01)
    assert losses["released"] > entropy + 0.05


def test_f06_plu_starts_as_a_rotation():
    """W = P L (U + diag(s)) is orthogonal before training, with P on the right side."""
    trainable, fixed = init_plu(jax.random.key(1), 9)
    w = np.asarray(PLULinear(**trainable, **fixed).forward(jnp.eye(9)))
    np.testing.assert_allclose(w @ w.T, np.eye(9), atol=1e-5)
    assert set(np.asarray(fixed["sign_s"])) <= {-1.0, 1.0}
    p = np.eye(9)[:, np.asarray(fixed["order"])]
    lower = np.tril(trainable["lower"], -1) + np.eye(9)
    upper = np.triu(trainable["upper"], 1) + np.diag(
        np.asarray(fixed["sign_s"]) * np.exp(trainable["log_s"])
    )
    np.testing.assert_allclose(p @ lower @ upper, w, atol=1e-5)


def test_fixed_parts_are_not_trainable():
    """P and sign(s) live outside "params", where an optimiser cannot reach them."""
    config = FlowConfig(permutation="plu", levels=1, depth=2)
    variables = glow.init_variables(config, 6, 0)
    assert set(variables["params"]["level0_step0"]["plu"]) == {"lower", "upper", "log_s"}
    assert set(variables["constants"]["level0_step1"]["plu"]) == {"sign_s", "order"}


@pytest.mark.parametrize("features", [8, 11, 13])
def test_data_initialisation_whitens_every_actnorm(features):
    """After initialisation each ActNorm's output has mean 0 and variance 1 on the same rows."""
    config = FlowConfig(levels=2, depth=2, width=8, permutation="plu", activation="gatu")
    x = np.random.default_rng(2).normal(3.0, 2.0, (64, features)).astype(np.float32)
    variables = glow.fit_variables(config, glow.init_variables(config, features, 0), x)
    y = x
    for step in range(2):
        params = variables["params"][f"level0_step{step}"]
        normed = ActNorm(**params["actnorm"]).forward(y)
        np.testing.assert_allclose(np.mean(normed, 0), 0.0, atol=1e-4)
        np.testing.assert_allclose(np.std(normed, 0), 1.0, atol=1e-3)
        bound = glow.FlowStep(features, config).bind(
            {
                "params": params,
                "constants": variables["constants"][f"level0_step{step}"],
            }
        )
        y = np.asarray(bound.bijector().forward(y))


def test_dropout_only_with_a_key():
    """Dropout changes the fit's forward pass, and never an evaluation."""
    config = FlowConfig(levels=1, depth=1, dropout=0.5)
    variables = glow.init_variables(config, 6, 0)
    params = jax.tree.map(lambda leaf: leaf + 0.3, variables["params"])
    x = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)

    def run(key):
        return np.asarray(glow.bijector(config, {"params": params}, 6, key).forward(x))

    np.testing.assert_array_equal(run(None), run(None))
    assert np.abs(run(jax.random.key(0)) - run(None)).max() > 1e-3
    assert np.abs(run(jax.random.key(0)) - run(jax.random.key(1))).max() > 1e-3


@pytest.mark.parametrize(("features", "levels"), [(3, 2), (7, 3), (1, 1), (4, 3)])
def test_too_few_channels_are_refused(features, levels):
    """A level with fewer than two channels has nothing to couple."""
    with pytest.raises(ConfigError, match=r"flow\.levels.*at least 2"):
        glow.init_variables(FlowConfig(levels=levels), features, 0)


@pytest.mark.parametrize(("features", "levels"), [(2, 1), (5, 2), (9, 3), (13, 3)])
def test_small_and_odd_sizes_work(features, levels):
    """Odd D at every level that keeps two channels: bijective, and every channel is reached."""
    config = FlowConfig(levels=levels, depth=2, width=4)
    variables = glow.init_variables(config, features, 0)
    rng = np.random.default_rng(1)
    moved = jax.tree.map(
        lambda leaf: leaf + rng.normal(0, 0.2, leaf.shape).astype(np.float32), variables
    )
    flow = glow.bijector(config, moved, features)
    x = rng.normal(size=(6, features)).astype(np.float32)
    np.testing.assert_allclose(jax.jit(flow.inverse)(jax.jit(flow.forward)(x)), x, atol=1e-5)
    jacobian = np.asarray(jax.jit(jax.jacfwd(flow.forward))(x[0]))
    assert (np.abs(jacobian).sum(axis=0) > 0).all()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("coupling", "spline"),
        ("permutation", "shuffle"),
        ("activation", "gelu"),
        ("actnorm_init", "random"),
        ("levels", 0),
        ("dropout", 1.0),
    ],
)
def test_impossible_fields_are_named(field, value):
    """A typo in a config field is an error that names the field and the choices."""
    with pytest.raises(ConfigError, match=rf"flow\.{field}"):
        glow.init_variables(FlowConfig(**{field: value}), 16, 0)
