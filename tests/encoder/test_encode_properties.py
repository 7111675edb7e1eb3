"""What holds for every list of texts and every pair of embeddings."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from encoder.conftest import write_bert
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bertflow_jax import SentenceEncoder
from bertflow_jax.data.sts import load_task

words = st.sampled_from([*"abcdefgh", "the", "dog", "dogs", ".", "[SEP]", "[PAD]", "漢", "\n", "?"])
texts_of = st.lists(
    st.one_of(
        st.lists(words, max_size=60).map(" ".join),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    ),
    max_size=20,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("properties") / "bert")


@pytest.fixture(scope="module", params=["mean", "first_last,max"])
def encoder(request, folder):
    return SentenceEncoder.from_pretrained(folder, request.param)


@settings(deadline=None, max_examples=30)
@given(texts=texts_of, batch_size=st.sampled_from([1, 8]), data=st.data())
def test_a_vector_is_its_texts_alone(encoder, texts, batch_size, data):
    """Catches a row moved, dropped or changed by those it is embedded with, or by their order."""
    vectors = encoder.encode(texts, batch_size, on_overflow="ignore")
    assert vectors.shape == (len(texts), 16)
    for text, vector in zip(texts, vectors, strict=True):
        alone = encoder.encode([text], on_overflow="ignore")[0]
        np.testing.assert_allclose(vector, alone, atol=1e-5)
    order = data.draw(st.permutations(range(len(texts))))
    again = encoder.encode([texts[i] for i in order], on_overflow="ignore")
    np.testing.assert_allclose(again, vectors[order], atol=1e-5)
    window = data.draw(st.integers(1, 7))
    parts = list(encoder.encode_stream(texts, 8, window=window, on_overflow="ignore"))
    assert [len(part) for part in parts[:-1]] == [window] * (len(parts) - 1)
    np.testing.assert_allclose(np.concatenate([vectors[:0], *parts]), vectors, atol=1e-5)


def rows_of(count):
    """Vectors of every length that float32 holds, zeros among them."""
    numbers = st.floats(-8, 8, width=32).filter(lambda x: x == 0 or abs(x) > 1e-3)
    powers = hnp.arrays(np.int64, (count, 1), elements=st.integers(-37, 37))
    return st.builds(
        lambda x, p: (x * 10.0**p).astype(np.float32),
        hnp.arrays(np.float64, (count, 5), elements=numbers),
        powers,
    )


@settings(deadline=None, max_examples=150)
@given(a=rows_of(3), b=rows_of(3))
def test_cosines_are_those_of_float64(folder_encoder, a, b):
    """Catches squares that overflow or vanish: a cosine of 0 or NaN for very long vectors."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        x, y = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, y))
    expected = np.nan_to_num(x) @ np.nan_to_num(y).T
    got = folder_encoder.similarity(a, b)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, atol=1e-6)
    np.testing.assert_allclose(folder_encoder.similarity(b, a), got.T, atol=1e-6)
    pairs = folder_encoder.similarity_pairwise(a, b)
    np.testing.assert_allclose(pairs, np.diag(expected), atol=1e-6)


@settings(deadline=None, max_examples=100)
@given(
    a=hnp.arrays(np.float32, (3, 5), elements=st.floats(-100, 100, width=32)),
    b=hnp.arrays(np.float32, (3, 5), elements=st.floats(-100, 100, width=32)),
    kind=st.sampled_from(["dot", "euclidean", "manhattan"]),
)
def test_other_similarities_are_those_of_float64(folder_encoder, a, b, kind):
    """Catches a distance with the wrong sign or order, and pairs that are not the diagonal."""
    x, y = a.astype(np.float64)[:, None], b.astype(np.float64)[None]
    expected = {
        "dot": (x * y).sum(-1),
        "euclidean": -np.sqrt(((x - y) ** 2).sum(-1)),
        "manhattan": -np.abs(x - y).sum(-1),
    }[kind]
    usage = dataclasses.replace(folder_encoder.encoder.usage, similarity=kind)
    other = SentenceEncoder(dataclasses.replace(folder_encoder.encoder, usage=usage))
    np.testing.assert_allclose(other.similarity(a, b), expected, rtol=1e-5, atol=1e-2)
    pairs = other.similarity_pairwise(a, b)
    np.testing.assert_allclose(pairs, np.diag(expected), rtol=1e-5, atol=1e-2)


@pytest.fixture(scope="module")
def folder_encoder(folder):
    return SentenceEncoder.from_pretrained(folder)


def test_bfloat16_moves_a_vector_as_far_as_the_page_says():
    """Catches the largest coordinate of a difference given as the length of the difference."""
    root = Path(__file__).resolve().parents[2]
    texts = load_task("everyday").sentences[:200]
    exact, rounded = (
        SentenceEncoder.from_pretrained("mini_bert", "first_last", dtype=dtype).encode(texts)
        for dtype in ("float32", "bfloat16")
    )
    shares = np.linalg.norm(rounded - exact, axis=1) / np.linalg.norm(exact, axis=1)
    assert shares.mean() == pytest.approx(0.0025, abs=2e-4)
    assert 0.0028 < shares.max() < 0.0045
    for page in ("large-corpora.md", "benchmarks.md"):
        text = " ".join((root / "docs" / page).read_text("utf-8").split())
        assert re.search(r"first_last`.{0,60}0\.25 %|0\.25 %.{0,60}first_last`", text), page
