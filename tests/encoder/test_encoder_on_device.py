"""The encoder as a user runs it, on whatever device there is: no products in fewer bits.

The rest of the suite asks for exact products everywhere; here JAX's own default holds, which on GPU
and TPU rounds the factors of a float32 product (to TF32, to bfloat16) unless the code asks for more.
"""

import dataclasses

import jax
import numpy as np
import pytest

from bertflow_jax import SentenceEncoder
from bertflow_jax.encoder import load_params
from bertflow_jax.encoder.bert_config import read_config
from bertflow_jax.encoder.embedding import make_embed_fn
from bertflow_jax.encoder.pooling import parse_pooling

pytestmark = pytest.mark.device


@pytest.fixture(autouse=True)
def as_users_run_it():
    with jax.default_matmul_precision("default"):
        yield


def test_e07_tiny_bert_is_hugging_faces(shared):
    """E07: TF32 is off by 1e-3 here."""
    folder = shared / "fixtures" / "tiny_bert" / "safetensors"
    expected = np.load(folder.parent / "expected.npz")
    config = read_config(folder)
    params, _ = load_params(folder, config)
    mask = expected["attention_mask"].astype(np.int32)
    spec = parse_pooling("mean", config.num_hidden_layers)
    embed = jax.jit(make_embed_fn(config, spec))
    got = embed(params, expected["input_ids"].astype(np.int32), mask)
    weights = mask[..., None].astype(np.float64)
    last = expected["hidden_states"][-1]
    np.testing.assert_allclose(got, (last * weights).sum(1) / weights.sum(1), atol=1e-4)


def test_e07_wide_products_are_exact(make_params, reference_bert, small_config):
    """E07: sums of 1,024 terms: where a rounded factor shows, and which a small encoder does not have."""
    config = dataclasses.replace(
        small_config, hidden_size=256, intermediate_size=1024, num_attention_heads=4
    )
    params = jax.tree.map(lambda leaf: leaf * np.float32(0.3), make_params(config))
    rng = np.random.default_rng(0)
    ids = rng.integers(5, config.vocab_size, (4, 32)).astype(np.int32)
    states, _ = reference_bert(params, config, ids, np.ones_like(ids))
    embed = jax.jit(make_embed_fn(config, parse_pooling("first_last", config.num_hidden_layers)))
    got = embed(params, ids, np.ones_like(ids))
    expected = ((states[1] + states[-1]) / 2).mean(1)
    np.testing.assert_allclose(got, expected, atol=1e-4)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_e07_packed_texts_and_batches_of_any_size_give_one_vector(bert_folder, pooling):
    """E07: a row shared with other texts, another batch, another order: the vector stays."""
    encoder = SentenceEncoder.from_pretrained(bert_folder(), pooling)
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice([*"abcdefgh", "the", "dog"], n)) for n in rng.integers(1, 13, 60)]
    alone = np.stack([encoder.encode(text) for text in texts[:10]])
    for batch_size in (8, 64):
        np.testing.assert_allclose(encoder.encode(texts, batch_size)[:10], alone, atol=1e-4)
    order = rng.permutation(len(texts))
    again = np.empty((len(texts), encoder.dimension), np.float32)
    again[order] = encoder.encode([texts[i] for i in order])
    np.testing.assert_allclose(again[:10], alone, atol=1e-4)
