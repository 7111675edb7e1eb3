"""Pooling names and numbers a hand can check."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bertflow_jax.encoder import PoolingSpec, make_embed_fn, parse_pooling
from bertflow_jax.encoder.embedding import unit_length
from bertflow_jax.encoder.pooling import pool_layers, pool_tokens
from bertflow_jax.errors import ConfigError

IDS = np.array([[2, 5, 6, 22, 3], [2, 23, 3, 0, 0], [0, 0, 0, 0, 0]], np.int32)
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 0]], np.int32)


@pytest.mark.parametrize(
    ("name", "layers", "tokens", "reduce"),
    [
        ("mean", (4,), "mean", "mean"),
        ("cls", (4,), "cls", "mean"),
        ("pooler", (4,), "pooler", "mean"),
        ("max", (4,), "max", "mean"),
        ("last1", (4,), "mean", "mean"),
        ("last2", (3, 4), "mean", "mean"),
        ("last4", (1, 2, 3, 4), "mean", "mean"),
        ("first_last", (1, 4), "mean", "mean"),
        ("embedding_last", (0, 4), "mean", "mean"),
        ("layers=(1,4)", (1, 4), "mean", "mean"),
        ("layers=(0, -1)", (0, 4), "mean", "mean"),
        ("layers=(-5,)", (0,), "mean", "mean"),
        ("layers=(1,4),concat", (1, 4), "mean", "concat"),
        ("last2,max,concat", (3, 4), "max", "concat"),
        ("first_last,cls", (1, 4), "cls", "mean"),
        ("avg", (4,), "mean", "mean"),
        ("avg-last-1", (1,), "mean", "mean"),
        ("avg-last-2", (1, 4), "mean", "mean"),
        ("avg-last-3", (1, 4, 3), "mean", "mean"),
        ("avg-last-concat-2", (1, 4), "mean", "mean"),
        ("avg-last-last-1", (4,), "mean", "mean"),
        ("avg-last-last-2", (3,), "mean", "mean"),
        ("released-cls", (4,), "pooler", "mean"),
    ],
)
def test_names(name, layers, tokens, reduce):
    """Catches an index slip in any name, and a canonical name that means something else."""
    spec = parse_pooling(name, 4)
    assert spec == PoolingSpec(layers, tokens, reduce)
    assert parse_pooling(str(spec), 4) == spec


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("average", "unknown pooling 'average'; the names are: mean, cls"),
        ("last", "unknown pooling"),
        ("last0", "unknown pooling"),
        ("avg-last-12", "unknown pooling"),
        ("first_last,median", "unknown pooling"),
        ("last2,cls,max", "unknown pooling"),
        ("layers=(a)", "unknown pooling"),
        ("mean,concat", "nothing may follow 'mean'"),
        ("last5", "only 4 layers"),
        ("avg-last-5", "only 4 layers"),
        ("avg-last-last-5", "only 4 layers"),
        ("layers=(5)", "from 0 .embedding output. to 4"),
        ("layers=(-6)", "from 0 .embedding output. to 4"),
        ("layers=()", "names no layer"),
        ("layers=(4,-1)", "listed twice"),
    ],
)
def test_names_that_mean_nothing_are_errors(name, message):
    """Catches a name that falls through to a default pooling."""
    with pytest.raises(ConfigError, match=message):
        parse_pooling(name, 4)


def test_concat_keeps_the_order_of_the_layers():
    per_layer = jnp.arange(5.0)[:, None, None] * jnp.ones((5, 1, 2))
    spec = parse_pooling("layers=(4,1),concat", 4)
    assert spec.dimension(2) == 4
    np.testing.assert_array_equal(pool_layers(per_layer, spec), [[4, 4, 1, 1]])


@pytest.mark.device
def test_sums_are_float32_under_bfloat16():
    """Catches a sum in bfloat16: 1 added 300 times stops growing at 256."""
    hidden = jnp.ones((1, 300, 1), jnp.bfloat16)
    for tokens in ("mean", "max", "cls"):
        pooled = pool_tokens(hidden, jnp.ones((1, 300), jnp.int32), tokens)
        assert pooled.dtype == jnp.float32
        np.testing.assert_array_equal(pooled, [[1.0]])


@functools.cache
def embed(config, name, normalize=False):
    spec = parse_pooling(name, config.num_hidden_layers)
    return jax.jit(make_embed_fn(config, spec, normalize=normalize))


@pytest.mark.device
@pytest.mark.parametrize(
    "name", ["mean", "cls", "max", "pooler", "last2", "layers=(0)", "layers=(1,2),max"]
)
def test_embedding_matches_the_equations(small_config, small_params, reference_bert, name):
    """Catches a pooling wired to the wrong layer, and layers cut off one too early."""
    states, pooler = reference_bert(small_params, small_config, IDS, MASK)
    expected = {
        "mean": [states[3, 0].mean(0), states[3, 1, :3].mean(0)],
        "cls": [states[3, 0, 0], states[3, 1, 0]],
        "max": [states[3, 0].max(0), states[3, 1, :3].max(0)],
        "pooler": list(pooler[:2]),
        "last2": [states[2:, 0].mean((0, 1)), states[2:, 1, :3].mean((0, 1))],
        "layers=(0)": [states[0, 0].mean(0), states[0, 1, :3].mean(0)],
        "layers=(1,2),max": [states[1:3, 0].max(1).mean(0), states[1:3, 1, :3].max(1).mean(0)],
    }[name]
    vectors = embed(small_config, name)(small_params, IDS, MASK)
    assert vectors.dtype == jnp.float32
    np.testing.assert_allclose(vectors[:2], np.stack(expected), atol=2e-5)
    # A row of padding alone is zero under every pooling.
    np.testing.assert_array_equal(vectors[2], np.zeros_like(vectors[2]))


def test_pooling_of_several_layers_keeps_no_hidden_states(small_config, small_params):
    """Catches hidden states stacked over layers: no array of L x B x T x D may exist."""
    fn = make_embed_fn(small_config, parse_pooling("last2", 3))
    text = jax.jit(fn).lower(small_params, IDS, MASK).as_text()
    assert "tensor<3x3x16xf32>" in text
    assert "tensor<3x3x5x16xf32>" not in text


def test_normalize_gives_unit_length_and_keeps_zero_rows(small_config, small_params):
    """Catches 0 / 0 = NaN in the normalisation of a padding row."""
    vectors = embed(small_config, "mean", normalize=True)(small_params, IDS, MASK)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1, 0], atol=1e-6)
    np.testing.assert_array_equal(unit_length(jnp.array([[3.0, 4.0]])), jnp.array([[0.6, 0.8]]))
