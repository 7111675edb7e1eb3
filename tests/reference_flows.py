"""Reference flows of other implementations, under our parameter names."""

import jax
import numpy as np

STEPS = [(level, step) for level in range(3) for step in range(3)]


def _actnorm(bias, log_scale):
    return {"bias": np.ravel(bias), "log_scale": np.ravel(log_scale)}


def _step(actnorm, hidden1, actnorm1, hidden2, actnorm2, out, out_bias, out_log_scale):
    return {
        "actnorm": actnorm,
        "conditioner": {
            "hidden1": {"kernel": hidden1},
            "hidden1_actnorm": actnorm1,
            "hidden2": {"kernel": hidden2},
            "hidden2_actnorm": actnorm2,
            "out": {"kernel": out, "bias": np.ravel(out_bias)},
            "out_log_scale": np.ravel(out_log_scale),
        },
    }


def port_variables(arrays, group):
    """Variables of our Glow from the arrays of flow_port_d64.npz."""
    params = {}
    for level, step in STEPS:
        at = f"{group}/level{level}/step{step}"

        def norm(name, at=at):
            return _actnorm(arrays[f"{at}/{name}/bias"], arrays[f"{at}/{name}/logscale_over_3"])

        dense = f"{at}/coupling/dense"
        params[f"level{level}_step{step}"] = _step(
            norm("actnorm"),
            arrays[f"{dense}1/kernel"],
            norm("coupling/actnorm1"),
            arrays[f"{dense}2/kernel"],
            norm("coupling/actnorm2"),
            arrays[f"{dense}3/kernel"],
            arrays[f"{dense}3/bias"],
            arrays[f"{dense}3/logscale_over_3"],
        )
    return {"params": params}


def released_variables(arrays, prefix="", suffix="", steps=STEPS):
    """Variables of our Glow from arrays under the released TensorFlow names."""
    params = {}
    for level, step in steps:
        at = f"{prefix}bert/flow/revnet_{level}/revnet_step_{step}"

        def get(name, at=at):
            return arrays[f"{at}/{name}{suffix}"]

        def norm(name, get=get):
            return _actnorm(get(f"{name}/actnorm_center/b"), get(f"{name}/actnorm_scale/logs"))

        nn = "additive/nn"
        params[f"level{level}_step{step}"] = _step(
            norm("actnorm"),
            get(f"{nn}/conv_block/1_1/W")[0, 0],
            norm(f"{nn}/conv_block/1_1/actnorm"),
            get(f"{nn}/conv_block/1_2/W")[0, 0],
            norm(f"{nn}/conv_block/1_2/actnorm"),
            get(f"{nn}/zeros/W")[0, 0],
            get(f"{nn}/zeros/b"),
            get(f"{nn}/zeros/logs"),
        )
    return {"params": params}


def max_difference(tree, other):
    """Largest absolute difference of two pytrees of one structure."""
    assert jax.tree.structure(tree) == jax.tree.structure(other)
    gaps = jax.tree.map(
        lambda a, b: float(np.abs(np.asarray(a) - np.asarray(b)).max()), tree, other
    )
    return max(jax.tree.leaves(gaps))
