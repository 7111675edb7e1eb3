"""Flows of other implementations: the same numbers, and an error that names what does not fit."""

import re

import numpy as np
import pytest
from reference_flows import port_state_dict, random_tensors
from tf_bundle_writer import write_bundle

from bertflow_jax.config import FlowConfig
from bertflow_jax.convert.flow_import import array_shapes, import_flow
from bertflow_jax.convert.flow_layouts import PORT, RELEASED
from bertflow_jax.convert.port import find_file, import_port
from bertflow_jax.convert.tf1 import sort_checkpoint
from bertflow_jax.errors import BertFlowError, ConfigError, DataNotFoundError, WeightsError

SMALL = FlowConfig(levels=1, depth=2, width=3)


def load(names, tensors, **stated):
    return import_flow(names, array_shapes(tensors), tensors.__getitem__, "the.file", stated)


def numpy_released(tensors, config, x):
    """The released flow in float64, from the equations and its own names."""

    def norm(h, at):
        b, logs = (tensors[f"{at}actnorm/actnorm_{n}"] for n in ("center/b", "scale/logs"))
        return (h + b.ravel()) * np.exp(3.0 * logs.ravel())

    def dense(h, at):
        return norm(h @ tensors[f"{at}W"][0, 0], at)

    left, h = [], x.astype(np.float64)
    for level in range(config.levels):
        for step in range(config.depth):
            at = f"bert/flow/revnet_{level}/revnet_step_{step}/"
            h = norm(h, at)
            if config.permutation == "plu":
                p, low, up, sign, log = (
                    tensors[f"{at}invertible/{n}"].astype(np.float64)
                    for n in ("P", "L", "U", "sign_S", "log_S")
                )
                low = np.tril(low, -1) + np.eye(len(low))
                h = h @ (p @ low @ (np.triu(up, 1) + np.diag(sign * np.exp(log))))
            else:
                h = h @ tensors[f"{at}invertible/w"]
            x1, x2 = np.split(h, 2, axis=1)
            net = f"{at}{config.coupling}/nn/"
            hidden = np.maximum(dense(x1, f"{net}conv_block/1_1/"), 0)
            if config.activation == "gatu":
                gate = 1 / (1 + np.exp(-dense(hidden, f"{net}conv_block/1_sigm/")))
                hidden = np.tanh(dense(hidden, f"{net}conv_block/1_tanh/")) * gate
            else:
                hidden = np.maximum(dense(hidden, f"{net}conv_block/1_2/"), 0)
            w, b, logs = (tensors[f"{net}zeros/{n}"] for n in ("W", "b", "logs"))
            out = (hidden @ w[0, 0] + b.ravel()) * np.exp(3.0 * logs.ravel())
            if config.coupling == "affine":
                x2 = (x2 + out[:, 0::2]) / (1 + np.exp(-out[:, 1::2] - 2.0))
            else:
                x2 = x2 + out
            h = np.concatenate([x1, x2], axis=1)
        if level < config.levels - 1:
            h, eps = np.split(h, 2, axis=1)
            left.append(eps)
    return np.concatenate([*left, h], axis=1)


@pytest.mark.parametrize(
    "config",
    [
        FlowConfig(levels=2, depth=2, width=5, coupling="affine", permutation="plu"),
        FlowConfig(levels=1, depth=2, width=3, coupling="affine", activation="gatu"),
    ],
    ids=["affine-plu", "affine-gatu"],
)
def test_every_variant_of_the_released_code(config):
    """P taken for its transpose, shift and scale channels swapped, gates swapped."""
    tensors = random_tensors(RELEASED, config, 8)
    flow = load(RELEASED, tensors)
    assert (flow.config, flow.features) == (config, 8)
    x = np.random.default_rng(1).normal(size=(7, 8)).astype(np.float32)
    np.testing.assert_allclose(flow.transform(x), numpy_released(tensors, config, x), atol=1e-4)


def test_port_gives_the_ports_own_latents(shared, tmp_path):
    """glow.bin as the port saves it: kernels not transposed, channels in another order."""
    torch = pytest.importorskip("torch", reason="the port's file is a PyTorch file")
    arrays = dict(np.load(shared / "fixtures" / "flow_port_d64.npz"))
    state = port_state_dict(arrays, "params")
    torch.save({k: torch.from_numpy(v.copy()) for k, v in state.items()}, tmp_path / "glow.bin")
    flow, used = import_port(find_file(tmp_path), {})
    assert (flow.config, flow.features) == (FlowConfig(), 64)
    assert sorted(state) == used
    np.testing.assert_allclose(flow.transform(arrays["x"]), arrays["z"], atol=1e-4)


def test_released_checkpoint_gives_the_released_latents(shared, tmp_path):
    """With what a real run's checkpoint holds besides: moments, counter, classifier."""
    folder = shared / "fixtures" / "released_tf1_additive"
    tensors = dict(np.load(folder / "variables.npz"))
    moments = {
        f"{name}/adam_{kind}": value
        for name, value in tensors.items()
        for kind in "mv"
        if not name.endswith("invertible/w")
    }
    extra = {"global_step": np.int64(269), "loss/output_weights": np.ones((3, 192), np.float32)}
    prefix = write_bundle(tmp_path / "model.ckpt-269", {**tensors, **moments, **extra})
    found = sort_checkpoint(prefix)
    flow = import_flow(RELEASED, found.flow, found.bundle.read, str(prefix), {})
    assert set(found.flow) == set(tensors)
    assert set(found.left_out) == set(moments) | set(extra)
    assert found.encoder == {}
    expected = np.load(folder / "expected.npz")
    np.testing.assert_allclose(flow.transform(expected["x"]), expected["z"], atol=1e-4)


SOURCES = pytest.mark.parametrize("names", [RELEASED, PORT], ids=["released", "port"])


@SOURCES
@pytest.mark.parametrize(("found", "asked"), [(3, 2), (2, 3)])
def test_another_number_of_levels_than_stated(names, found, asked):
    """A level dropped, or made up, without a word: both directions."""
    config = FlowConfig(levels=found, depth=2, width=3)
    tensors = random_tensors(names, config, 16)
    assert load(names, tensors, levels=found).config == config
    text = f"--levels={asked} contradicts the.file, whose flow has levels={found}"
    with pytest.raises(ConfigError, match=text):
        load(names, tensors, levels=asked)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("depth", 3),
        ("width", 4),
        ("coupling", "affine"),
        ("permutation", "plu"),
        ("activation", "gatu"),
    ],
)
def test_other_fields_than_stated(field, value):
    with pytest.raises(ConfigError, match=f"--{field}={value} contradicts"):
        load(RELEASED, random_tensors(RELEASED, SMALL, 4), **{field: value})


GATED = FlowConfig(levels=1, depth=2, width=3, permutation="plu", activation="gatu")
CASES = [
    (names, config, name)
    for names, config in ((RELEASED, SMALL), (RELEASED, GATED), (PORT, SMALL))
    for name in names.expected(config, 4)
    if "0" in re.findall(r"\d", name)[1]  # of the first step: the others have the same names
]


@pytest.mark.parametrize(("names", "config", "name"), CASES, ids=[case[2] for case in CASES])
def test_every_tensor_is_needed_in_its_shape(names, config, name):
    """A parameter that would silently keep an initial value, or be broadcast."""
    tensors = random_tensors(names, config, 4)
    fewer = {key: value for key, value in tensors.items() if key != name}
    with pytest.raises(WeightsError, match=f"missing: {re.escape(name)};"):
        load(names, fewer)
    other = {**tensors, name: np.zeros((*tensors[name].shape, 2), tensors[name].dtype)}
    with pytest.raises(WeightsError, match=rf"{re.escape(name)} has shape \(.*needs \("):
        load(names, other)


@SOURCES
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_an_unknown_tensor_is_named(names, where):
    """A variant of the flow with a parameter that would be left out unseen."""
    start = names.step.format(level=0, step=1) if where == "inside" else "bert/flow/top_prior/"
    tensors = random_tensors(names, SMALL, 4) | {f"{start}extra": np.zeros(3, np.float32)}
    with pytest.raises(WeightsError, match=rf"no place for: {re.escape(start)}extra \(3,\)"):
        load(names, tensors)


@SOURCES
def test_a_missing_step_is_named(names):
    tensors = random_tensors(names, FlowConfig(levels=2, depth=2, width=3), 8)
    start = names.step.format(level=1, step=0)
    fewer = {name: value for name, value in tensors.items() if not name.startswith(start)}
    with pytest.raises(WeightsError, match=re.escape(start) + " is missing"):
        load(names, fewer)


@SOURCES
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite(names, value):
    tensors = random_tensors(names, SMALL, 4)
    name = next(name for name in tensors if "scale" in name)
    tensors[name][..., :1] = value
    # Path and name were there twice.
    text = f"^the.file: {re.escape(name)} holds values that are not finite$"
    with pytest.raises(WeightsError, match=text):
        load(names, tensors)


@SOURCES
@pytest.mark.parametrize("value", [1e3, -1e3])
def test_scales_that_are_infinite_or_0(names, value):
    """exp(3 * 1e3) is infinite although 1e3 is finite; the flow was imported and gave NaN."""
    tensors = random_tensors(names, SMALL, 4)
    name = next(name for name in tensors if name.endswith(("actnorm.logscale", "scale/logs")))
    tensors[name][..., :1] = value
    with pytest.raises(
        WeightsError, match=f"no finite values .*number is 1000, in {re.escape(name)}"
    ):
        load(names, tensors)


@pytest.mark.parametrize(
    ("names", "config", "leaf", "value", "text"),
    [
        (PORT, SMALL, "actnorm.initialized", np.array(0, np.uint8), "never fitted"),
        (PORT, SMALL, "coupling.net.4.initialized", np.array(0, np.uint8), "never fitted"),
        (PORT, SMALL, "invconv.weight", np.eye(4)[:, :, None, None], "not the reversal"),
        (RELEASED, SMALL, "invertible/w", np.eye(4), "not the reversal"),
        (RELEASED, GATED, "invertible/P", np.eye(4)[[0, 0, 1, 2]], "not a permutation"),
        (RELEASED, GATED, "invertible/sign_S", np.array([1, 0, 1, 1.0]), "other than -1 and 1"),
    ],
)
def test_fixed_tensors_of_another_value(names, config, leaf, value, text):
    """A flow that computes something else than ours would, or that was never fitted."""
    name = names.step.format(level=0, step=1) + leaf
    tensors = random_tensors(names, config, 4) | {name: value.astype(np.float32)}
    with pytest.raises(WeightsError, match=f"{re.escape(name)}.*{text}"):
        load(names, tensors)


@pytest.fixture
def save_port(tmp_path):
    """Return a function that saves a port's flow of some levels as glow.bin."""
    torch = pytest.importorskip("torch", reason="the port's file is a PyTorch file")

    def save(levels):
        tensors = random_tensors(PORT, FlowConfig(levels=levels, width=3), 16)
        state = {name: torch.from_numpy(value.copy()) for name, value in tensors.items()}
        torch.save(state, tmp_path / "glow.bin")
        return tmp_path / "glow.bin"

    return save


def test_a_port_flow_without_its_last_level(save_port):
    """The names alone would make it a smaller flow; the port always makes three levels."""
    file = save_port(2)
    with pytest.raises(WeightsError, match="levels=2, and the PyTorch port's flow levels=3"):
        import_port(file, {})
    assert import_port(file, {"levels": 2})[0].config.levels == 2


@pytest.mark.parametrize("seed", range(2))
def test_damaged_port_files(save_port, seed):
    """30 damaged files: errors of ours that name the file, or a whole flow."""
    file = save_port(3)
    good, rng = file.read_bytes(), np.random.default_rng(seed)
    for i in range(15):
        data = bytearray(good)
        at = int(rng.integers(len(data)))
        if i % 2:
            del data[at:]
        else:
            data[at] ^= 1 << int(rng.integers(8))
        file.write_bytes(data)
        try:
            text = f"{file} {import_port(file, {})[0].config.levels}"
        except BertFlowError as error:
            text = str(error)
        assert str(file) in text


def test_what_is_no_port_file(tmp_path):
    """A folder without glow.bin, a TensorFlow checkpoint, a file of another kind."""
    with pytest.raises(DataNotFoundError, match=r"glow\.bin not found"):
        find_file(tmp_path)
    write_bundle(tmp_path / "model.ckpt", {"a": np.zeros(1, np.float32)})
    with pytest.raises(ConfigError, match=r"give it as --checkpoint="):
        find_file(tmp_path / "model.ckpt")
    (tmp_path / "flow.txt").write_text("x")
    with pytest.raises(ConfigError, match=r"\*\.bin, \*\.pt, \*\.pth"):
        find_file(tmp_path / "flow.txt")


def test_tensors_of_neither_encoder_nor_flow(tmp_path):
    """A head, or a variable of another model, that would be dropped unseen."""
    tensors = {**random_tensors(RELEASED, SMALL, 4), "bert/extra/kernel": np.zeros(2, np.float32)}
    prefix = write_bundle(tmp_path / "a", tensors)
    with pytest.raises(WeightsError, match=r"neither a BERT nor a BERT-flow: bert/extra/kernel \("):
        sort_checkpoint(prefix)


def test_a_moment_without_its_variable(tmp_path):
    """The last level lost, but not its moments: the names would make it a smaller flow."""
    config = FlowConfig(levels=2, depth=2, width=3)
    tensors = {
        name: value
        for name, value in random_tensors(RELEASED, config, 8).items()
        if "revnet_1" not in name
    }
    lost = "bert/flow/revnet_1/revnet_step_0/actnorm/actnorm_center/b"
    tensors[f"{lost}/adam_m"] = np.zeros((1, 1, 1, 4), np.float32)
    with pytest.raises(WeightsError, match=f"{lost} is missing, although its moment"):
        sort_checkpoint(write_bundle(tmp_path / "a", tensors))


def test_a_checkpoint_with_nothing_to_import(tmp_path):
    with pytest.raises(WeightsError, match="no tensor of an encoder"):
        sort_checkpoint(write_bundle(tmp_path / "a", {"global_step": np.int64(1)}))
