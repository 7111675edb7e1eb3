"""Our flow against numbers made by other implementations."""

import distrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference_flows import max_difference, port_variables, released_variables

from bertflow_jax.config import FlowConfig, TrainConfig
from bertflow_jax.flow import glow
from bertflow_jax.training.losses import bits_per_dim
from bertflow_jax.training.optimizer import UncorrectedAdamState, make_optimizer
from bertflow_jax.training.steps import FitState, flat_params, make_run_steps

CONFIG = FlowConfig()


@pytest.fixture(scope="module")
def port(shared):
    return dict(np.load(shared / "fixtures" / "flow_port_d64.npz"))


@pytest.fixture(scope="module")
def released(shared):
    folder = shared / "fixtures" / "released_tf1_additive"
    return {
        name: dict(np.load(folder / f"{name}.npz"))
        for name in ("variables", "expected", "init_expected")
    }


def _loss(variables, x):
    z, log_det = glow.bijector(CONFIG, variables, x.shape[-1]).forward_and_log_det(x)
    return z, log_det, bits_per_dim(z, log_det).total


@pytest.mark.device
def test_port_forward(port):
    """z and loss of the PyTorch port for parameters moved away from their initial values."""
    z, _, loss = _loss(port_variables(port, "params"), port["x"])
    np.testing.assert_allclose(z, port["z"], atol=1e-4)
    np.testing.assert_allclose(loss.mean(), port["loss_bits_per_dim"], atol=1e-4)


def test_port_data_initialisation(port):
    """ActNorms after the port's data-dependent initialisation, started from anything."""
    start = port_variables(port, "init_params")
    spoiled = jax.tree.map(lambda leaf: leaf, start)
    for step in spoiled["params"].values():
        step["actnorm"] = jax.tree.map(lambda leaf: leaf + 1.0, step["actnorm"])
        for name in ("hidden1_actnorm", "hidden2_actnorm"):
            step["conditioner"][name] = jax.tree.map(
                lambda leaf: leaf - 1.0, step["conditioner"][name]
            )
    fitted = glow.fit_variables(CONFIG, spoiled, port["x"])
    assert max_difference(fitted["params"], start["params"]) < 1e-4
    z, _, loss = _loss(fitted, port["x"])
    np.testing.assert_allclose(z, port["init_z"], atol=1e-4)
    np.testing.assert_allclose(loss.mean(), port["init_loss_bits_per_dim"], atol=1e-4)


@pytest.mark.device
def test_port_training_losses(port):
    """The losses before each of five released optimiser steps."""
    optimizer = make_optimizer(TrainConfig())
    variables = jax.tree.map(jnp.asarray, port_variables(port, "params"))
    state = FitState(jnp.int32(0), variables, optimizer.init(flat_params(variables)))
    run = jax.jit(make_run_steps(CONFIG, optimizer, 64, seed=0))
    rows = np.tile(np.arange(48, dtype=np.int32)[None, :, None], (8, 1, 1))
    _, metrics = run(state, port["x"], rows, 5)
    np.testing.assert_allclose(metrics.bits_per_dim[:5], port["train_losses"], atol=1e-3)
    assert (np.asarray(metrics.bits_per_dim[5:]) == 0).all()


@pytest.mark.device
def test_released_forward(released):
    """z, per-example loss and log-det of the released TensorFlow code."""
    expected = released["expected"]
    z, log_det, loss = _loss(released_variables(released["variables"]), expected["x"])
    np.testing.assert_allclose(z, expected["z"], atol=1e-4)
    np.testing.assert_allclose(loss, expected["loss_bits_per_dim"], atol=1e-4)
    np.testing.assert_allclose(log_det, expected["log_det"], atol=1e-4)


def test_released_data_initialisation(released):
    """The released initialisation sets the ActNorms only, the conditioners' too."""
    expected = released["init_expected"]
    target = released_variables(expected, prefix="variables/")
    start = jax.tree.map(lambda leaf: leaf, target)
    for step in start["params"].values():
        for norms in (step, step["conditioner"]):
            for name in [n for n in norms if n.endswith("actnorm")]:
                norms[name] = jax.tree.map(lambda leaf: leaf * 0 + 0.3, norms[name])
    fitted = glow.fit_variables(CONFIG, start, released["expected"]["x"])
    assert max_difference(fitted["params"], target["params"]) < 1e-4
    z, _, loss = _loss(fitted, released["expected"]["x"])
    np.testing.assert_allclose(z, expected["init_z"], atol=1e-4)
    np.testing.assert_allclose(loss, expected["init_loss"], atol=1e-4)


def test_released_optimizer(shared):
    """Five steps of the released optimiser on pairs: losses, variables and moments."""
    arrays = dict(np.load(shared / "fixtures" / "released_tf1_optimizer.npz"))
    config = FlowConfig(levels=2, depth=2, width=32)
    optimizer = make_optimizer(TrainConfig())
    start = jax.tree.map(jnp.asarray, released_variables(arrays, "start/", config=config))
    state = FitState(jnp.int32(0), start, optimizer.init(flat_params(start)))
    run = jax.jit(make_run_steps(config, optimizer, 32, seed=0))
    embeddings = np.concatenate([arrays["x_a"], arrays["x_b"]])
    pairs = np.stack([np.arange(32), np.arange(32, 64)], axis=1).astype(np.int32)
    state, metrics = run(state, embeddings, np.tile(pairs, (6, 1, 1)), 5)
    np.testing.assert_allclose(2 * metrics.bits_per_dim[:5], arrays["flow_loss"], atol=1e-5)
    np.testing.assert_allclose(metrics.grad_norm[:5], arrays["grad_norm"], rtol=1e-5)
    assert arrays["grad_norm"].min() < 1.0 < arrays["grad_norm"].max()  # the clip works both ways
    after = released_variables(arrays, "after/", config=config)
    assert max_difference(state.variables["params"], after["params"]) < 1e-5
    moments = next(s for s in state.opt_state if isinstance(s, UncorrectedAdamState))
    for ours, suffix in ((moments.m, "/adam_m"), (moments.v, "/adam_v")):
        theirs = released_variables(arrays, "after/", suffix, config)
        np.testing.assert_allclose(ours, flat_params(theirs), atol=1e-5)


@pytest.mark.device
@pytest.mark.parametrize("features", [384, 768])
def test_round_trip_at_real_sizes(features):
    """inverse(forward(x)) within 1e-4 for a moved flow at the sizes of real encoders."""
    rng = np.random.default_rng(0)
    variables = glow.init_variables(CONFIG, features, 0)
    x = jnp.asarray(rng.normal(0.3, 0.5, (64, features)), jnp.float32)
    variables = glow.fit_variables(CONFIG, variables, x)
    moved = jax.tree.map(
        lambda leaf: leaf + rng.normal(0, 0.05, leaf.shape).astype(np.float32), variables
    )
    flow = glow.bijector(CONFIG, moved, features)
    z = flow.forward(x)
    np.testing.assert_allclose(flow.inverse(z), x, atol=1e-4)
    assert np.abs(np.asarray(z)).mean() > 0.3


def test_distribution_is_the_loss(port):
    """distrax.Transformed is given the flow the right way round."""
    variables = port_variables(port, "params")
    density = glow.distribution(CONFIG, variables, 64)
    assert isinstance(density, distrax.Transformed)
    bits = -density.log_prob(port["x"]).mean() / (64 * np.log(2))
    np.testing.assert_allclose(bits, port["loss_bits_per_dim"], atol=1e-4)
    drawn = density.sample(seed=jax.random.key(1), sample_shape=4000)
    latent = glow.bijector(CONFIG, variables, 64).forward(drawn)
    np.testing.assert_allclose(np.mean(latent, axis=0), 0.0, atol=0.08)
    np.testing.assert_allclose(np.std(latent, axis=0), 1.0, atol=0.08)
