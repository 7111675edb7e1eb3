"""Hugging Face names of BERT's parameters: the only file that knows them.

Both layouts are read: PyTorch's (`weight` [out, in]) and Flax's (`kernel` [in, out]); old names
(`bert.` and `module.` prefixes, LayerNorm gamma and beta) too. Every tensor of a file is either
used, or skipped for a stated reason, or an error; every parameter comes from the file.
"""

import dataclasses
import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import safetensors.numpy
from flax import traverse_util

from bertflow_jax.encoder.bert import Params
from bertflow_jax.encoder.bert_config import BertConfig
from bertflow_jax.encoder.weight_files import Tensors, find_weights, is_flax, read_weights
from bertflow_jax.errors import WeightsError

# Parts of an encoder checkpoint that no sentence embedding needs, by the start of their name.
SKIPPED = {
    "embeddings.position_ids": "a counter, not a parameter",
    "embeddings.token_type_ids": "a counter, not a parameter",
    "cls.": "pre-training head",
    "classifier.": "classification head",
    "qa_outputs.": "question answering head",
}

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_FLAX_LEAVES = {"kernel": "weight", "scale": "weight", "embedding": "weight"}
_OLD_LEAVES = {"gamma": "weight", "beta": "bias"}

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
_POOLER = "pooler.dense"


@dataclasses.dataclass(frozen=True)
class WeightAudit:
    """What became of every tensor of the file.

    Attributes:
      path: the file, or the index of its shards.
      used: names as in the file.
      skipped: name as in the file -> reason.
    """

    path: Path
    used: tuple[str, ...]
    skipped: Mapping[str, str]


def load_params(folder: Path, config: BertConfig) -> tuple[Params, WeightAudit]:
    """Read the weights of an encoder folder.

    Returns:
      the float32 parameter tree of `bert.init_params` (with "pooler" if the file has one), and
      the audit. Raises WeightsError for a damaged file and for a tensor that is missing,
      unexpected, misshapen, not finite, or stored twice with different values.
    """
    path = find_weights(folder)
    tensors, audit = _canonical(read_weights(path), path)
    expected = expected_shapes(config)
    if not any(name.startswith(_POOLER) for name in tensors):
        expected = {k: v for k, v in expected.items() if not k.startswith(_POOLER)}
    _check(tensors, expected, path)
    return from_hf({name: tensor.value for name, tensor in tensors.items()}, config), audit


@dataclasses.dataclass(frozen=True)
class _Tensor:
    """A tensor in PyTorch layout, with what to call it and its shape in an error message."""

    value: np.ndarray
    name: str
    transposed: bool

    def shape_in_file(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[::-1] if self.transposed else shape


def _canonical(tensors: Tensors, path: Path) -> tuple[dict[str, _Tensor], WeightAudit]:
    flax = is_flax(path)
    found: dict[str, _Tensor] = {}
    skipped: dict[str, str] = {}
    for name in sorted(tensors):
        modern = modern_name(name, flax)
        reason = next((why for start, why in SKIPPED.items() if modern.startswith(start)), None)
        if reason is not None:
            skipped[name] = reason
            continue
        transposed = flax and name.endswith(".kernel")
        value = tensors[name].T if transposed else tensors[name]
        tensor = _Tensor(value, name, transposed)
        twin = found.setdefault(modern, tensor)
        if twin is not tensor and not np.array_equal(twin.value, value):
            raise WeightsError(
                f"{path}: {twin.name} and {name} are the same parameter with different values"
            )
    used = tuple(name for name in sorted(tensors) if name not in skipped)
    return found, WeightAudit(path, used, skipped)


def modern_name(name: str, flax: bool) -> str:
    """Return the name today's Hugging Face BertModel gives a tensor, in PyTorch's spelling.

    Only what a rule names changes: gamma and beta are renamed as the last part under a LayerNorm,
    never inside another name.
    """
    name = re.sub(r"^(?:(?:module|bert)\.)+", "", name)
    module, _, leaf = name.rpartition(".")
    if module.rpartition(".")[2] == "LayerNorm":
        leaf = _OLD_LEAVES.get(leaf, leaf)
    if flax:
        leaf = _FLAX_LEAVES.get(leaf, leaf)
    return f"{module}.{leaf}" if module else leaf


def _check(
    tensors: Mapping[str, _Tensor], expected: Mapping[str, tuple[int, ...]], path: Path
) -> None:
    missing = sorted(set(expected) - set(tensors))
    if missing:
        raise WeightsError(
            f"{path}: {len(missing)} parameter(s) missing: {_some(missing)}; the first should "
            f"have shape {expected[missing[0]]}"
        )
    unknown = sorted(set(tensors) - set(expected))
    if unknown:
        names = [f"{tensors[key].name} {tensors[key].value.shape}" for key in unknown]
        raise WeightsError(
            f"{path}: {len(unknown)} tensor(s) the config has no place for: {_some(names)}; "
            "does config.json belong to these weights (num_hidden_layers)?"
        )
    for key, shape in expected.items():
        tensor = tensors[key]
        if tensor.value.shape != shape:
            raise WeightsError(
                f"{path}: {tensor.name} has shape {tensor.shape_in_file(tensor.value.shape)}, "
                f"expected {tensor.shape_in_file(shape)} from config.json"
            )
        if tensor.value.dtype.name not in _FLOATS:
            raise WeightsError(f"{path}: {tensor.name} has dtype {tensor.value.dtype}, not floats")
        if not np.isfinite(tensor.value).all():
            raise WeightsError(f"{path}: {tensor.name} holds values that are not finite")


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


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
    return shapes | _dense_shapes(_POOLER, width, width)


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
    if f"{_POOLER}.weight" in tensors:
        flat["pooler", "dense", "kernel"] = tensors[f"{_POOLER}.weight"].T
        flat["pooler", "dense", "bias"] = tensors[f"{_POOLER}.bias"]
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
        tensors[f"{_POOLER}.weight"] = flat["pooler", "dense", "kernel"].T
        tensors[f"{_POOLER}.bias"] = flat["pooler", "dense", "bias"]
    return {name: np.ascontiguousarray(x) for name, x in tensors.items()}


def save_params(params: Params, path: Path) -> None:
    """Write `model.safetensors` with the names and layout of a Hugging Face BertModel."""
    safetensors.numpy.save_file(to_hf(params), path, metadata={"format": "pt"})


def params_digest(params: Params) -> str:
    """Return the sha256 of every parameter's name, shape and float32 values.

    It does not depend on the file format: the same weights as safetensors, Flax or .bin agree.
    """
    digest = hashlib.sha256()
    for name, value in sorted(to_hf(params).items()):
        digest.update(f"{name}{value.shape}".encode())
        digest.update(value.astype("<f4").tobytes())
    return digest.hexdigest()
