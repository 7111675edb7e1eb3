"""Word embeddings by frequency. Each test names the bug it catches."""

import gzip
import json

import numpy as np
import pytest
import scipy.spatial

from bertflow_jax.encoder.pretrained import load_encoder
from bertflow_jax.errors import DataError, DataNotFoundError
from bertflow_jax.evaluation import word_frequency as module
from bertflow_jax.evaluation.word_frequency import (
    Ranking,
    neighbour_means,
    rank_by_corpus,
    rank_by_vocabulary,
    word_frequency,
)


@pytest.fixture(scope="module")
def tokenizer():
    return load_encoder("mini_bert").tokenizer


def test_neighbours_by_hand():
    # Bug: a word is its own neighbour, or squared distances.
    table = np.array([[0, 0], [3, 4], [0, 1], [9, 9]], np.float32)
    # Of row 0: row 2 at 1 (dot 0), row 1 at 5 (dot 0). Of row 1: 2 at sqrt 18 (dot 4), 0 at 5.
    found = neighbour_means(table, np.array([0, 1]), np.arange(3), (1, 2))
    assert found[1] == pytest.approx(((1 + np.sqrt(18)) / 2, 2))
    assert found[2] == pytest.approx(((1 + 5 + np.sqrt(18) + 5) / 4, 1))


def test_neighbours_against_a_tree(monkeypatch):
    # Bug: blocks of words shifted against each other, or float32 rounding of close neighbours.
    rng = np.random.default_rng(0)
    table = (rng.normal(size=(300, 8)) + 20).astype(np.float32)
    candidates = np.arange(0, 300, 2)
    words = rng.permutation(candidates)[:50]
    monkeypatch.setattr(module, "_WORDS", 7)
    found = neighbour_means(table, words, candidates, (3, 7))
    exact = table.astype(np.float64)
    distance, near = scipy.spatial.KDTree(exact[candidates]).query(exact[words], k=8)
    for k in (3, 7):
        others = exact[candidates[near[:, 1 : k + 1]]]
        dots = np.einsum("ne,nke->nk", exact[words], others)
        assert found[k] == pytest.approx((distance[:, 1 : k + 1].mean(), dots.mean()), rel=1e-9)


def test_two_equal_words_are_neighbours_of_each_other():
    # Bug: a neighbour at distance 0 taken for the word itself.
    table = np.array([[1, 0], [1, 0], [5, 0]], np.float32)
    assert neighbour_means(table, np.array([0]), np.arange(3), (1,)) == {1: (0, 1)}


def test_bins_hold_the_papers_ranks():
    # Bug: ranks from 0, or a bin that ends one word late.
    table = np.arange(1, 12_001, dtype=np.float32)[:, None]
    every = np.arange(12_000)
    bins = word_frequency(table, Ranking(every, {"order": "vocabulary"}), every)["bins"]
    assert [found["words"] for found in bins.values()] == [99, 400, 4500, 5000]
    # The embedding of rank r is r.
    assert bins["(0, 100)"]["norm"] == pytest.approx(50)
    assert bins["[5K, 10K)"]["norm"] == pytest.approx((5000 + 9999) / 2)


def test_a_bin_of_too_few_words_is_null_with_a_reason():
    # Bug: a mean over three words, NaN over none.
    table = np.random.default_rng(0).normal(size=(105, 4)).astype(np.float32)
    every = np.arange(105)
    found = word_frequency(table, Ranking(every, {"order": "vocabulary"}), every)
    json.dumps(found, allow_nan=False)
    assert found["bins"]["(0, 100)"]["norm"] > 0
    few, none = found["bins"]["[100, 500)"], found["bins"]["[5K, 10K)"]
    assert few["norm"] is few["neighbours"]["3"]["distance"] is None
    assert few["reason"] == "6 ranked words in this bin, 10 are needed"
    assert none["reason"] == "0 ranked words in this bin, 10 are needed"
    lonely = word_frequency(table, Ranking(every[:20], {}), every[:7])
    assert lonely["bins"]["(0, 100)"]["reason"] == "7 words in all have no 7 neighbours"


@pytest.mark.parametrize("name", ["corpus.txt", "corpus.txt.gz"])
def test_words_are_ranked_by_their_counts(tmp_path, tokenizer, name, monkeypatch):
    # Bug: [CLS] and [SEP] of every line win; long lines are cut; a block forgets the one before.
    monkeypatch.setattr(module, "_LINES", 2)
    lines = ["the man the", "man", "a [SEP] [UNK]", "the " + "dog " * 400, ""]
    data = "\n".join(lines).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    ranking = rank_by_corpus(tmp_path / name, tokenizer)
    ids = [int(tokenizer.text_ids([word])[0][0]) for word in ("dog", "the", "man", "a")]
    assert ranking.ids.tolist() == ids
    assert ranking.origin["tokens"] == 400 + 3 + 2 + 1


def test_a_corpus_without_words_or_file_is_told(tmp_path, tokenizer):
    # Bug: an empty ranking that fails later, or a traceback.
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(DataError, match=r"empty\.txt holds no word"):
        rank_by_corpus(tmp_path / "empty.txt", tokenizer)
    with pytest.raises(DataNotFoundError, match="no such file"):
        rank_by_corpus(tmp_path / "missing.txt", tokenizer)


def test_special_tokens_are_no_words(tokenizer):
    # Bug: [PAD], whose embedding is never trained, among the frequent words or the neighbours.
    special = [tokenizer.pad_id, *tokenizer(["x"]).ids[0][[0, -1]]]
    words = tokenizer.word_ids()
    assert not set(special) & set(words.tolist())
    assert len(words) == 8192 - 5
    np.testing.assert_array_equal(rank_by_vocabulary(tokenizer).ids, words)


def test_text_ids_are_those_of_the_tokenizer_without_its_additions(tokenizer):
    # Bug: an option of the tokenizer (lower-casing) lost in the copy without a limit.
    texts = ["The MAN is riding.", "", "caf\u00e9"]
    for plain, row in zip(tokenizer.text_ids(texts), tokenizer(texts).ids, strict=True):
        np.testing.assert_array_equal(plain, row[1:-1])
    assert len(tokenizer.text_ids(["dog " * 1000])[0]) == 1000
    assert len(tokenizer(["dog " * 1000]).ids[0]) == tokenizer.max_length
