"""Texts, batches and poolings that broke comparable software: E01, E02, E05, E06."""

import jax.numpy as jnp
import numpy as np
import pytest
from encoder.conftest import SMALL, VOCAB, random_params, write_bert
from tokenizers_made import load, write

from bertflow_jax.data.batches import BatchShapes, make_batches
from bertflow_jax.data.texts import check_text, iter_texts
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.encoder import parse_pooling
from bertflow_jax.encoder.pooling import pool_layers, pool_tokens
from bertflow_jax.errors import ConfigError, InputError

TEXTS = ["the dog", "a b c d e f g h", "dogs.", "b", "the dog . the dog ."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("cases") / "bert")


@pytest.fixture(scope="module")
def encoder(folder):
    return SentenceEncoder.from_pretrained(folder)


def test_e01_empty_and_blank_texts(encoder):
    """E01: [] has a width, and blanks are [CLS] [SEP] in the right row."""
    empty = encoder.encode([])
    assert empty.shape == (0, 16)
    assert empty.dtype == np.float32
    vectors = encoder.encode(["a", "", " ", "b"])
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(vectors[1], vectors[2], atol=1e-6)
    np.testing.assert_allclose(vectors[[0, 3]], encoder.encode(["a", "b"]), atol=1e-5)
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3


def test_e01_a_bare_string_is_one_text(encoder):
    """E01: one vector per letter."""
    vector = encoder.encode("the dog")
    assert vector.shape == (16,)
    np.testing.assert_allclose(vector, encoder.encode(["the dog"])[0], atol=1e-6)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a", None], "row 1 is NoneType"),
        (["a", float("nan")], "row 1 is float .nan."),
        ([b"a"], "row 0 is bytes"),
    ],
)
def test_e01_bad_rows_are_named(encoder, texts, message):
    """E01: an error of the tokenizer that tells neither row nor type."""
    with pytest.raises(InputError, match=message):
        encoder.encode(texts)


@pytest.mark.parametrize("texts", [np.array("abc"), 5, None])
def test_e01_what_cannot_be_walked_is_no_list_of_texts(encoder, texts):
    """E01: catches "iteration over a 0-d array"."""
    with pytest.raises(InputError, match=f"not {type(texts).__name__}"):
        encoder.encode(texts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "row 7 is NoneType, not str"),
        (float("nan"), r"row 7 is float \(nan\), not str"),
        (b"a", "row 7 is bytes, not str"),
        (["a"], "row 7 is list, not str"),
    ],
)
def test_e01_bad_texts_are_named(text, message):
    """E01: the row of a None, a NaN or bytes is lost."""
    with pytest.raises(InputError, match=message):
        check_text(text, 7)


@pytest.mark.parametrize("texts", [b"abc", {"a": 1}, {"a"}, None, 3, np.array("a"), "abc"])
def test_e01_no_list_of_texts(texts):
    """E01: a mapping or bytes iterate too, over what nobody means; a str over its letters."""
    with pytest.raises(InputError, match=f"a list of str is expected, not {type(texts).__name__}"):
        iter_texts(texts)


def test_t03_long_text_is_the_text_cut_by_hand(encoder):
    """T03: 40 positions hold [CLS], 38 tokens and [SEP]."""
    long, cut = encoder.encode(["dog " * 3000, "dog " * 38])
    np.testing.assert_array_equal(long, cut)


def test_t03_cut_texts_are_counted_once(encoder, caplog):
    """T03: silent truncation, or a warning for each of a million texts."""
    long = "dog " * 60
    encoder.encode([long, "a", long, "b"])
    assert [r.getMessage() for r in caplog.records if "cut" in r.getMessage()] == [
        "2 of 4 texts are longer than max_length=40 tokens and were cut"
    ]
    caplog.clear()
    encoder.encode([long], on_overflow="ignore")
    assert not caplog.records
    with pytest.raises(InputError, match="1 of rows 0 to 1 are longer than max_length=40"):
        encoder.encode(["a", long], on_overflow="error")
    with pytest.raises(ConfigError, match="on_overflow='drop': one of warn, error, ignore"):
        encoder.encode(["a"], on_overflow="drop")


@pytest.mark.device
def test_e02_token_values():
    """E02: the mean is [1, 0]; a mean over padding would be [0.5, 1]."""
    hidden = jnp.array([[[1.0, 0], [1, 0], [0, 2], [0, 2]]])
    mask = jnp.array([[1, 1, 0, 0]])
    np.testing.assert_array_equal(pool_tokens(hidden, mask, "mean"), [[1, 0]])
    np.testing.assert_array_equal(pool_tokens(hidden, mask, "max"), [[1, 0]])
    np.testing.assert_array_equal(pool_tokens(-hidden, mask, "max"), [[-1, 0]])
    np.testing.assert_array_equal(pool_tokens(hidden + 5, mask, "cls"), [[6, 5]])


def test_e02_pad_id_is_the_tokenizers(tmp_path):
    """E02: [PAD] is id 1 and id 0 is a real character."""
    vocab = ["a", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "b"]
    tokenizer = load(write(tmp_path / "pad1", vocab))
    (batch,) = make_batches(tokenizer(["a b a"]).ids, tokenizer.pad_id, BatchShapes(64, 1))
    assert tokenizer.pad_id == 1
    assert batch.input_ids[0].tolist() == [3, 0, 6, 0, 4] + [1] * 27
    assert batch.attention_mask[0].tolist() == [1] * 5 + [0] * 27


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "first_last", "layers=(0),max"])
def test_e02_vectors_do_not_depend_on_where_the_padding_token_lies(tmp_path, pooling):
    """E02: a mask made from ids hides the word that has id 0, and sees the padding with id 4."""
    ids = [4, 1, 2, 3, 0, *range(5, SMALL.vocab_size)]  # [MASK] and [PAD] change places
    params = random_params(SMALL)
    plain = SentenceEncoder.from_pretrained(write_bert(tmp_path / "a"), pooling)
    words = params["embeddings"]["word"]
    params["embeddings"]["word"] = words[ids]
    vocab = [VOCAB[i] for i in ids]
    moved = write_bert(tmp_path / "b", params=params, vocab=vocab)
    encoder = SentenceEncoder.from_pretrained(moved, pooling)
    texts = [*TEXTS, "[MASK] a [MASK]", "[PAD]"]
    assert encoder.encoder.tokenizer.pad_id == 4
    np.testing.assert_allclose(encoder.encode(texts), plain.encode(texts), atol=1e-5)


@pytest.mark.device
def test_e02_a_vector_does_not_depend_on_its_batch(encoder):
    """E02: alone, in batches of 8 and 32, shuffled, and beside a text at the length limit."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice([*"abcdefgh", "the", "dog"], n)) for n in rng.integers(1, 13, 40)]
    alone = np.stack([encoder.encode(text) for text in texts])
    for batch_size in (8, 32):
        np.testing.assert_allclose(encoder.encode(texts, batch_size), alone, atol=1e-5)
    order = rng.permutation(len(texts))
    shuffled = encoder.encode([texts[i] for i in order], batch_size=32)
    np.testing.assert_allclose(shuffled, alone[order], atol=1e-5)
    beside = encoder.encode([texts[0], "dog " * 500, *texts[1:]], batch_size=32)
    np.testing.assert_allclose(np.delete(beside, 1, axis=0), alone, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mean", 4.0),
        ("first_last", 2.5),
        ("last2", 3.5),
        ("embedding_last", 2.0),
        ("avg-last-2", 2.5),
        ("avg-last-3", 8 / 3),
        ("avg-last-last-2", 3.0),
        ("layers=(0,1)", 0.5),
    ],
)
def test_e05_layer_values_of_a_mock(name, value):
    """E05: hidden_states[i] is filled with i, so a slip shows as another number."""
    per_layer = jnp.arange(5.0)[:, None, None] * jnp.ones((5, 2, 3))
    pooled = pool_layers(per_layer, parse_pooling(name, 4))
    np.testing.assert_allclose(pooled, np.full((2, 3), value), rtol=1e-6)


def test_e05_released_reading_of_last_two_is_first_and_last(folder):
    """E05: the released avg-last-2 averages layers 1 and L; ours says so."""
    released, first_last, last2 = (
        SentenceEncoder.from_pretrained(folder, pooling=name).identity()["pooling"]
        for name in ("avg-last-2", "first_last", "last2")
    )
    assert released == first_last == "layers=(1,3),mean"
    assert last2 == "layers=(2,3),mean"


@pytest.mark.parametrize("name", ["last4", "avg-last-4", "avg-last-last-4", "last" + "9" * 5000])
def test_e05_more_layers_than_there_are(folder, name):
    """E05: as many layers as there are, without a word; a ValueError for a number too long."""
    with pytest.raises(
        ConfigError, match=r"pooling '[\w-]+(?:'|\.\.\.): the encoder has only 3 layers"
    ):
        SentenceEncoder.from_pretrained(folder, name)


@pytest.mark.parametrize("count", [1, 7, 33])
def test_e06_any_number_of_rows_comes_back(encoder, count):
    """E06: a last partial batch is neither dropped nor padded into the result."""
    texts = [TEXTS[i % 5] for i in range(count)]
    vectors = encoder.encode(texts, batch_size=8)
    assert vectors.shape == (count, 16)
    expected = encoder.encode(TEXTS, batch_size=8)[np.arange(count) % 5]
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_e06_compilations_are_bounded_and_none_on_a_second_pass(folder):
    """E06: shapes come from a known set, whatever the lengths."""
    encoder = SentenceEncoder.from_pretrained(folder, max_length=20)
    rng = np.random.default_rng(1)
    texts = ["a " * n for n in rng.integers(0, 60, 300)]
    before = set(encoder.compiled_shapes)  # shared by all encoders of this architecture
    vectors = encoder.encode(texts, batch_size=8)
    compiled = encoder.compiled_shapes
    assert set(compiled) - before <= set(BatchShapes(20, 8).all())
    assert {(4, 32), (2, 64)} & set(compiled)
    np.testing.assert_array_equal(encoder.encode(texts, batch_size=8), vectors)
    assert encoder.compiled_shapes == compiled
