"""What holds for every pooling, mask and name; references in NumPy's float64."""

import functools

import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bertflow_jax.encoder.pooling import PoolingSpec, parse_pooling, pool_layers, pool_tokens
from bertflow_jax.errors import ConfigError

B, T, D, SLOTS = 3, 7, 4, 3
seeds = st.integers(0, 2**32 - 1)
scales = st.sampled_from([1e-6, 1.0, 1e3, 1e9])
# Padding anywhere, not at the end alone: a mask is what it says.
masks = st.lists(
    st.lists(st.integers(0, SLOTS), min_size=T, max_size=T), min_size=B, max_size=B
).map(lambda rows: np.asarray(rows, np.int32))


@functools.cache
def compiled(tokens, slots):
    return jax.jit(functools.partial(pool_tokens, tokens=tokens, slots=slots))


def reference(hidden, member, tokens, first):
    """Pool one text, float64[T, D], of the tokens where member is true."""
    chosen = hidden.astype(np.float64)[member]
    if not len(chosen):
        return np.zeros(D)
    if tokens in ("cls", "pooler"):
        return hidden[first].astype(np.float64)
    return chosen.mean(0) if tokens == "mean" else chosen.max(0)


@settings(deadline=None, max_examples=100)
@given(
    seed=seeds,
    scale=scales,
    mask=masks,
    tokens=st.sampled_from(["mean", "cls", "max", "pooler"]),
    packed=st.booleans(),
)
def test_pooled_tokens_are_those_of_numpy_and_padding_never_leaks(
    seed, scale, mask, tokens, packed
):
    """Catches a mean over padding, slots mixed up, a maximum of the filling, 0 / 0 of no token."""
    rng = np.random.default_rng(seed)
    hidden = (scale * rng.normal(size=(B, T, D))).astype(np.float32)
    numbers = mask if packed else (mask > 0).astype(np.int32)
    pool = compiled(tokens, SLOTS if packed else None)
    got = np.asarray(pool(hidden, numbers))
    members = [row == slot for row in numbers for slot in range(1, (SLOTS if packed else 1) + 1)]
    expected = [
        reference(hidden[i // SLOTS if packed else i], m, tokens, np.argmax(m) if packed else 0)
        for i, m in enumerate(members)
    ]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * scale)
    # Unpacked, the first token counts as the text's whether or not the mask has it.
    hidden[(numbers == 0) & ~((np.arange(T) == 0) & (not packed))] = 1e30
    np.testing.assert_array_equal(pool(hidden, numbers), got)


@settings(deadline=None, max_examples=60)
@given(
    seed=seeds,
    layers=st.lists(st.integers(0, 4), min_size=1, max_size=5, unique=True),
    reduce=st.sampled_from(["mean", "concat"]),
)
def test_pooled_layers_are_those_of_numpy(seed, layers, reduce):
    """Catches a layer taken twice or in another order, and a mean over all of them."""
    per_layer = np.random.default_rng(seed).normal(size=(5, B, D)).astype(np.float32)
    spec = PoolingSpec(tuple(layers), "mean", reduce)
    got = np.asarray(pool_layers(per_layer, spec))
    chosen = per_layer[layers].astype(np.float64)
    expected = chosen.mean(0) if reduce == "mean" else np.concatenate(list(chosen), axis=-1)
    assert got.shape[-1] == spec.dimension(D)
    np.testing.assert_allclose(got, expected, atol=1e-6)


words = st.sampled_from(
    ["mean", "cls", "max", "concat", "pooler", "avg", "last", "avg-last-", "avg-last-last-", "-",
     "first_last", "embedding_last", "layers=(", ")", ",", " ", "0", "1", "3", "12", "9" * 5000]
)  # fmt: skip
names = st.one_of(st.lists(words, max_size=6).map("".join), st.text(max_size=12))


@settings(deadline=None, max_examples=300)
@given(name=names, layers=st.integers(1, 24))
def test_a_name_has_one_meaning_or_is_refused(name, layers):
    """Catches a ValueError of int(), a layer that is not there, a name that its text changes."""
    try:
        spec = parse_pooling(name, layers)
    except ConfigError:
        return
    assert set(spec.layers) <= set(range(layers + 1))
    assert len(set(spec.layers)) == len(spec.layers) >= 1
    assert parse_pooling(str(spec), layers) == spec
