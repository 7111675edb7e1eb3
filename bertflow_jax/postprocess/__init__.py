"""What is done to embeddings after the encoder, behind one fit/transform/save interface.

Names are loaded when they are first used, so that the command of this package reports a wrong flag
without the seconds that loading JAX takes.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertflow_jax.postprocess.base import PostProcessor, PureTransform
    from bertflow_jax.postprocess.compose import Compose
    from bertflow_jax.postprocess.flow import Flow
    from bertflow_jax.postprocess.kinds import from_pretrained, load
    from bertflow_jax.postprocess.reduce import Reduce
    from bertflow_jax.postprocess.standardize import Center, Standardize
    from bertflow_jax.postprocess.whitening import NATSV, Whitening

_HOME = {
    "Center": "standardize",
    "Compose": "compose",
    "Flow": "flow",
    "NATSV": "whitening",
    "PostProcessor": "base",
    "PureTransform": "base",
    "Reduce": "reduce",
    "Standardize": "standardize",
    "Whitening": "whitening",
    "from_pretrained": "kinds",
    "load": "kinds",
}

__all__ = [
    "NATSV",
    "Center",
    "Compose",
    "Flow",
    "PostProcessor",
    "PureTransform",
    "Reduce",
    "Standardize",
    "Whitening",
    "from_pretrained",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
