"""Tiny random encoders written to disk, and BERT once more in plain numpy."""

import json
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest
from fake_hub import TOKEN, FakeHub, address
from huggingface_hub import constants, file_download
from scipy.special import erf

from bertflow_jax.encoder import BertConfig, init_params, save_params
from bertflow_jax.encoder.hf_layout import to_hf

VOCAB = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *"abcdefghijklmnop",
    "##s",
    "the",
    "dog",
    ".",
]
SMALL = BertConfig(
    vocab_size=len(VOCAB),
    hidden_size=16,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=40,
)


@pytest.fixture(scope="session")
def small_config() -> BertConfig:
    return SMALL


def random_params(config: BertConfig, seed: int = 0, pooler: bool = True):
    """Parameters far from their initial values: zero biases would hide a missing bias."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda key: init_params(config, key, pooler), jax.random.key(0))
    params = jax.tree.map(lambda x: rng.normal(scale=0.3, size=x.shape).astype(np.float32), shapes)
    norms = [params["embeddings"]["norm"]]
    norms += [params["layers"][name] for name in ("attention_norm", "mlp_norm")]
    for norm in norms:
        norm["scale"] += 1.0
    return params


@pytest.fixture(scope="session")
def small_params():
    return random_params(SMALL)


def write_bert(
    folder: Path, seed: int = 0, pooler: bool = True, config=SMALL, *, params=None, vocab=VOCAB
) -> Path:
    """Write an encoder folder: weights, config.json, vocab.txt, tokenizer_config.json."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config.to_hf_dict()))
    (folder / "vocab.txt").write_text("\n".join(vocab) + "\n")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True})
    )
    if params is None:
        params = random_params(config, seed, pooler)
    save_params(params, folder / "model.safetensors")
    return folder


@pytest.fixture
def bert_folder(tmp_path: Path) -> Callable[..., Path]:
    """Return a writer of encoder folders of a given name; see `write_bert`."""

    def write(name: str = "bert", seed: int = 0, pooler: bool = True, config=SMALL) -> Path:
        return write_bert(tmp_path / name, seed, pooler, config)

    return write


ACTIVATIONS = {
    "gelu": lambda x: x * 0.5 * (1 + erf(x / np.sqrt(2))),
    "gelu_new": lambda x: x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def numpy_bert(params, config: BertConfig, ids: np.ndarray, mask: np.ndarray):
    """Hidden states float64[L + 1, B, T, D] and pooler output, straight from the equations.

    Works on Hugging Face's names and layout, one head and one projection at a time.
    """
    w = {name: value.astype(np.float64) for name, value in to_hf(params).items()}

    def dense(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + config.layer_norm_eps)
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    states = [x]
    size = config.head_size
    for i in range(config.num_hidden_layers):
        layer = f"encoder.layer.{i}."
        q, k, v = (dense(x, f"{layer}attention.self.{n}") for n in ("query", "key", "value"))
        context = np.zeros_like(x)
        for h in range(config.num_attention_heads):
            part = slice(h * size, (h + 1) * size)
            scores = q[..., part] @ k[..., part].swapaxes(1, 2) / np.sqrt(size)
            scores = np.where(mask[:, None, :] > 0, scores, -1e30)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            context[..., part] = weights / weights.sum(-1, keepdims=True) @ v[..., part]
        x = norm(
            x + dense(context, f"{layer}attention.output.dense"),
            f"{layer}attention.output.LayerNorm",
        )
        inner = ACTIVATIONS[config.hidden_act](dense(x, f"{layer}intermediate.dense"))
        x = norm(x + dense(inner, f"{layer}output.dense"), f"{layer}output.LayerNorm")
        states.append(x)
    return np.stack(states), np.tanh(dense(x[:, 0], "pooler.dense"))


@pytest.fixture(scope="session")
def reference_bert():
    return numpy_bert


@pytest.fixture(scope="session")
def make_params():
    return random_params


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A Hub, and a process that has its address and the token of `org`."""
    hub = FakeHub()
    server = hub.serve()
    hub.address, hub.server = address(server), server
    monkeypatch.setattr(constants, "ENDPOINT", hub.address)
    template = hub.address + "/{repo_id}/resolve/{revision}/{filename}"
    for module in (constants, file_download):  # huggingface_hub 0.x has a copy in the second
        monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    yield hub
    server.shutdown()
