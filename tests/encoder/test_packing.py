"""Several texts in a row: each has the vectors that it has alone."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bertflow_jax.encoder.embedding import make_embed_fn
from bertflow_jax.encoder.pooling import parse_pooling, pool_tokens

TEXTS = [np.array(ids, np.int32) for ids in ([2, 9, 7, 3], [2, 3], [2, 5, 5, 8, 6, 3], [2, 11, 3])]
# Row 0: texts 0, 1, 2. Row 1: text 3 and more padding than the position table has rows.
SLOTS = [(0, 0), (0, 1), (0, 2), (1, 0)]


@functools.cache
def compiled(config, pooling, slots):
    embed = make_embed_fn(config, parse_pooling(pooling, config.num_hidden_layers))
    return jax.jit(functools.partial(embed, slots=slots))


def packed(length):
    ids, mask = np.zeros((2, 2, length), np.int32)
    at = [0, 0]
    for text, (row, slot) in zip(TEXTS, SLOTS, strict=True):
        ids[row, at[row] : at[row] + len(text)] = text
        mask[row, at[row] : at[row] + len(text)] = slot + 1
        at[row] += len(text)
    return ids, mask


@pytest.mark.parametrize(
    "pooling", ["mean", "cls", "max", "pooler", "first_last", "last2,max,concat", "first_last,cls"]
)
def test_texts_of_a_row_do_not_see_each_other(small_config, small_params, pooling):
    """Catches attention across texts, positions that run on, and slots that are mixed up."""
    length = small_config.max_position_embeddings + 16
    got = compiled(small_config, pooling, 4)(small_params, *packed(length))
    assert got.shape[0] == 8
    assert got.dtype == jnp.float32
    got = np.asarray(got).reshape(2, 4, -1)
    alone = compiled(small_config, pooling, None)
    for text, slot in zip(TEXTS, SLOTS, strict=True):
        expected = alone(small_params, text[None], np.ones((1, len(text)), np.int32))[0]
        np.testing.assert_allclose(got[slot], expected, atol=2e-6)
    assert (got[0, 3] == 0).all()
    assert (got[1, 1:] == 0).all()


def test_one_text_a_row_is_the_plain_call(small_config, small_params):
    """The two ways in must mean the same: mask 1 and a row for every text."""
    ids, mask = np.full((2, 2, 6), 5, np.int32), np.array([[1] * 6, [1] * 4 + [0] * 2], np.int32)
    plain = compiled(small_config, "mean", None)(small_params, ids[0], mask)
    np.testing.assert_allclose(
        compiled(small_config, "mean", 1)(small_params, ids[0], mask), plain, atol=1e-6
    )


@pytest.mark.device
def test_pooled_values_of_two_texts():
    """Numbers by hand: a mean over the row would be 3, a maximum over it 9."""
    hidden = jnp.array([[[1.0], [3.0], [9.0], [-1.0]]])
    mask = jnp.array([[1, 1, 2, 0]])
    for tokens, values in (("mean", [2, 9, 0]), ("max", [3, 9, 0]), ("cls", [1, 9, 0])):
        np.testing.assert_array_equal(pool_tokens(hidden, mask, tokens, 3)[:, 0], values)
    np.testing.assert_array_equal(pool_tokens(-hidden, mask, "max", 3)[:, 0], [-1, -9, 0])
