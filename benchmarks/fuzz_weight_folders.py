"""Good folders of every format that weights are read from, as small as they can be."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np
import safetensors.numpy
from flax import serialization, traverse_util

from bertflow_jax.config import FlowConfig, TrainConfig
from bertflow_jax.convert.flow_layouts import PORT
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.encoder import BertConfig, init_params
from bertflow_jax.encoder.hf_layout import to_hf
from bertflow_jax.postprocess import Compose, Flow, Standardize, Whitening

try:
    import torch
except ImportError:  # then .bin files are left out
    torch = None  # type: ignore[assignment]

_TF1 = Path(__file__).resolve().parents[1] / "tests" / "convert" / "tf1_checkpoint"
_WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abc.", "the", "dog", "##s"]
CONFIG = BertConfig(
    vocab_size=len(_WORDS),
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=16,
)
_WEIGHTS = ("model.safetensors", "flax_model.msgpack", "pytorch_model.bin")
_SHARDED = tuple(f"{name} in shards" for name in _WEIGHTS)
_LEGACY = "pytorch_model.bin of an old PyTorch"
PLAIN = (*_WEIGHTS, *_SHARDED, _LEGACY)
# Formats that SentenceEncoder.from_pretrained, and those that postprocess.load reads.
ENCODERS = (
    *PLAIN,
    *("sentence-transformers", "dense", "with a flow", "with whitening"),
)
PROCESSORS = ("flow", "whitening", "compose")
_TORCH = (_WEIGHTS[2], _SHARDED[2], _LEGACY, "port")


def write_good(place: Path) -> list[str]:
    """Write a folder of each format into `place` and return their names."""
    formats = [*ENCODERS, *PROCESSORS, "tf1", "port"]
    formats = [kind for kind in formats if torch is not None or kind not in _TORCH]
    tensors = to_hf(init_params(CONFIG, jax.random.key(0)))
    for kind in formats:
        (place / kind).mkdir(parents=True)
        if kind in PLAIN:
            write_encoder(place / kind, kind, tensors)
    encoder = SentenceEncoder.from_pretrained(place / _WEIGHTS[0], pooling="cls")
    encoder.save_pretrained(place / "sentence-transformers")
    encoder.save_pretrained(place / "dense")
    _add_dense(place / "dense")
    rows = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    flow = Flow(FlowConfig(levels=1, depth=1, width=4), train=TrainConfig(steps=1, batch_size=16))
    whitening = Whitening(k=5)
    flow.fit(rows), whitening.fit(rows)
    encoder.with_postprocess(flow).save_pretrained(place / "with a flow")
    encoder.with_postprocess(whitening).save_pretrained(place / "with whitening")
    flow.save(place / "flow")
    whitening.save(place / "whitening")
    Compose([Standardize(), Whitening(k=3)]).fit(rows).save(place / "compose")
    shutil.copytree(_TF1, place / "tf1", dirs_exist_ok=True, ignore=lambda *_: ["make.py"])
    if "port" in formats:
        _write_port(place / "port")
    return formats


def write_encoder(folder: Path, kind: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Write an encoder of one format of `PLAIN` from tensors under Hugging Face's names."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG.to_hf_dict()))
    (folder / "vocab.txt").write_text("\n".join(_WORDS) + "\n")
    said = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    name = kind.partition(" ")[0]
    if kind not in _SHARDED:
        _write(folder / name, tensors, zipped=kind != _LEGACY)
        return
    stem, suffix = name.split(".")
    weight_map = {}
    for i in range(2):
        part = dict(sorted(tensors.items())[i::2])
        file = f"{stem}-{i + 1:05d}-of-00002.{suffix}"
        weight_map |= dict.fromkeys(_write(folder / file, part), file)
    (folder / f"{name}.index.json").write_text(json.dumps({"weight_map": weight_map}))


def _write(path: Path, tensors: Mapping[str, np.ndarray], zipped: bool = True) -> list[str]:
    """Write one file and return its names as an index of shards has them."""
    if path.suffix == ".safetensors":
        safetensors.numpy.save_file(dict(tensors), path)
    elif path.suffix == ".msgpack":
        flat = dict(_flax_item(name, value) for name, value in tensors.items())
        path.write_bytes(serialization.msgpack_serialize(traverse_util.unflatten_dict(flat)))
        return ["/".join(name) for name in flat]
    else:
        state = {name: torch.from_numpy(value.copy()) for name, value in tensors.items()}
        torch.save(state, path, _use_new_zipfile_serialization=zipped)
    return list(tensors)


def _flax_item(name: str, value: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """Return a tensor as the Flax classes saved it: kernels [in, out]."""
    *module, leaf = name.split(".")
    if leaf == "weight":
        leaf = "kernel"
        if module[-1] == "LayerNorm" or module[-1].endswith("_embeddings"):
            leaf = "scale" if module[-1] == "LayerNorm" else "embedding"
    return (*module, leaf), value.T if leaf == "kernel" else value


def _add_dense(folder: Path) -> None:
    """Add a Dense module, which is read far enough to be refused."""
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": 2, "name": "2", "path": "2_Dense", "type": "x.Dense"})
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "2_Dense").mkdir()
    said = {"in_features": 8, "out_features": 4, "bias": True, "activation_function": "x.Tanh"}
    (folder / "2_Dense" / "config.json").write_text(json.dumps(said))
    weight = {"linear.weight": np.ones((4, 8), np.float32), "linear.bias": np.ones(4, np.float32)}
    safetensors.numpy.save_file(weight, folder / "2_Dense" / "model.safetensors")


def _write_port(folder: Path) -> None:
    config = FlowConfig(levels=3, depth=3, width=3)
    rng = np.random.default_rng(0)
    state = {}
    for name, shape in PORT.expected(config, 16).items():
        value = rng.normal(0, 0.1, shape).astype(np.float32)
        if name.endswith("initialized"):
            value = np.array(1, np.uint8)
        elif name.endswith("invconv.weight"):
            value = np.eye(shape[0], dtype=np.float32)[::-1].reshape(shape).copy()
        state[name] = torch.from_numpy(value)
    torch.save(state, folder / "glow.bin")
    (folder / "config.json").write_text('{"pooling": "mean"}')
