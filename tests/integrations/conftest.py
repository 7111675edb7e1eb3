"""A Ray of two CPUs, and a tiny encoder for its workers."""

import json
import os

import jax
import numpy as np
import pytest

from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.encoder import BertConfig, init_params, save_params

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnop"]


@pytest.fixture(scope="module")
def cluster():
    """The address of a Ray that ends with the module, with all of its processes."""
    pytest.importorskip("ray.data", reason="ray is not installed")
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(
        "local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        log_to_driver=False,
        logging_level="ERROR",
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny encoder with parameters that tell texts apart."""
    folder = tmp_path_factory.mktemp("bert")
    config = BertConfig(
        vocab_size=len(VOCAB),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=12,
    )
    shapes = jax.eval_shape(lambda key: init_params(config, key), jax.random.key(0))
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda x: rng.normal(scale=0.3, size=x.shape).astype(np.float32), shapes)
    save_params(params, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config.to_hf_dict()))
    (folder / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True})
    )
    return folder


@pytest.fixture(scope="module")
def encode(folder):
    return SentenceEncoder.from_pretrained(folder).encode
