"""`Flow`: the method on any embeddings."""

import json
import math

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bertflow_jax.config import FlowConfig, TrainConfig
from bertflow_jax.errors import (
    BertFlowError,
    CheckpointError,
    ConfigError,
    DataNotFoundError,
    InputError,
    TrainingError,
    WorkdirError,
)
from bertflow_jax.flow.glow import Glow
from bertflow_jax.postprocess import Flow
from bertflow_jax.training.losses import bits_per_dim

D = 5  # odd
MEAN = np.array([3.0, -1.0, 0.0, 10.0, 0.5])
STD = np.array([2.0, 0.5, 1.0, 0.1, 3.0])
SHAPE = FlowConfig(levels=2, depth=2, width=8)


def gaussian(n, seed=0):
    noise = np.random.default_rng(seed).normal(size=(n, D))
    return (MEAN + STD * noise).astype(np.float32)


@pytest.fixture(scope="module")
def flow():
    """Fitted on a Gaussian with independent dimensions of unequal mean and spread."""
    train = TrainConfig(steps=200, batch_size=128, learning_rate=1e-3)
    return Flow(SHAPE, seed=1, train=train).fit(gaussian(1000))


def test_inverse_undoes_forward(flow):
    """Catches a bijector in the wrong order, with odd D and a partial call of the rows."""
    x = gaussian(1030, seed=1)
    z = flow.transform(x)
    assert z.dtype == np.float32
    assert z.shape == x.shape
    assert np.abs(z - x).max() > 1
    np.testing.assert_allclose(flow.inverse_transform(z), x, atol=1e-4)


def test_log_prob_is_the_negative_loss_in_nats(flow):
    """log p(u) = -bits/dim * D * ln 2, on the module the fit itself uses."""
    x = gaussian(9, seed=2)
    bits = bits_per_dim(*Glow(D, SHAPE).apply(flow.variables, x)).total
    np.testing.assert_allclose(flow.log_prob(x), -bits * D * math.log(2), rtol=1e-4)
    np.testing.assert_allclose(flow.distribution.log_prob(x), flow.log_prob(x), rtol=1e-4)


def test_log_prob_is_near_the_true_density(flow):
    """Catches a log-det of the wrong sign: the data's own density is known."""
    x = gaussian(2000, seed=3)
    true = -0.5 * np.square((x - MEAN) / STD) - np.log(STD * math.sqrt(2 * math.pi))
    assert abs(flow.log_prob(x).mean() - true.sum(1).mean()) < 0.3


def test_samples_have_the_mean_and_spread_of_the_data(flow):
    """Catches samples of the prior, or of the wrong direction."""
    samples = flow.sample(jax.random.key(0), 4000)
    assert samples.shape == (4000, D)
    assert (np.abs(samples.mean(0) - MEAN) < 0.2 * STD).all()
    assert (np.abs(samples.std(0) / STD - 1) < 0.2).all()
    assert flow.sample(jax.random.PRNGKey(0), np.int64(0)).shape == (0, D)


def test_latents_are_standard(flow):
    """Catches a fit that changes nothing."""
    z = flow.transform(gaussian(2000, seed=4))
    assert np.abs(z.mean(0)).max() < 0.2
    assert np.abs(z.std(0) - 1).max() < 0.2


def test_the_same_seed_gives_the_same_flow():
    train = TrainConfig(steps=3, batch_size=16)
    first, second, other = (
        Flow(SHAPE, seed, train).fit(gaussian(50)).transform(gaussian(4)) for seed in (7, 7, 8)
    )
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - other).max() > 0


def test_one_row_does_not_depend_on_the_others(flow):
    """Catches a row padded into the result, or a result of no rows that fails."""
    x = gaussian(9, seed=5)
    np.testing.assert_allclose(flow.transform(x)[3:4], flow.transform(x[3:4]), atol=1e-5)
    assert flow.transform(x[:0]).shape == (0, D)


def test_saved_and_loaded_is_bit_equal(flow, tmp_path):
    flow.save(tmp_path / "a" / "flow")
    loaded = Flow.load(tmp_path / "a" / "flow")
    x = gaussian(20, seed=6)
    np.testing.assert_array_equal(loaded.transform(x), flow.transform(x))
    np.testing.assert_array_equal(loaded.log_prob(x), flow.log_prob(x))
    assert (loaded.config, loaded.train, loaded.seed) == (flow.config, flow.train, flow.seed)
    assert loaded.features == D


def test_unfitted():
    for use in (
        lambda flow: flow.transform(gaussian(2)),
        lambda flow: flow.sample(jax.random.key(0), 2),
        lambda flow: flow.save("unused"),
        lambda flow: flow.distribution,
    ):
        with pytest.raises(BertFlowError, match="not fitted yet"):
            use(Flow())


@pytest.mark.parametrize(
    ("rows", "kind", "message"),
    [
        (5.0, InputError, "shape"),
        (None, InputError, "shape"),
        ([[1.0, 2.0], [3.0]], InputError, "shape"),
        ([["a", "b"]], InputError, "numeric"),
        ([[1.0, float("nan")]] * 2, InputError, "row 0 is not finite"),
        (np.zeros((0, D)), TrainingError, "at least two"),
        (np.zeros((3, D)), TrainingError, "equal"),
    ],
)
def test_embeddings_that_cannot_be_fitted(rows, kind, message):
    """Catches TypeError of len() and ValueError of numpy."""
    with pytest.raises(kind, match=message):
        Flow(SHAPE).fit(rows)


@pytest.mark.parametrize("rows", [5.0, None, [[1.0], [1.0, 2.0]], np.zeros((2, D + 1))])
def test_embeddings_that_cannot_be_transformed(flow, rows):
    for method in (flow.transform, flow.inverse_transform, flow.log_prob):
        with pytest.raises(InputError):
            method(rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": None}, "seed=None"),
        ({"seed": 1.5}, "seed=1.5"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 2**64}, "seed=18446744073709551616"),
        ({"config": {"levels": 1}}, "flow=.*must be of type FlowConfig, not dict"),
        ({"config": {}}, "flow={}"),
        ({"train": {"steps": 1}}, "train=.*must be of type TrainConfig"),
        ({"train": TrainConfig(steps="3")}, r"train\.steps='3'"),
    ],
)
def test_impossible_flows(arguments, message):
    with pytest.raises(ConfigError, match=message):
        Flow(**arguments)


@pytest.mark.parametrize(
    ("key", "n", "message"),
    [
        (jax.random.key(0), -1, "n=-1"),
        (jax.random.key(0), 2.5, "n=2.5"),
        (jax.random.key(0), True, "n=True"),
        (0, 3, "key must be one JAX random key.*not int"),
        (None, 3, "not NoneType"),
        (jax.random.split(jax.random.key(0), 2), 3, "one JAX random key"),
    ],
)
def test_impossible_samples(flow, key, n, message):
    with pytest.raises(InputError, match=message):
        flow.sample(key, n)


@pytest.mark.parametrize("place", ["", "file", "file/below"])
def test_folders_that_cannot_be_written(flow, tmp_path, monkeypatch, place):
    """Catches FileExistsError, and files strewn into the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorkdirError, match="folder"):
        flow.save(place)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_damaged_files(flow, tmp_path):
    """Every damage is named, and none gives NaN later."""
    with pytest.raises(DataNotFoundError, match=r"flow_config\.json not found"):
        Flow.load(tmp_path / ("x" * 300))
    flow.save(tmp_path)
    arrays, described = tmp_path / "flow.safetensors", tmp_path / "flow_config.json"
    good, text = load_file(arrays), described.read_text()
    name = sorted(good)[0]
    for changed, message in [
        ({**good, name: np.full_like(good[name], np.nan)}, "not finite"),
        ({**good, name: np.zeros((1, 2, 3), np.float32)}, "has shape"),
        ({**good, "extra": good[name]}, "unexpected array 'extra'"),
        ({key: good[key] for key in good if key != name}, "missing array"),
    ]:
        save_file(changed, arrays)
        with pytest.raises(CheckpointError, match=message):
            Flow.load(tmp_path)
    save_file(good, arrays)
    for fields in (
        {"seed": None},
        {"features": "x"},
        {"flow": {"levels": "1"}},
        {"train": {"a": 1}},
        {"flow": {**json.loads(text)["flow"], "depth": 2**31 - 1}},  # would never end
    ):
        described.write_text(json.dumps(json.loads(text) | fields))
        with pytest.raises(CheckpointError, match="not a readable flow"):
            Flow.load(tmp_path)
    described.write_text("[]")
    with pytest.raises(CheckpointError, match="not a readable flow"):
        Flow.load(tmp_path)
    described.write_text(text)
    arrays.write_bytes(b"x")
    with pytest.raises(CheckpointError, match="not a readable flow"):
        Flow.load(tmp_path)


def test_changed_arrays_are_noticed(flow, tmp_path):
    """Another order of channels, or float16, once loaded and gave other latents."""
    flow.save(tmp_path)
    path = tmp_path / "flow.safetensors"
    arrays = load_file(path)
    name = sorted(arrays)[0]
    for changed in (arrays[name][::-1].copy(), arrays[name].astype(np.float16)):
        save_file({**arrays, name: changed}, path)
        with pytest.raises(CheckpointError, match=r"flow_config\.json was written for"):
            Flow.load(tmp_path)
