"""Tokenizers and their limits."""

import json

import pytest
from tokenizers_made import CASED, SAYS_LOWER, UNCASED, load, tokens, write

from bertflow_jax.errors import ConfigError, DataNotFoundError, InputError, UnsupportedModelError


@pytest.fixture
def uncased(tmp_path):
    return load(write(tmp_path / "uncased"))


def test_vocab_is_really_used(uncased):
    """Catches a tokenizer built without its vocabulary, which gives [UNK] for everything."""
    assert tokens(uncased, "Hello word.") == ["[CLS]", "hel", "##lo", "word", ".", "[SEP]"]


@pytest.mark.parametrize(
    ("user", "folder", "own", "expected"),
    [
        (None, None, None, 64),
        (None, None, 40, 40),
        (None, 20, 40, 20),
        (None, 50, 40, 50),
        (45, 50, 40, 45),
        (60, 50, 40, 50),
        (None, 99, 40, 64),
        (30, 20, 40, 30),
        (10, None, None, 10),
        (64, 20, None, 64),
    ],
)
def test_which_max_length_applies(tmp_path, user, folder, own, expected):
    """The caller's length replaces the folder's; the larger of folder and tokenizer limits it."""
    config = {**SAYS_LOWER, "model_max_length": own}
    tokenizer = load(
        write(tmp_path / "limits", config=config), max_length=user, default_max_length=folder
    )
    assert tokenizer.max_length == expected


def test_saved_tokenizer_gives_the_same_ids(tmp_path):
    """Catches options lost in saving: case, accents, truncation, the padding token."""
    vocab = [t.replace("[PAD]", "<pad>") for t in CASED]
    config = {"do_lower_case": False, "pad_token": {"content": "<pad>"}, "strip_accents": True}
    first = load(write(tmp_path / "a", vocab, config), max_length=20)
    (tmp_path / "b").mkdir()
    first.save(tmp_path / "b")
    second = load(tmp_path / "b")
    texts = ["Hello wörd", "漢字 <pad>", "word " * 30]
    for a, b in zip(first(texts).ids, second(texts).ids, strict=True):
        assert a.tolist() == b.tolist()
    assert (second.max_length, second.pad_id, second.digest()) == (20, 0, first.digest())


def test_stored_truncation_and_padding_are_ignored(tmp_path):
    """all-MiniLM-L6-v2's tokenizer.json pads everything to 128 tokens."""
    load(write(tmp_path / "a")).save(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    content["truncation"] = {
        "direction": "Right",
        "max_length": 4,
        "strategy": "LongestFirst",
        "stride": 0,
    }
    content["padding"] = {
        "strategy": {"Fixed": 12}, "direction": "Right", "pad_to_multiple_of": None,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
    }  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert len(load(tmp_path)(["word word word word"]).ids[0]) == 6


def test_added_tokens_keep_their_ids(tmp_path):
    folder = write(tmp_path / "a", added_tokens={"<new>": len(UNCASED) + 1, "<old>": len(UNCASED)})
    assert load(folder)(["<new> <old>"]).ids[0].tolist() == [2, len(UNCASED) + 1, len(UNCASED), 3]
    folder = write(tmp_path / "b", added_tokens={"<new>": 400})
    with pytest.raises(ConfigError, match="'<new>' cannot have id 400"):
        load(folder)


def test_digest_sees_the_vocabulary_not_the_length(tmp_path):
    a, b = write(tmp_path / "a"), write(tmp_path / "b", [*UNCASED, "x1"])
    assert load(a).digest() == load(a, max_length=9).digest()
    assert load(a).digest() != load(b).digest()


def test_id_beyond_the_embedding_table(tmp_path):
    """Catches jax's clamp: the token would silently be another word."""
    added = {"newword": len(UNCASED)}
    tokenizer = load(write(tmp_path / "a", added_tokens=added), vocab_size=len(UNCASED))
    tokenizer(["word", "漢"])
    with pytest.raises(InputError, match=rf"row 1: token 'newword' has id {len(UNCASED)}"):
        tokenizer(["word", "newword"])


@pytest.mark.parametrize(
    ("vocab", "config", "error", "message"),
    [
        ([t for t in UNCASED if t != "[PAD]"], SAYS_LOWER, ConfigError, r"lacks the token \[PAD\]"),
        (
            [t for t in UNCASED if t != "[SEP]"],
            SAYS_LOWER,
            ConfigError,
            r"vocab\.txt lacks \[SEP\]",
        ),
        (
            UNCASED,
            {"tokenizer_class": "BertJapaneseTokenizer"},
            UnsupportedModelError,
            "BertJapanese",
        ),
        (UNCASED, {**SAYS_LOWER, "model_max_length": 0}, ConfigError, "model_max_length=0"),
        (UNCASED, {**SAYS_LOWER, "truncation_side": "both"}, ConfigError, "truncation_side"),
    ],
)
def test_unusable_tokenizers(tmp_path, vocab, config, error, message):
    with pytest.raises(error, match=message):
        load(write(tmp_path / "a", vocab, config))


def test_missing_and_damaged_files(tmp_path):
    with pytest.raises(DataNotFoundError, match=r"tokenizer\.json and vocab\.txt"):
        load(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": 3}')
    with pytest.raises(ConfigError, match=r"tokenizer\.json: not a tokenizer"):
        load(tmp_path)
