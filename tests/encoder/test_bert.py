"""The BERT forward pass against stored and hand-written references."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bertflow_jax.encoder import Bert, BertConfig, Pooler, hidden_state, init_params, load_params
from bertflow_jax.encoder.bert import LayerNorm
from bertflow_jax.encoder.bert_config import ACTIVATIONS, read_config
from bertflow_jax.errors import InputError

IDS = np.array([[2, 5, 6, 22, 3], [2, 23, 3, 0, 0]], np.int32)
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32)


@functools.cache
def compiled(config, dtype, deterministic):
    bert = Bert(config, dtype, deterministic=deterministic)
    return jax.jit(
        lambda params, ids, mask, rngs: bert.apply(
            {"params": params}, ids, mask, hidden_state, rngs=rngs
        )
    )


def run(config, params, ids=IDS, mask=MASK, dtype=jnp.float32, rngs=None):
    body = {name: params[name] for name in ("embeddings", "layers")}
    return compiled(config, dtype, rngs is None)(body, ids, mask, rngs)


def max_error(states, expected, mask):
    return np.abs((np.asarray(states, np.float64) - expected) * mask[..., None]).max()


@pytest.mark.device
@pytest.mark.parametrize("layout", ["safetensors", "flax", "legacy"])
def test_tiny_bert_matches_hugging_face_in_every_format(shared, layout):
    """Catches a transposed kernel, a swapped projection, a wrong eps, a lost bias, per format."""
    if layout == "legacy":
        pytest.importorskip("torch", reason="a .bin file needs torch")
    folder = shared / "fixtures" / "tiny_bert" / layout
    expected = np.load(folder.parent / "expected.npz")
    config = read_config(folder)
    params, _ = load_params(folder, config)
    mask = expected["attention_mask"].astype(np.int32)
    out = run(config, params, expected["input_ids"].astype(np.int32), mask)
    assert out.collected.shape == expected["hidden_states"].shape
    assert max_error(out.collected, expected["hidden_states"], mask) < 1e-5
    pooled = Pooler(config).apply({"params": params["pooler"]}, out.last_hidden[:, 0])
    np.testing.assert_allclose(pooled, expected["pooler_output"], atol=1e-5)


@pytest.mark.device
@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_new", "relu", "silu"])
def test_every_hidden_state_matches_the_equations(
    small_config, small_params, reference_bert, hidden_act
):
    """Catches heads mixed up by the fused projection and a wrong activation."""
    config = dataclasses.replace(small_config, hidden_act=hidden_act)
    states, _ = reference_bert(small_params, config, IDS, MASK)
    assert max_error(run(config, small_params).collected, states, MASK) < 2e-5


def test_w06_layer_norm_eps_is_the_configs_in_every_layer(
    small_config, small_params, reference_bert
):
    """Catches an eps used after the embeddings only (case W06)."""
    config = dataclasses.replace(small_config, layer_norm_eps=0.5)
    states, _ = reference_bert(small_params, config, IDS, MASK)
    assert max_error(run(config, small_params).collected, states, MASK) < 2e-5


@pytest.mark.parametrize(("eps", "value"), [(1e-12, 0.99995), (1e-6, 0.0995), (1e-5, 0.0316)])
def test_w06_layer_norm_of_a_tiny_row(eps, value):
    """Catches a variance computed as E[x^2] - E[x]^2 and a hard-coded eps (case W06)."""
    params = {"params": {"scale": np.ones(2), "bias": np.zeros(2)}}
    y = LayerNorm(eps).apply(params, jnp.array([[1e-4, -1e-4]]))
    np.testing.assert_allclose(y, [[value, -value]], rtol=1e-3)


@pytest.mark.device
def test_layer_norm_statistics_are_float32_under_bfloat16():
    """Catches statistics in bfloat16: 256 + {0, 2} keeps 8 bits, so its variance would be off."""
    params = {"params": {"scale": np.ones(4), "bias": np.zeros(4)}}
    y = LayerNorm(1e-12).apply(params, jnp.array([[256, 258, 256, 258]], jnp.bfloat16))
    assert y.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(y, np.float32), [[-1, 1, -1, 1]])


@pytest.mark.parametrize(
    ("name", "at_one"),
    [
        ("gelu", 0.8413447),
        ("gelu_new", 0.8411920),
        ("gelu_pytorch_tanh", 0.8411920),
        ("relu", 1.0),
        ("silu", 0.7310586),
        ("swish", 0.7310586),
    ],
)
def test_w06_activation_values(name, at_one):
    """Catches the tanh form under the name gelu: they differ by 1.5e-4 at 1 (case W06)."""
    np.testing.assert_allclose(ACTIVATIONS[name](jnp.float32(1.0)), at_one, atol=2e-7)


def test_padding_does_not_reach_real_tokens(small_config, small_params):
    """Catches a mask that is ignored or inverted: other padding ids must change nothing."""
    other = np.where(MASK == 1, IDS, 7).astype(np.int32)
    a, b = (run(small_config, small_params, ids).last_hidden for ids in (IDS, other))
    assert max_error(a, np.asarray(b), MASK) == 0.0
    assert np.isfinite(run(small_config, small_params, mask=np.zeros_like(MASK)).last_hidden).all()


def test_token_id_outside_the_table_is_nan_not_a_clamp(small_config, small_params):
    """Catches jax's silent clamping of gather indices: the row would look like another word."""
    ids = IDS.copy()
    ids[0, 1] = small_config.vocab_size
    out = run(small_config, small_params, ids)
    assert np.isnan(out.last_hidden[0]).all()
    assert np.isfinite(out.last_hidden[1]).all()


def test_w07_more_tokens_than_positions_is_an_error(small_config, small_params):
    """Catches positions clamped to the last row of the table (case W07)."""
    ids = np.ones((1, small_config.max_position_embeddings + 1), np.int32)
    with pytest.raises(InputError, match=r"41 tokens.*40 rows"):
        run(small_config, small_params, ids, ids)


@pytest.mark.parametrize(
    ("sizes", "parameters"),
    [((768, 12, 12, 3072), 109_482_240), ((1024, 24, 16, 4096), 335_141_888)],
)
def test_parameter_count_of_bert_base_and_large(sizes, parameters):
    """Catches a lost bias or table, without allocating a large model."""
    hidden, layers, heads, inner = sizes
    config = BertConfig(30522, hidden, layers, heads, inner, 512)
    shapes = jax.eval_shape(lambda key: init_params(config, key), jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == parameters


def _primitive_count(config, params_shape, dtype=jnp.float32):
    ids = jax.ShapeDtypeStruct((2, 8), jnp.int32)
    text = jax.jit(lambda p, i, m: Bert(config, dtype).apply({"params": p}, i, m)).lower(
        params_shape, ids, ids
    )
    return text.as_text()


def test_program_size_does_not_depend_on_depth(small_config):
    """Catches layers unrolled in Python: compile time would grow with depth."""
    lengths = []
    for layers in (2, 24):
        config = dataclasses.replace(small_config, num_hidden_layers=layers)
        shapes = jax.eval_shape(lambda k, c=config: init_params(c, k, False), jax.random.key(0))
        lengths.append(len(_primitive_count(config, shapes).splitlines()))
    assert lengths[0] == lengths[1]


def test_e07_float32_matmuls_ask_for_the_highest_precision(small_config):
    """Catches float32 matmuls left at an accelerator's default of fewer bits (case E07)."""
    shapes = jax.eval_shape(lambda k: init_params(small_config, k, False), jax.random.key(0))
    with jax.default_matmul_precision("bfloat16"):
        text = _primitive_count(small_config, shapes)
        low = _primitive_count(small_config, shapes, jnp.bfloat16)
    dots = [line for line in text.splitlines() if "dot_general" in line]
    assert len(dots) == 6
    assert all("HIGHEST" in line for line in dots)
    assert "HIGHEST" not in low


@pytest.mark.device
def test_bfloat16_is_close_and_keeps_float32_parameters(small_config, small_params):
    """Catches a compute dtype that is ignored, and one that breaks the numbers."""
    exact = np.asarray(run(small_config, small_params).last_hidden)
    low = run(small_config, small_params, dtype=jnp.bfloat16).last_hidden
    assert low.dtype == jnp.bfloat16
    low = np.asarray(low, np.float32)
    assert 0 < max_error(low, exact, MASK) < 0.1 * np.abs(exact).max()


def noisy(config):
    return dataclasses.replace(config, hidden_dropout_prob=0.5)


def test_dropout_is_off_by_default_and_depends_on_its_key(small_config, small_params):
    """Catches dropout that is never applied, or that uses the same mask for every key."""
    config = noisy(small_config)
    off = np.asarray(run(config, small_params).last_hidden)
    np.testing.assert_array_equal(off, run(small_config, small_params).last_hidden)
    a, b, a_again = (
        np.asarray(run(config, small_params, rngs={"dropout": jax.random.key(k)}).last_hidden)
        for k in (1, 2, 1)
    )
    np.testing.assert_array_equal(a, a_again)
    assert max_error(a, b, MASK) > 1e-2
    assert max_error(a, off, MASK) > 1e-2


def test_dropout_differs_from_layer_to_layer(small_config, small_params):
    """Catches one dropout key broadcast over the scan: equal layers would drop equal units."""
    same = jax.tree.map(lambda x: np.zeros_like(x), small_params["layers"])
    for norm in ("attention_norm", "mlp_norm"):
        same[norm]["scale"] += 1.0
    # Every layer adds 100 to the units that dropout keeps: its LayerNorm shows which they were.
    same["mlp_out"]["bias"] += 100.0
    params = {**small_params, "layers": same}
    states = run(noisy(small_config), params, rngs={"dropout": jax.random.key(0)}).collected
    kept = np.asarray(states[1:]) > 0
    assert 0.3 < kept.mean() < 0.7
    assert (kept[0] != kept[1]).mean() > 0.3
    assert (kept[1] != kept[2]).mean() > 0.3
