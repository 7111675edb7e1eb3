"""The weights of an encoder folder, read strictly.

Both layouts are read: PyTorch's (`weight` [out, in]) and Flax's (`kernel` [in, out]); old names
(`bert.` and `module.` prefixes, LayerNorm gamma and beta) too. Every tensor of a file is either
used, or skipped for a stated reason, or an error; every parameter comes from the file.
"""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bertflow_jax.encoder.bert import Params
from bertflow_jax.encoder.bert_config import BertConfig
from bertflow_jax.encoder.hf_layout import POOLER, expected_shapes, from_hf
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
    check_layers(config, len(tensors), str(path))
    expected = expected_shapes(config)
    if not any(name.startswith(POOLER) for name in tensors):
        expected = {k: v for k, v in expected.items() if not k.startswith(POOLER)}
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


def check_layers(config: BertConfig, tensors: int, source: str) -> None:
    """Raise WeightsError if a config has more layers than its file tensors.

    The names of every parameter can be listed after this, whatever number a damaged config holds.
    """
    if config.num_hidden_layers > tensors:
        raise WeightsError(
            f"{source}: {tensors} tensor(s), too few for num_hidden_layers="
            f"{config.num_hidden_layers} of its config; do they belong together?"
        )


def _check(
    tensors: Mapping[str, _Tensor], expected: Mapping[str, tuple[int, ...]], path: Path
) -> None:
    missing = sorted(set(expected) - set(tensors))
    if len(missing) == len(expected) and tensors:
        raise WeightsError(
            f"{path}: no tensor of a BERT; its names are as {_some(sorted(tensors))}. Only BERT "
            "is supported"
        )
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
        with np.errstate(over="ignore"):
            finite = np.isfinite(tensor.value.astype(np.float32)).all()
        if not finite:
            raise WeightsError(f"{path}: {tensor.name} holds values that are not finite")


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
