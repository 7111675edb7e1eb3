"""encode and its neighbours under the names of sentence-transformers."""

import dataclasses
import sys

import numpy as np
import pandas as pd
import pytest

from bertflow_jax import SentenceEncoder, Standardize
from bertflow_jax.errors import ConfigError, InputError

TEXTS = ["the dog", "a b c d e f g h", "dogs.", "", "The dog . the dog ."]


@pytest.fixture
def folder(bert_folder):
    return bert_folder()


@pytest.fixture
def encoder(folder):
    return SentenceEncoder.from_pretrained(folder)


@pytest.fixture
def model(folder):
    """The same encoder in sentence-transformers."""
    package = pytest.importorskip("sentence_transformers", reason="not installed")
    return package.SentenceTransformer(str(folder), device="cpu")


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 2, "show_progress_bar": False},
        {"normalize_embeddings": True},
        {"truncate_dim": 5},
        {"truncate_dim": 5, "normalize_embeddings": True},
        {"truncate_dim": 99, "convert_to_numpy": True},
        {"prompt": "the dog : "},
        {"prompt_name": "query", "output_value": "sentence_embedding", "precision": "float32"},
        {"device": "cpu", "pool": None, "chunk_size": None, "task": "query"},
    ],
)
def test_the_same_arguments_give_the_same_vectors(encoder, model, options):
    """Catches normalisation before the truncation, and an argument taken and not heeded."""
    expected = model.encode(TEXTS, **options)
    vectors = encoder.encode(sentences=TEXTS, **options)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    np.testing.assert_allclose(encoder.encode(TEXTS[1], **options), expected[1], atol=1e-5)


@pytest.mark.parametrize(
    "texts",
    [tuple(TEXTS), np.array(TEXTS), pd.Series(TEXTS, index=[5, 1, 1, 2, 0]), iter(TEXTS)],
    ids=["tuple", "array", "series", "iterator"],
)
@pytest.mark.parametrize("prompt", [None, "a "])
def test_what_holds_texts(encoder, texts, prompt):
    """Catches a series read by its index, and one text of an array taken for all."""
    if not hasattr(texts, "__len__"):
        texts = iter(TEXTS)  # the parameter's own is used up by the other prompt
    expected = encoder.encode([(prompt or "") + text for text in TEXTS])
    np.testing.assert_allclose(encoder.encode(inputs=texts, prompt=prompt), expected, atol=1e-6)


def test_tensors_and_lists(encoder):
    torch = pytest.importorskip("torch", reason="not installed")
    expected = encoder.encode(TEXTS)
    tensor = encoder.encode(TEXTS, convert_to_tensor=True)
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_array_equal(tensor.numpy(), expected)
    assert encoder.encode("a", convert_to_tensor=True).shape == (16,)
    rows = encoder.encode(TEXTS, convert_to_numpy=False)
    assert isinstance(rows, list)
    np.testing.assert_array_equal(np.stack(rows), expected)
    assert encoder.encode([], truncate_dim=3).shape == (0, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"texts": ["a"], "sentences": ["b"]}, "sentences=.'b'.: texts was given as texts already"),
        ({"texts": ["a"], "normalize": True, "normalize_embeddings": False}, "the same argument"),
        ({"texts": ["a"], "normalise_embeddings": True}, "did you mean normalize_embeddings"),
        ({}, "texts is missing"),
        ({"texts": ["a"], "output_value": "token_embeddings"}, "output_value='token_embeddings'"),
        ({"texts": ["a"], "precision": "int8"}, "quantize_embeddings"),
        ({"texts": ["a"], "device": "cuda"}, "JAX_PLATFORMS"),
        ({"texts": ["a"], "truncate_dim": 0}, "truncate_dim=0: must be an integer >= 1"),
        ({"texts": ["a"], "convert_to_tensor": "yes"}, "convert_to_tensor='yes'"),
        ({"texts": ["a"], "prompt": "q", "prompt_name": "query"}, "give one of them"),
        ({"texts": ["a"], "prompt_name": "nope"}, "this encoder has 'query', 'document'"),
        ({"texts": ["a"], "prompt": 5}, "prompt=5: must be a str"),
    ],
)
def test_what_cannot_be_heeded_is_refused(encoder, options, message):
    """Catches an argument that is swallowed."""
    with pytest.raises(InputError, match=message):
        encoder.encode(**options)


def test_a_place_and_a_name_are_one_argument(encoder):
    with pytest.raises(InputError, match="texts was given by its place already"):
        encoder.encode(["a"], sentences=["b"])


def test_rows_under_a_prompt_keep_their_numbers(encoder):
    """Catches "b: " + None, a TypeError without a row."""
    with pytest.raises(InputError, match="row 1 is NoneType"):
        encoder.encode(["a", None], prompt="b ")


def test_a_tensor_needs_pytorch(encoder, monkeypatch):
    """Catches an ImportError after hours of embedding."""
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install torch"):
        encoder.encode(["a"], convert_to_tensor=True)


@pytest.mark.parametrize("name", ["cosine", "dot", "euclidean", "manhattan"])
def test_similarity(encoder, model, name):
    """Catches a distance with the wrong sign, and rows that are paired where all are asked for."""
    usage = dataclasses.replace(encoder.encoder.usage, similarity=name)
    named = SentenceEncoder(dataclasses.replace(encoder.encoder, usage=usage))
    model.similarity_fn_name = name
    a, b = encoder.encode(TEXTS), encoder.encode(["b", "c d"])
    options = {"rtol": 1e-5, "atol": 1e-5}
    for x, y in ((a, b), (list(a), b.tolist()), (a[0], b)):
        found = named.similarity(x, y)
        assert found.dtype == np.float32
        np.testing.assert_allclose(
            found, model.similarity(*(np.asarray(v, np.float32) for v in (x, y))), **options
        )
    np.testing.assert_allclose(
        named.similarity_pairwise(a[:2], b), model.similarity_pairwise(a[:2], b), **options
    )
    assert named.similarity_fn_name == name
    with pytest.raises(InputError, match="16 and 3 dimensions"):
        named.similarity(a, b[:, :3])
    with pytest.raises(InputError, match="matching rows"):
        named.similarity_pairwise(a, b)


def test_max_seq_length_is_what_encode_cuts_at(encoder, model):
    """Catches a limit that is shown and not used, and one set on every encoder that shares it."""
    long = ["a b c d e f g h i j"]
    other = encoder.with_postprocess(Standardize().fit(encoder.encode(TEXTS)))
    assert encoder.max_seq_length == model.max_seq_length == 40
    encoder.max_seq_length = model.max_seq_length = 6
    np.testing.assert_allclose(
        encoder.encode(long, on_overflow="ignore"), model.encode(long), atol=1e-5
    )
    np.testing.assert_allclose(encoder.encode(long), encoder.encode(["a b c d"]), atol=1e-6)
    assert other.max_seq_length == 40
    assert encoder.identity()["max_length"] == 6
    encoder.max_seq_length = 40
    assert np.abs(encoder.encode(long) - encoder.encode(["a b c d"])).max() > 1e-3
    for wrong in (2, 41, "8", True):
        with pytest.raises(ConfigError, match="max_length"):
            encoder.max_seq_length = wrong
    assert encoder.max_seq_length == 40


def test_the_tokenizer_is_the_one_people_know(encoder, model):
    """Catches a tokenizer that gives only [UNK]."""
    assert encoder.tokenizer(TEXTS)["input_ids"] == model.tokenizer(TEXTS)["input_ids"]
    assert encoder.tokenizer.tokenize("The dogs.") == ["the", "dog", "##s", "."]
    assert encoder.tokenizer.model_max_length == 40


def test_dimension_is_that_of_the_vectors(encoder):
    assert encoder.get_sentence_embedding_dimension() == encoder.get_embedding_dimension() == 16


def test_more_dimensions_than_there_are_keep_all_and_say_so(encoder, caplog):
    """Catches 16 numbers where 99 were asked for, without a word."""
    vectors = encoder.encode(TEXTS, truncate_dim=99)
    np.testing.assert_array_equal(vectors, encoder.encode(TEXTS))
    assert caplog.messages == [
        "truncate_dim=99: the vectors have 16 dimensions and keep all, as they do in "
        "sentence-transformers"
    ]
    caplog.clear()
    encoder.encode(TEXTS, truncate_dim=16)
    assert caplog.messages == []
