"""Reference flows of other implementations, under our parameter names."""

import re

import jax
import numpy as np

from bertflow_jax.config import FlowConfig
from bertflow_jax.convert.flow_layouts import PORT, RELEASED

# Names in the stored arrays of the port -> names in its state dict.
_PORT_DENSE = {"dense1": "0", "dense2": "3", "dense3": "6.conv"}
_PORT_NORMS = {
    "actnorm": "actnorm",
    "coupling/actnorm1": "coupling.net.1",
    "coupling/actnorm2": "coupling.net.4",
}


def port_state_dict(arrays, group):
    """The port's state dict (its names and layouts) from the arrays of flow_port_d64.npz."""
    state = {}
    for level in range(3):
        for step in range(3):
            at, to = f"{group}/level{level}/step{step}", f"blocks.{level}.flows.{step}"
            for name, module in _PORT_NORMS.items():
                state[f"{to}.{module}.initialized"] = np.array(1, np.uint8)
                for ours, theirs in (("bias", "loc"), ("logscale_over_3", "logscale")):
                    array = arrays[f"{at}/{name}/{ours}"]
                    state[f"{to}.{module}.{theirs}"] = array.reshape(1, -1, 1, 1)
            for name, module in _PORT_DENSE.items():
                kernel = arrays[f"{at}/coupling/{name}/kernel"]
                state[f"{to}.coupling.net.{module}.weight"] = kernel.T[:, :, None, None]
            last = f"{at}/coupling/dense3"
            state[f"{to}.coupling.net.6.conv.bias"] = arrays[f"{last}/bias"]
            state[f"{to}.coupling.net.6.scale"] = arrays[f"{last}/logscale_over_3"].reshape(
                1, -1, 1, 1
            )
            channels = arrays[f"{at}/actnorm/bias"].size
            reversal = np.eye(channels, dtype=np.float32)[::-1]
            state[f"{to}.invconv.weight"] = reversal[:, :, None, None]
    return state


def port_variables(arrays, group):
    """Variables of our Glow from the arrays of flow_port_d64.npz."""
    return PORT.variables(port_state_dict(arrays, group).__getitem__, FlowConfig(), 64)


def released_variables(arrays, prefix="", suffix="", config=None):
    """Variables of our Glow from arrays under the released TensorFlow names."""
    first = "bert/flow/revnet_0/revnet_step_0/actnorm/actnorm_center/b"
    features = arrays[f"{prefix}{first}{suffix}"].size
    return RELEASED.variables(
        lambda name: arrays[f"{prefix}{name}{suffix}"], config or FlowConfig(), features
    )


def random_tensors(names, config, features, seed=0):
    """Every tensor of a flow under the other implementation's names."""
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, shape in names.expected(config, features).items():
        value = rng.normal(scale=0.3, size=shape).astype(np.float32)
        leaf = re.split(r"[./]", name)[-1]
        if leaf == "w" or name.endswith("invconv.weight"):
            value = np.eye(shape[0], dtype=np.float32)[::-1].reshape(shape)
        elif leaf == "P":
            value = np.eye(shape[0], dtype=np.float32)[rng.permutation(shape[0])]
        elif leaf == "sign_S":
            value = rng.choice(np.array([-1, 1], np.float32), shape)
        elif leaf == "initialized":
            value = np.array(1, np.uint8)
        tensors[name] = value
    return tensors


def max_difference(tree, other):
    """Largest absolute difference of two pytrees of one structure."""
    assert jax.tree.structure(tree) == jax.tree.structure(other)
    gaps = jax.tree.map(
        lambda a, b: float(np.abs(np.asarray(a) - np.asarray(b)).max()), tree, other
    )
    return max(jax.tree.leaves(gaps))
