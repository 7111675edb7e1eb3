"""The layout of a Hugging Face BertModel: its names and shapes, and ours, both ways.

Query, key and value are three tensors there and one here; a layer's tensors are numbered there and
stacked here; a dense layer's weight is [out, in] there and [in, out] here.
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from flax import traverse_util

from bertflow_jax.encoder.bert import Params
from bertflow_jax.encoder.bert_config import BertConfig
from bertflow_jax.weight_output import write_safetensors

# Our module -> the Hugging Face modules it is made of (query, key and value are fused).
_LAYER_DENSE = {
    ("attention", "qkv"): tuple(f"attention.self.{part}" for part in ("query", "key", "value")),
    ("attention", "out"): ("attention.output.dense",),
    ("mlp_in",): ("intermediate.dense",),
    ("mlp_out",): ("output.dense",),
}
_LAYER_NORM = {
    ("attention_norm",): "attention.output.LayerNorm",
    ("mlp_norm",): "output.LayerNorm",
}
_EMBEDDING_NORM = "embeddings.LayerNorm"
_TABLES = {
    "word": "embeddings.word_embeddings.weight",
    "position": "embeddings.position_embeddings.weight",
    "token_type": "embeddings.token_type_embeddings.weight",
}
POOLER = "pooler.dense"


def expected_shapes(config: BertConfig) -> dict[str, tuple[int, ...]]:
    """Return {Hugging Face name: shape in PyTorch layout} of every parameter, pooler included."""
    width, inner = config.hidden_size, config.intermediate_size
    rows = {
        "word": config.vocab_size,
        "position": config.max_position_embeddings,
        "token_type": config.type_vocab_size,
    }
    shapes: dict[str, tuple[int, ...]] = {_TABLES[k]: (n, width) for k, n in rows.items()}
    shapes |= _norm_shapes(_EMBEDDING_NORM, width)
    for layer in _layer_prefixes(config):
        for ours, names in _LAYER_DENSE.items():
            out_in = {"mlp_in": (inner, width), "mlp_out": (width, inner)}
            for name in names:
                shapes |= _dense_shapes(layer + name, *out_in.get(ours[-1], (width, width)))
        for name in _LAYER_NORM.values():
            shapes |= _norm_shapes(layer + name, width)
    return shapes | _dense_shapes(POOLER, width, width)


def _layer_prefixes(config: BertConfig) -> Iterator[str]:
    return (f"encoder.layer.{i}." for i in range(config.num_hidden_layers))


def _dense_shapes(name: str, out: int, inp: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (out, inp), f"{name}.bias": (out,)}


def _norm_shapes(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def from_hf(tensors: Mapping[str, np.ndarray], config: BertConfig) -> Params:
    """Return our float32 parameter tree from {Hugging Face name: array in PyTorch layout}."""
    prefixes = tuple(_layer_prefixes(config))
    flat: dict[tuple[str, ...], np.ndarray] = {
        ("embeddings", ours): tensors[name] for ours, name in _TABLES.items()
    }
    flat["embeddings", "norm", "scale"] = tensors[f"{_EMBEDDING_NORM}.weight"]
    flat["embeddings", "norm", "bias"] = tensors[f"{_EMBEDDING_NORM}.bias"]
    for ours, names in _LAYER_DENSE.items():
        for leaf, axis in (("weight", 1), ("bias", 0)):
            # Fused along the output axis: [out, in] -> [in, out], then [in, 3 out] for qkv.
            fused = [
                np.concatenate([tensors[f"{p}{name}.{leaf}"].T for name in names], axis=axis)
                for p in prefixes
            ]
            flat["layers", *ours, "kernel" if leaf == "weight" else "bias"] = np.stack(fused)
    for ours, name in _LAYER_NORM.items():
        for leaf, our_leaf in (("weight", "scale"), ("bias", "bias")):
            stacked = np.stack([tensors[f"{p}{name}.{leaf}"] for p in prefixes])
            flat["layers", *ours, our_leaf] = stacked
    if f"{POOLER}.weight" in tensors:
        flat["pooler", "dense", "kernel"] = tensors[f"{POOLER}.weight"].T
        flat["pooler", "dense", "bias"] = tensors[f"{POOLER}.bias"]
    contiguous = {key: np.ascontiguousarray(x, np.float32) for key, x in flat.items()}
    return traverse_util.unflatten_dict(contiguous)


def to_hf(params: Params) -> dict[str, np.ndarray]:
    """Return {Hugging Face name: float32 array in PyTorch layout}: the inverse of `from_hf`."""
    flat = {key: np.asarray(x) for key, x in traverse_util.flatten_dict(params).items()}
    tensors = {name: flat["embeddings", ours] for ours, name in _TABLES.items()}
    tensors[f"{_EMBEDDING_NORM}.weight"] = flat["embeddings", "norm", "scale"]
    tensors[f"{_EMBEDDING_NORM}.bias"] = flat["embeddings", "norm", "bias"]
    for i in range(len(flat["layers", "mlp_in", "bias"])):
        layer = f"encoder.layer.{i}."
        for ours, names in _LAYER_DENSE.items():
            kernels = np.split(flat["layers", *ours, "kernel"][i], len(names), axis=1)
            biases = np.split(flat["layers", *ours, "bias"][i], len(names))
            for name, kernel, bias in zip(names, kernels, biases, strict=True):
                tensors[f"{layer}{name}.weight"] = kernel.T
                tensors[f"{layer}{name}.bias"] = bias
        for ours, name in _LAYER_NORM.items():
            tensors[f"{layer}{name}.weight"] = flat["layers", *ours, "scale"][i]
            tensors[f"{layer}{name}.bias"] = flat["layers", *ours, "bias"][i]
    if "pooler" in params:
        tensors[f"{POOLER}.weight"] = flat["pooler", "dense", "kernel"].T
        tensors[f"{POOLER}.bias"] = flat["pooler", "dense", "bias"]
    return {name: np.ascontiguousarray(x) for name, x in tensors.items()}


def save_params(params: Params, path: Path) -> None:
    """Write `model.safetensors` with the names and layout of a Hugging Face BertModel."""
    write_safetensors(path, to_hf(params), {"format": "pt"})


def params_digest(params: Params) -> str:
    """Return the sha256 of every parameter's name, shape and float32 values.

    It does not depend on the file format: the same weights as safetensors, Flax or .bin agree.
    """
    digest = hashlib.sha256()
    for name, value in sorted(to_hf(params).items()):
        digest.update(f"{name}{value.shape}".encode())
        digest.update(value.astype("<f4", copy=False).data)
    return digest.hexdigest()
