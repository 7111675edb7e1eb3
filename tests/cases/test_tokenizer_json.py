"""tokenizer.json with parts that are null or not BERT's: the ids of Hugging Face, or a warning."""

import json
from pathlib import Path

import pytest
from tokenizers_made import CASED, SAYS_LOWER, UNCASED, load, write

from bertflow_jax.errors import BertFlowWarning, ConfigError, UnsupportedModelError

TEXTS = ["Hello note-book. H", "Wórd 漢字 a\u200bb", "[MASK] x", ""]
SILENT = {"tokenizer_class": "BertTokenizer"}
NFC = {"type": "NFC"}
SPACES = {"type": "WhitespaceSplit"}
CLS_ALONE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}},
}  # fmt: skip


def folder_with(path: Path, *, config=SAYS_LOWER, vocab=UNCASED, without=(), **parts) -> Path:
    """Write a folder whose tokenizer.json has the given parts, and no vocab.txt."""
    load(write(path, vocab)).save(path)
    (path / "vocab.txt").unlink()
    content = json.loads((path / "tokenizer.json").read_text()) | parts
    for part in without:
        del content[part]
    (path / "tokenizer.json").write_text(json.dumps(content))
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    return path


def ours(folder: Path) -> list[list[int]]:
    return [ids.tolist() for ids in load(folder)(TEXTS).ids]


def theirs(folder: Path) -> list[list[int]]:
    transformers = pytest.importorskip("transformers")
    return transformers.AutoTokenizer.from_pretrained(folder)(TEXTS)["input_ids"]


@pytest.mark.parametrize("kind", ["BertTokenizer", "DistilBertTokenizerFast", None])
@pytest.mark.parametrize("part", ["normalizer", "pre_tokenizer", "post_processor"])
@pytest.mark.parametrize("absent", [False, True])
def test_a_part_that_is_null_is_bert_s(tmp_path, kind, part, absent):
    """Bug: vectors without [CLS] and [SEP], or of [UNK] alone, without a word."""
    config = {**SAYS_LOWER, "tokenizer_class": kind} if kind else {"do_lower_case": True}
    parts = {"without": (part,)} if absent else {part: None}
    folder = folder_with(tmp_path / "a", config=config, **parts)
    (folder / "config.json").write_text('{"model_type": "bert"}')
    with pytest.warns(BertFlowWarning, match=rf"tokenizer\.json has no {part}; BERT's own is used"):
        found = ours(folder)
    assert found == theirs(folder)
    assert found[0] == [2, *(UNCASED.index(t) for t in ("hel", "##lo", "note")), 1, *found[0][5:]]


def test_all_of_them_null_and_saved_again(tmp_path):
    """Bug: what was filled in at loading must be in the saved file too."""
    null = dict.fromkeys(("normalizer", "pre_tokenizer", "post_processor"))
    folder = folder_with(tmp_path / "a", **null)
    with pytest.warns(BertFlowWarning, match="no normalizer and no pre_tokenizer and no post_pro"):
        tokenizer = load(folder)
    tokenizer.save(tmp_path)
    assert ours(tmp_path) == theirs(tmp_path) == [ids.tolist() for ids in tokenizer(TEXTS).ids]


@pytest.mark.parametrize(
    "parts",
    [{}, {"normalizer": None}, {"pre_tokenizer": None}, {"post_processor": None},
     {"normalizer": NFC}, {"pre_tokenizer": SPACES}, {"post_processor": CLS_ALONE}],
    ids=str,
)  # fmt: skip
@pytest.mark.filterwarnings("error::bertflow_jax.errors.BertFlowWarning")
def test_a_plain_class_is_what_the_file_says(tmp_path, parts):
    """Bug: [CLS] put before texts of a tokenizer that has none; a save that Hugging Face reads
    as BERT's, with other ids."""
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    folder = folder_with(tmp_path / "a", config=config, **parts)
    expected = ours(folder)
    assert expected == theirs(folder)
    load(folder).save(tmp_path)
    assert theirs(tmp_path) == ours(tmp_path) == expected


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ({"normalizer": NFC}, "normalizer"),
        ({"pre_tokenizer": SPACES}, "pre_tokenizer"),
        ({"post_processor": CLS_ALONE}, "post_processor"),
    ],
    ids=["normalizer", "pre_tokenizer", "post_processor"],
)
def test_a_part_that_is_not_bert_s_is_used_and_told(tmp_path, parts, named):
    """Bug: other ids than those of transformers 5, without a word."""
    folder = folder_with(tmp_path / "a", **parts)
    with pytest.warns(BertFlowWarning, match=rf"json: {named} not of BERT, which BertTokenizer"):
        found = ours(folder)
    plain = {"tokenizer_class": "PreTrainedTokenizerFast"}
    assert found == theirs(folder_with(tmp_path / "b", config=plain, **parts)) != theirs(folder)


@pytest.mark.parametrize("silent", [SILENT, {}])
def test_options_that_tokenizer_config_is_silent_of(tmp_path, silent):
    """Bug: Hugging Face lower-cases there, whatever tokenizer.json says, and we said nothing."""
    cased = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
             "strip_accents": None, "lowercase": False}  # fmt: skip
    folder = folder_with(tmp_path / "a", config=silent, vocab=CASED, normalizer=cased)
    with pytest.warns(BertFlowWarning, match="says do_lower_case=False and tokenizer_config"):
        assert ours(folder)[0][1] == CASED.index("Hel")


def test_a_plain_class_does_not_heed_tokenizer_config(tmp_path):
    """Bug: do_lower_case overruled tokenizer.json where Hugging Face does not look at it."""
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": False}
    folder = folder_with(tmp_path / "a", config=config)
    with pytest.warns(
        BertFlowWarning, match="the latter is used, as tokenizer_class is PreTrained"
    ):
        assert ours(folder)[0][1] == UNCASED.index("hel")
    assert ours(folder) == theirs(folder)


def test_what_another_class_would_add_is_not_guessed(tmp_path):
    """Bug: texts without the special tokens that their class puts around them."""
    config = {"tokenizer_class": "MPNetTokenizer"}
    folder = folder_with(tmp_path / "a", config=config, post_processor=None)
    with pytest.raises(UnsupportedModelError, match="post_processor is null, and what MPNetTok"):
        load(folder)
    # config.json names the class where tokenizer_config.json does not.
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedModelError, match="what MPNetTokenizer puts around"):
        load(folder)


@pytest.mark.parametrize("part", ["normalizer", "pre_tokenizer", "post_processor"])
def test_a_part_that_is_no_object(tmp_path, part):
    folder = folder_with(tmp_path / "a", **{part: ["x"]})
    with pytest.raises(ConfigError, match=rf"tokenizer\.json: {part} is not an object"):
        load(folder)


STORED = {
    "truncation": {"direction": "Left", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
    "padding": {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None,
                "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
}  # fmt: skip


@pytest.mark.parametrize("said", [None, "right"])
def test_the_side_that_a_stored_truncation_names(tmp_path, said):
    """Bug: the first tokens were kept where Hugging Face keeps the last; lengths do not count."""
    transformers = pytest.importorskip("transformers")
    config = {**SAYS_LOWER, **({"truncation_side": said} if said else {})}
    folder = folder_with(tmp_path / "a", config=config, **STORED)
    hugging_face = transformers.AutoTokenizer.from_pretrained(folder)
    text = "hello word note book a b c"
    expected = hugging_face(text, truncation=True, max_length=6)["input_ids"]
    assert load(folder, max_length=6)([text]).ids[0].tolist() == expected
    assert (UNCASED.index("c") in expected) == (said is None)


@pytest.mark.parametrize("where", ["tokenizer_config.json", "tokenizer.json"])
def test_padding_on_the_left_is_told(tmp_path, where):
    """Bug: sentence-transformers' vectors depend on the batch then, and nothing said so."""
    if where == "tokenizer.json":
        stored = {**STORED["padding"], "direction": "Left"}
        folder = folder_with(tmp_path / "a", padding=stored)
    else:
        folder = folder_with(tmp_path / "a", config={**SAYS_LOWER, "padding_side": "left"})
    with pytest.warns(BertFlowWarning, match="pads on the left"):
        load(folder)
    (folder / "tokenizer_config.json").write_text('{"padding_side": "middle"}')
    with pytest.raises(ConfigError, match="padding_side='middle' must be right or left"):
        load(folder)
