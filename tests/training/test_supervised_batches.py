"""Batches of labelled pairs: order, padding, labels kept, [MASK] copies."""

import numpy as np
import pytest

from bertflow_jax.data.supervision import LabelledPairs
from bertflow_jax.encoder.hub import MINI_BERT
from bertflow_jax.encoder.pretrained import load_encoder
from bertflow_jax.errors import ConfigError
from bertflow_jax.training.supervised_batches import PairBatches, choose_labelled, padded_length

WORDS = ["one", "two", "three", "four", "five", "six", "seven"]
PAIRS = LabelledPairs(
    [" ".join(WORDS[: i + 1]) for i in range(7)],
    ["the cat sat on the mat", "", "[SEP]", "a dog", "a dog", "it rains", "no"],
    np.arange(7, dtype=np.int32) % 3,
    {},
)


@pytest.fixture(scope="module")
def tokenizer():
    return load_encoder(MINI_BERT, max_length=12).tokenizer


def make(tokenizer, pairs=PAIRS, batch_size=3, duplicate=1, seed=0, labelled=None):
    kept = np.ones(len(pairs), bool) if labelled is None else labelled
    return PairBatches(
        pairs, kept, tokenizer, batch_size=batch_size, duplicate=duplicate, seed=seed
    )


def test_an_epoch_has_every_pair_once_with_its_own_label(tokenizer):
    """Catches labels that go with other sentences, and pairs dropped at the end."""
    batches = make(tokenizer, batch_size=7)
    batch = batches.batch(0)
    lengths = batch.attention_mask.sum(axis=2)
    # Sentence 1 of pair i has i + 1 words, each one token here, and [CLS] and [SEP].
    pairs = lengths[:, 0] - 3
    assert sorted(pairs) == list(range(7))
    np.testing.assert_array_equal(batch.targets, pairs % 3)
    cls, sep = (tokenizer.special_id(name) for name in ("cls_token", "sep_token"))
    assert (batch.input_ids[:, :, 0] == cls).all()
    for ids, mask in zip(
        batch.input_ids.reshape(14, -1), batch.attention_mask.reshape(14, -1), strict=True
    ):
        assert ids[mask.sum() - 1] == sep
        assert (ids[mask.sum() :] == tokenizer.pad_id).all()


def test_a_batch_is_a_function_of_seed_and_step(tokenizer):
    """Catches state in the iterator: a resumed run would see other examples."""
    first, second = make(tokenizer, duplicate=2), make(tokenizer, duplicate=2)
    for step in range(4):
        first.batch(step)
    for ours, theirs in zip(
        vars(first.batch(2)).values(), vars(second.batch(2)).values(), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    other = make(tokenizer, duplicate=2, seed=1)
    assert any(
        not np.array_equal(first.batch(t).input_ids, other.batch(t).input_ids) for t in range(3)
    )


def test_copies_have_one_mask_token_each(tokenizer):
    """As released: the first copy is the pair, the others have one random token of each sentence
    masked, never [CLS], [SEP] or padding. An empty sentence, and one that is [SEP], stay."""
    mask_id = tokenizer.special_id("mask_token")
    masked_places = set()
    for seed in range(20):
        batches = make(tokenizer, duplicate=3, seed=seed)
        assert batches.order.num_examples == 21
        for pair in range(7):
            whole = batches.tokens(pair)
            for copy in (1, 2):
                for side, ids in enumerate(batches.tokens(pair + 7 * copy)):
                    changed = np.flatnonzero(ids != whole[side])
                    if side == 1 and PAIRS.sentences2[pair] in ("", "[SEP]"):
                        assert len(changed) == 0
                        continue
                    assert len(changed) == 1
                    assert ids[changed[0]] == mask_id
                    assert 0 < changed[0] < len(ids) - 1
                    if (pair, side) == (6, 0):
                        masked_places.add(int(changed[0]))
    assert masked_places == set(range(1, 8))  # every word of the longest sentence had its turn
    again = make(tokenizer, duplicate=3, seed=3)
    np.testing.assert_array_equal(
        again.tokens(8)[0], make(tokenizer, duplicate=3, seed=3).tokens(8)[0]
    )


def test_labelled_examples_are_chosen_by_the_seed(tokenizer):
    """Catches the first N taken, or a mask that is not carried into the batch."""
    kept = choose_labelled(100, 30, seed=5)
    assert kept.sum() == 30
    assert kept.tolist() == choose_labelled(100, 30, seed=5).tolist()
    assert kept.tolist() != choose_labelled(100, 30, seed=6).tolist()
    assert not kept[:30].all()
    assert choose_labelled(10, 0, seed=0).all()
    with pytest.raises(ConfigError, match=r"labelled=11: there are 10 labelled examples"):
        choose_labelled(10, 11, seed=0)
    labelled = np.array([1, 0, 0, 1, 0, 0, 0], bool)
    batch = make(tokenizer, batch_size=7, labelled=labelled).batch(0)
    pairs = batch.attention_mask.sum(axis=2)[:, 0] - 3
    np.testing.assert_array_equal(batch.labelled, labelled[pairs])


def test_few_lengths(tokenizer):
    """Catches a compile for every length, and a batch beyond the position table."""
    lengths = {padded_length(longest, 384) for longest in range(1, 385)}
    assert lengths == {16, 24, 32, 48, 64, 96, 128, 192, 256, 384}
    assert padded_length(100, 100) == 100
    assert padded_length(513, 2048) == 1024
    assert make(tokenizer).batch(0).input_ids.shape == (3, 2, 12)


def test_cut_sentences_are_counted(tokenizer, caplog):
    """11 words make 13 tokens; the limit is 12. A repeated sentence counts once."""
    long = " ".join(["dog"] * 11)
    pairs = LabelledPairs([long, long], ["a", "b"], np.zeros(2, np.int32), {})
    batches = make(tokenizer, pairs)
    assert batches.truncated == 1
    assert "1 of 3 sentences are longer than 12 tokens and were cut" in caplog.text
    assert batches.order.batch_size == 2  # case R01: fewer examples than a batch
    assert len(batches.tokens(0)[0]) == 12
