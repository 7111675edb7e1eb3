"""Where the released TensorFlow code and the PyTorch port keep the parameters of their flows."""

from typing import Any

import numpy as np

from bertflow_jax.config import FlowConfig
from bertflow_jax.convert.flow_names import (
    IN_OUT,
    LAST,
    MATRIX,
    OUT_IN,
    ROW,
    SAME,
    SECOND,
    SIGNS,
    Fixed,
    Form,
    LeafPath,
    Names,
)

_Places = dict[LeafPath, tuple[str, Form]]


def _check_reversal(matrix: np.ndarray) -> None:
    square = matrix.reshape(matrix.shape[:2])
    if not np.array_equal(square, np.eye(len(square))[::-1]):
        raise ValueError("is not the reversal of the channels, the fixed permutation known here")


def _check_initialized(flag: np.ndarray) -> None:
    if flag != 1:
        raise ValueError(
            "says that this flow was never fitted (its ActNorms wait for their first batch); save "
            "it after training"
        )


def _released_leaves(config: FlowConfig) -> _Places:
    net = f"{config.coupling}/nn"
    hidden = {"hidden1": "1_1", "hidden2": "1_2"}
    if config.activation == "gatu":
        hidden = {"hidden1": "1_1", "hidden2_tanh": "1_tanh", "hidden2_sigmoid": "1_sigm"}
    places: _Places = {
        ("conditioner", "out", "kernel"): (f"{net}/zeros/W", IN_OUT),
        ("conditioner", "out", "bias"): (f"{net}/zeros/b", LAST),
        ("conditioner", "out_log_scale"): (f"{net}/zeros/logs", ROW),
        ("plu", "lower"): ("invertible/L", SAME),
        ("plu", "upper"): ("invertible/U", SAME),
        ("plu", "log_s"): ("invertible/log_S", SAME),
        ("plu", "sign_s"): ("invertible/sign_S", SIGNS),
        ("plu", "order"): ("invertible/P", MATRIX),
    }
    norms: dict[LeafPath, str] = {("actnorm",): ""}
    for ours, theirs in hidden.items():
        block = f"{net}/conv_block/{theirs}/"
        places["conditioner", ours, "kernel"] = (f"{block}W", IN_OUT)
        norms["conditioner", f"{ours}_actnorm"] = block
    for norm, start in norms.items():
        places[*norm, "bias"] = (f"{start}actnorm/actnorm_center/b", LAST)
        places[*norm, "log_scale"] = (f"{start}actnorm/actnorm_scale/logs", LAST)
    return places


def _released_fixed(config: FlowConfig) -> dict[str, Fixed]:
    if config.permutation == "plu":
        return {}
    return {"invertible/w": Fixed(lambda channels: (channels, channels), _check_reversal)}


def _released_variant(names: set[str]) -> dict[str, Any]:
    def any_under(*starts: str) -> bool:
        return any(name.startswith(starts) for name in names)

    gates = tuple(
        f"{coupling}/nn/conv_block/1_{gate}/"
        for coupling in ("additive", "affine")
        for gate in ("tanh", "sigm")
    )
    return {
        "coupling": "affine" if any_under("affine/") else "additive",
        "permutation": "plu" if names & {f"invertible/{x}" for x in _PLU} else "reverse",
        "activation": "gatu" if any_under(*gates) else "relu",
    }


_PLU = ("P", "L", "U", "sign_S", "log_S")

RELEASED = Names(
    what="the released TensorFlow code's flow",
    step="bert/flow/revnet_{level}/revnet_step_{step}/",
    channels=("actnorm/actnorm_center/b", "actnorm/actnorm_scale/logs"),
    width=tuple(
        f"{coupling}/nn/conv_block/1_1/actnorm/{norm}"
        for coupling in ("additive", "affine")
        for norm in ("actnorm_center/b", "actnorm_scale/logs")
    ),
    leaves=_released_leaves,
    fixed=_released_fixed,
    variant=_released_variant,
)


def _port_leaves(config: FlowConfig) -> _Places:
    del config  # the port knows one variant
    net = "coupling.net"
    places: _Places = {
        ("conditioner", "out", "kernel"): (f"{net}.6.conv.weight", OUT_IN),
        ("conditioner", "out", "bias"): (f"{net}.6.conv.bias", SAME),
        ("conditioner", "out_log_scale"): (f"{net}.6.scale", SECOND),
        ("conditioner", "hidden1", "kernel"): (f"{net}.0.weight", OUT_IN),
        ("conditioner", "hidden2", "kernel"): (f"{net}.3.weight", OUT_IN),
    }
    norms: dict[LeafPath, str] = {
        ("actnorm",): "actnorm",
        ("conditioner", "hidden1_actnorm"): f"{net}.1",
        ("conditioner", "hidden2_actnorm"): f"{net}.4",
    }
    for norm, module in norms.items():
        places[*norm, "bias"] = (f"{module}.loc", SECOND)
        places[*norm, "log_scale"] = (f"{module}.logscale", SECOND)
    return places


def _port_fixed(config: FlowConfig) -> dict[str, Fixed]:
    del config
    flag = Fixed(lambda channels: (), _check_initialized)
    reversal = Fixed(lambda channels: (channels, channels, 1, 1), _check_reversal)
    norms = ("actnorm", "coupling.net.1", "coupling.net.4")
    return {"invconv.weight": reversal, **{f"{norm}.initialized": flag for norm in norms}}


PORT = Names(
    what="the PyTorch port's flow",
    step="blocks.{level}.flows.{step}.",
    channels=("actnorm.loc", "actnorm.logscale"),
    width=("coupling.net.1.loc", "coupling.net.1.logscale"),
    leaves=_port_leaves,
    fixed=_port_fixed,
    variant=lambda names: {
        "coupling": "additive",
        "permutation": "reverse",
        "activation": "relu",
    },
)
