"""What is kept out of a fit: no text whose vector is fitted under another spelling."""

import collections

import numpy as np
import pytest

from bertflow_jax import SentenceEncoder
from bertflow_jax.config import Config, DataConfig, EncoderConfig, FlowConfig, TrainConfig
from bertflow_jax.data.sts import load_task
from bertflow_jax.data.texts import alike
from bertflow_jax.training.run import train
from bertflow_jax.training.split import fitted_count, split_examples

SPELLINGS = [
    *(
        "A dog sleeps.",
        "a dog sleeps.",
        "A  DOG sleeps .",
        "\u00c1 d\u00f2g sleeps.",
        "A\tdog\nsleeps.",
    ),
    *("\uff21 dog sleeps.", "A do\u0301g sleeps."),
    # BERT takes off what does not print.
    *("A d\u200bog sleeps.", "A do\u00adg\x07 sleeps.", "\ufeffA dog sleeps.\ufffd"),
]


@pytest.fixture(scope="module")
def tokenizer():
    return SentenceEncoder.from_pretrained("mini_bert").encoder.tokenizer


def kinds_by_tokens(tokenizer, texts):
    """Return {token ids: kinds of their texts}."""
    kinds = collections.defaultdict(set)
    for ids, kind in zip(tokenizer.text_ids(texts), alike(texts), strict=True):
        kinds[ids.tobytes()].add(int(kind))
    return kinds


def test_spellings_of_one_text_are_alike():
    assert alike([*SPELLINGS, "A dig sleeps.", "", "  ", "a dog sleeps."]).tolist() == [
        *(0,) * len(SPELLINGS),
        *(1, 2, 2, 0),
    ]


def test_texts_of_the_same_tokens_are_alike(tokenizer, shared):
    """19 sentences of STS12 have the tokens of another one."""
    texts = load_task("sts12", shared / "sts").sentences
    assert len(kinds_by_tokens(tokenizer, SPELLINGS)) == 2  # full width is another letter to BERT
    kinds = kinds_by_tokens(tokenizer, texts)
    assert len(texts) - len(kinds) == 19
    assert all(len(found) == 1 for found in kinds.values())


def test_what_is_like_a_fitted_text_is_not_kept_out():
    """Sentences 0 and 3 are one text in two cases: either would be scored by the other's fit."""
    rows = np.array([[0], [1], [2], [3], [4], [5]], np.int32)
    kinds = np.array([0, 1, 2, 0, 3, 4], np.int32)
    for seed in range(20):
        fitted, kept_out = split_examples(rows, 0.5, seed, kinds)
        assert not set(kept_out.ravel()) & {0, 3}
        assert len(kept_out) == 3
        assert sorted([*fitted.ravel(), *kept_out.ravel()]) == list(range(6))
        assert len(fitted) == fitted_count(rows, 0.5, kinds)
    pairs = np.array([[0, 1], [2, 3], [4, 5]], np.int32)
    assert split_examples(pairs, 0.3, 0, kinds)[1].tolist() == [[4, 5]]


@pytest.mark.parametrize("mode", ["cached", "online"])
def test_a_run_keeps_out_no_other_spelling(tmp_path, mode, caplog):
    lines = [f"{word} dog number {i}" for i in range(12) for word in ("The", "the")]
    lines += [f"one cat of {i}" for i in range(3)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    config = Config(
        encoder=EncoderConfig(path="mini_bert"),
        flow=FlowConfig(levels=1, depth=1, width=4),
        data=DataConfig(path=str(tmp_path / "text.txt"), held_out=0.2),
        train=TrainConfig(steps=1, batch_size=8, mode=mode, tensorboard=False),
        cache_dir=str(tmp_path / "cache"),
    )
    train(config, tmp_path / "run")
    assert "3 example(s) are held out; 3 of 27 share no sentence with others" in caplog.text
