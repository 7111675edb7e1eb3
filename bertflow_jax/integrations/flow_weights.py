"""A fitted flow as the weights of `bertflow_modules.BertFlow`, with less to compute there.

The network's ActNorms become part of its dense layers, and a PLU permutation one matrix; all in
float64 until the end.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.errors import BertFlowError
from bertflow_jax.flow.actnorm import LOG_SCALE_FACTOR
from bertflow_jax.postprocess.flow import Flow

Array = NDArray[np.float64]


def flow_weights(flow: Flow) -> dict[str, NDArray[np.float32]]:
    """Return the weights of a fitted flow, named as the PyTorch module's.

    Raises:
      BertFlowError: the flow is not fitted.
    """
    if flow.variables is None:
        raise BertFlowError("this flow is not fitted yet: call fit(embeddings) or Flow.load")
    params, fixed = flow.variables["params"], flow.variables.get("constants", {})
    weights: dict[str, Array] = {}
    for level in range(flow.config.levels):
        for step in range(flow.config.depth):
            name = f"level{level}_step{step}"
            found = _step(params[name], fixed.get(name))
            weights |= {f"levels.{level}.{step}.{key}": array for key, array in found.items()}
    return {name: array.astype(np.float32) for name, array in weights.items()}


def _step(params: Mapping[str, Any], fixed: Mapping[str, Any] | None) -> dict[str, Array]:
    weights = {
        "bias": _float64(params["actnorm"]["bias"]),
        "scale": _scale(params["actnorm"]["log_scale"]),
    }
    if fixed is not None:
        weights["mixing"] = _mixing(params["plu"], fixed["plu"])
    network = params["conditioner"]
    for name in network:
        if name.endswith("_actnorm") or name == "out_log_scale":
            continue
        kernel = _float64(network[name]["kernel"])
        if name == "out":
            shift, scale = _float64(network[name]["bias"]), _scale(network["out_log_scale"])
        else:
            actnorm = network[f"{name}_actnorm"]
            shift, scale = _float64(actnorm["bias"]), _scale(actnorm["log_scale"])
        weights[f"{name}.weight"] = (kernel * scale).T
        weights[f"{name}.bias"] = shift * scale
    return weights


def _mixing(plu: Mapping[str, Any], fixed: Mapping[str, Any]) -> Array:
    """Return W of y = x W; see `bertflow_jax.flow.permutation`."""
    lower = np.tril(_float64(plu["lower"]), -1) + np.eye(len(plu["lower"]))
    diagonal = _float64(fixed["sign_s"]) * np.exp(_float64(plu["log_s"]))
    product = lower @ (np.triu(_float64(plu["upper"]), 1) + np.diag(diagonal))
    mixing = np.empty_like(product)
    mixing[np.asarray(fixed["order"])] = product
    return mixing


def _scale(log_scale: Any) -> Array:
    return np.exp(LOG_SCALE_FACTOR * _float64(log_scale))


def _float64(array: Any) -> Array:
    return np.asarray(array, np.float64)
