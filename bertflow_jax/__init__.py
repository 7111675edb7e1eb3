"""bertflow_jax: BERT-flow in JAX.

    from bertflow_jax import Flow, SentenceEncoder

    u = SentenceEncoder.from_pretrained("mini_bert", pooling="first_last").encode(texts)
    z = Flow(seed=0).fit(u).transform(u)

Names are loaded when they are first used, so that a command line that only reports a wrong flag
does not wait for JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

from bertflow_jax.errors import BertFlowError
from bertflow_jax.version import __version__

if TYPE_CHECKING:
    from bertflow_jax.config import Config, FlowConfig, TrainConfig
    from bertflow_jax.embed import SentenceEncoder
    from bertflow_jax.postprocess import NATSV, Compose, Flow, Reduce, Standardize, Whitening

_HOME = {
    "Config": "bertflow_jax.config",
    "FlowConfig": "bertflow_jax.config",
    "TrainConfig": "bertflow_jax.config",
    "SentenceEncoder": "bertflow_jax.embed",
    "Flow": "bertflow_jax.postprocess",
    "Standardize": "bertflow_jax.postprocess",
    "NATSV": "bertflow_jax.postprocess",
    "Whitening": "bertflow_jax.postprocess",
    "Reduce": "bertflow_jax.postprocess",
    "Compose": "bertflow_jax.postprocess",
}

__all__ = [
    "NATSV",
    "BertFlowError",
    "Compose",
    "Config",
    "Flow",
    "FlowConfig",
    "Reduce",
    "SentenceEncoder",
    "Standardize",
    "TrainConfig",
    "Whitening",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'bertflow_jax' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
