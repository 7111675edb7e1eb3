"""The flow: the cases F01 to F06 that are no property of one bijector (tests/flow has those)."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases.flow_in_a_new_process import FLOW, LEARNING_RATE, config, fit_data, observe, rows
from jax.flatten_util import ravel_pytree

from bertflow_jax.config import Config, FlowConfig, TrainConfig
from bertflow_jax.flow.coupling import AffineCoupling
from bertflow_jax.postprocess import Flow
from bertflow_jax.training.fit import initial_state, prepare_data
from bertflow_jax.training.loop import run_fit


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A flow of five steps, saved; what this process and one of eight devices see of it."""
    folder = tmp_path_factory.mktemp("flow")
    state = run_fit(config(5), fit_data(), initial_state(config(5), fit_data())).state
    flow = Flow.from_variables(FLOW, state.variables, 8)
    flow.save(folder / "flow")
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8"
    script = Path(__file__).with_name("flow_in_a_new_process.py")
    root = script.parents[2]
    done = subprocess.run(
        [sys.executable, str(script), str(folder)],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return flow, observe(folder), dict(np.load(folder / "observed.npz"))


def test_f01_a_loaded_flow_never_initialises_again(trained):
    """Bug: the first batch after a load sets ActNorm anew, since its flag was not saved."""
    flow, here, there = trained
    before = flow.transform(rows(100.0))
    for seen in (here, there):
        np.testing.assert_array_equal(seen["latents"], before)
        np.testing.assert_array_equal(seen["again"], before)


def test_f01_a_step_after_a_load_is_only_a_step(trained):
    """Bug: training on initialises again; rows around 100 would move a bias by 100."""
    flow, here, there = trained
    start = np.asarray(ravel_pytree(flow.variables)[0])
    for seen in (here, there):
        change = np.abs(seen["after"] - start)
        assert change.max() > 0.1 * LEARNING_RATE
        # Adam without bias correction: the first step is at most sqrt(10) learning rates.
        assert change.max() < 3.5 * LEARNING_RATE


def test_f03_eight_devices_initialise_from_the_whole_batch(trained):
    """Bug: every device takes the statistics of its own rows, so that log-dets differ."""
    _, here, there = trained
    np.testing.assert_allclose(there["start"], here["start"], atol=1e-6)
    np.testing.assert_allclose(there["log_dets"], here["log_dets"], atol=1e-6)
    # Additive couplings and reversals: one log-det for every row, and so on every device.
    assert np.ptp(there["log_dets"]) < 1e-6
    norm = initial_state(config(1), fit_data()).variables["params"]["level0_step0"]["actnorm"]
    np.testing.assert_allclose(norm["bias"], -rows().mean(0), atol=1e-5)


@pytest.mark.parametrize("coupling", ["affine", "additive"])
def test_f05_an_outlier_dimension_and_an_outlier_row_stay_finite(coupling):
    """Bug: exp of an unbounded log-scale overflows within 2,000 steps, or for one row x 1e4."""
    rng = np.random.default_rng(0)
    u = (rng.normal(size=(256, 8)) @ rng.normal(size=(8, 8))).astype(np.float32)
    u[:, 5] *= 10.0
    u[17] *= 1e4
    flow = FlowConfig(levels=2, depth=2, width=8, coupling=coupling)
    made = Config(flow=flow, train=TrainConfig(steps=2000, batch_size=32, learning_rate=1e-3))
    data = prepare_data(u, np.arange(256)[:, None], held_out=0.0, seed=0)
    start = initial_state(made, data)
    fitted = Flow.from_variables(flow, run_fit(made, data, start).state.variables, 8)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(fitted.variables))
    ordinary = np.delete(u, 17, axis=0)
    first = Flow.from_variables(flow, start.variables, 8)
    # The median: the outlier decides the mean.
    assert np.median(fitted.log_prob(u)) > np.median(first.log_prob(u)) + 10
    z = fitted.transform(1e4 * ordinary)
    assert np.isfinite(z).all()
    back = fitted.inverse_transform(fitted.transform(ordinary))
    np.testing.assert_allclose(back, ordinary, atol=1e-3 * np.abs(ordinary).max())


def test_f05_the_scale_of_an_affine_coupling_is_bounded():
    """Bug: exp of the network's output: 1e30 for an input of 70."""
    bijector = AffineCoupling(lambda x: jnp.full((*x.shape[:-1], 4), 1e4) * x[..., :1])
    x = np.float32([[70, 70, 1, 1], [-70, 70, 1, 1], [0, 0, 1, 1]])
    y, log_det = bijector.forward_and_log_det(x)
    assert np.isfinite(y).all()
    # At most 1 in every channel, sigmoid(2) where the network gives 0.
    np.testing.assert_allclose(
        np.asarray(log_det)[[0, 2]], [0.0, 2 * np.log(1 / (1 + np.exp(-2.0)))], atol=1e-6
    )
    assert np.isfinite(log_det).all()
