"""Post-processors and poolings as modules of a sentence-transformers model.

A run of affine maps is one Dense; a flow and a pooling of several layers are classes of
`bertflow_modules.py`.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.encoder.folder import ST_MODULES
from bertflow_jax.encoder.pretrained import Encoder
from bertflow_jax.errors import BertFlowError, InputError
from bertflow_jax.integrations.flow_weights import flow_weights
from bertflow_jax.integrations.folder_names import CODE
from bertflow_jax.postprocess.affine import AffineProcessor
from bertflow_jax.postprocess.base import PostProcessor
from bertflow_jax.postprocess.compose import Compose
from bertflow_jax.postprocess.flow import Flow

_FLOW_FIELDS = ("levels", "depth", "width", "coupling", "permutation", "activation")
Arrays = dict[str, NDArray[np.float32]]
Affine = tuple[NDArray[np.float64], NDArray[np.float64]]  # W and c of z = u W + c


@dataclasses.dataclass(frozen=True)
class Module:
    """A module of a sentence-transformers model.

    Attributes:
      kind: its class; one without a package is of `bertflow_modules.py`.
      config: fields of its config.json.
      arrays: of its model.safetensors, named as its PyTorch parameters.
    """

    kind: str
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    arrays: Arrays = dataclasses.field(default_factory=dict)

    @property
    def is_code(self) -> bool:
        """Whether it is a class of the file that the folder brings along."""
        return self.kind.startswith(f"{Path(CODE).stem}.")


def processor_modules(processor: PostProcessor) -> list[Module]:
    """Return a fitted post-processor as modules, neighbouring affine maps as one Dense.

    Raises:
      InputError: a kind of post-processor that is none of this package's.
    """
    modules: list[Module] = []
    affine: Affine | None = None
    for step in _single(processor):
        if isinstance(step, AffineProcessor):
            affine = _then(affine, step)
            continue
        if not isinstance(step, Flow):
            raise InputError(f"a {type(step).__name__} cannot be written for sentence-transformers")
        if affine is not None:
            modules.append(_dense(*affine))
        modules.append(_flow(step))
        affine = None
    return modules if affine is None else [*modules, _dense(*affine)]


def _single(processor: PostProcessor) -> Iterator[PostProcessor]:
    if isinstance(processor, Compose):
        for step in processor.steps:
            yield from _single(step)
    else:
        yield processor


def _then(before: Affine | None, step: AffineProcessor) -> Affine:
    """Return W and c of u W + c for `before` and then (u - mean) A."""
    mean, matrix = step.mean, step.matrix
    if mean is None or matrix is None:
        raise BertFlowError(f"this {step.name} is not fitted yet: call fit(embeddings) or load")
    matrix = np.diag(matrix) if matrix.ndim == 1 else matrix
    if before is None:
        return matrix, -mean @ matrix
    return before[0] @ matrix, (before[1] - mean) @ matrix


def _dense(matrix: NDArray[np.float64], shift: NDArray[np.float64]) -> Module:
    with np.errstate(over="ignore"):
        arrays: Arrays = {
            "linear.weight": matrix.T.astype(np.float32),
            "linear.bias": shift.astype(np.float32),
        }
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise InputError(
            "the post-processor does not fit into float32; bring the embeddings to an ordinary size"
        )
    config = {
        "in_features": matrix.shape[0],
        "out_features": matrix.shape[1],
        "bias": True,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    return Module(f"{ST_MODULES}Dense", config, arrays)


def _flow(flow: Flow) -> Module:
    config = {name: getattr(flow.config, name) for name in _FLOW_FIELDS}
    return Module(_code("BertFlow"), {"features": flow.features, **config}, flow_weights(flow))


def layer_pooling(encoder: Encoder) -> Module:
    """Return the pooling of an encoder as code: sentence-transformers' Pooling cannot say it."""
    spec = encoder.pooling
    config = {
        "hidden_size": encoder.config.hidden_size,
        "layers": list(spec.layers),
        "tokens": spec.tokens,
        "reduce": spec.reduce,
    }
    arrays: Arrays = {}
    if spec.tokens == "pooler":
        dense = encoder.params["pooler"]["dense"]
        arrays = {
            "dense.weight": np.asarray(dense["kernel"], np.float32).T,
            "dense.bias": np.asarray(dense["bias"], np.float32),
        }
    return Module(_code("LayerPooling"), config, arrays)


def _code(name: str) -> str:
    return f"{Path(CODE).stem}.{name}"
