"""What holds for every text and every list of texts, of whatever characters and lengths."""

import json

import numpy as np
import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers_made import CASED, SAYS_LOWER, load, write

from bertflow_jax.data.batches import BatchShapes, make_batches, slots_of
from bertflow_jax.data.tokenizer_settings import CONFIG
from bertflow_jax.data.tokens import TextTokenizer
from bertflow_jax.encoder.hub import resolve_folder
from bertflow_jax.errors import BertFlowError

# What tokenizers treat in ways of their own: between them any other character.
PIECES = [
    "a", "hel", "Hello", "word", " ", "\n", "\t", "\r", "\x00", "\x97", "\u00a0", "\u00ad",
    "\u200b", "\u2028", "\u3000", "\ufeff", "\ufffd", "\u0301", "é", "É", "İ", "ß", "ﬁ", "漢",
    "\u3400", "\uf900", "\U00020000", "ア", "한", "\u0627", "\u05d0", "\U0001f600", "\u200d", ".", "'", "$",
    "、", "[SEP]", "[CLS]", "[PAD]", "[MASK]", "[UNK]", "[ SEP]", "[sep]", "##s", "[unused1]",
    "x" * 101, "e\u0301" * 60,
]  # fmt: skip
anything = st.characters(exclude_categories=["Cs"])
# A word of more than 100 characters is one token, a part of it many: where a long text is cut shows.
long_words = st.lists(
    st.builds(
        lambda word, times, end: word * times + end,
        st.sampled_from(["a", "xy", "é", "$", "漢", "word"]),
        st.integers(1, 160),
        st.sampled_from(["", " ", ".", "\n"]),
    ),
    max_size=12,
).map("".join)
mixed = st.builds(
    lambda parts, times: "".join(parts) * times,
    st.lists(st.one_of(st.sampled_from(PIECES), anything), max_size=30),
    st.sampled_from([1, 1, 1, 5, 40]),
)
texts_of = st.lists(st.one_of(mixed, long_words), max_size=6)


@pytest.fixture(
    scope="module", params=["mini_bert", "lower", "cased", "accents", "chinese", "left"]
)
def both(request, tmp_path_factory):
    """Return a function of max_length: our tokenizer; and Hugging Face's of the same folder."""
    if request.param == "mini_bert":
        folder = resolve_folder("mini_bert")
    else:
        config = {
            "lower": SAYS_LOWER,
            "cased": {"tokenizer_class": "BertTokenizer", "do_lower_case": False},
            "accents": {**SAYS_LOWER, "strip_accents": False},
            "chinese": {**SAYS_LOWER, "tokenize_chinese_chars": False},
            "left": {**SAYS_LOWER, "truncation_side": "left"},
        }[request.param]
        folder = write(tmp_path_factory.mktemp("tokenizers") / request.param, CASED, config)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    whole = TextTokenizer.from_folder(folder, vocab_size=40_000, positions=2000)
    return lambda length: whole.limited(length, 2000), theirs


@settings(deadline=None, max_examples=60)
@given(texts=texts_of, length=st.one_of(st.integers(3, 6), st.integers(3, 24)))
def test_ids_are_those_of_hugging_face(both, texts, length):
    """Catches a text cut in front of a character that does not end a word, and a lost [SEP]."""
    ours, theirs = both
    expected = [theirs(t, truncation=True, max_length=length)["input_ids"] for t in texts]
    rows = ours(length)(texts)
    assert [ids.tolist() for ids in rows.ids] == expected
    assert rows.truncated == sum(len(theirs(text)["input_ids"]) > length for text in texts)


@settings(deadline=None, max_examples=200)
@given(
    lengths=st.lists(st.integers(1, 70), max_size=80),
    longest=st.integers(70, 140),
    batch_size=st.sampled_from([1, 2, 7, 32, 1025, 10**9]),
    devices=st.sampled_from([1, 2, 8]),
)
def test_every_text_is_in_one_batch_and_comes_back(lengths, longest, batch_size, devices):
    """Catches a dropped remainder, a text in two batches, slots that overlap, a stray shape."""
    shapes = BatchShapes(longest, batch_size, devices)
    ids = [np.arange(length, dtype=np.int32) + 1000 * i + 5 for i, length in enumerate(lengths)]
    found = {}
    for batch in make_batches(ids, 3, shapes):
        rows, length = batch.input_ids.shape
        assert (rows, length) in shapes.all()
        assert rows % devices == 0
        slots = slots_of(length)
        for text, slot in zip(batch.texts, batch.slots, strict=True):
            member = batch.attention_mask[slot // slots] == slot % slots + 1
            found.setdefault(int(text), []).append(batch.input_ids[slot // slots][member])
        assert (batch.input_ids[batch.attention_mask == 0] == 3).all()
        used = sum(len(ids[text]) for text in batch.texts)
        assert (batch.attention_mask > 0).sum() == used
    assert sorted(found) == list(range(len(lengths)))
    for text, (row,) in found.items():
        np.testing.assert_array_equal(row, ids[text])


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("[SEP]"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=3,
)  # fmt: skip
FIELDS = [
    "unk_token", "sep_token", "pad_token", "cls_token", "mask_token", "do_lower_case",
    "strip_accents", "tokenize_chinese_chars", "model_max_length", "truncation_side",
    "tokenizer_class",
]  # fmt: skip


def or_error(call):
    try:
        return call()
    except BertFlowError as error:
        return error


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = write(tmp_path_factory.mktemp("fuzz") / "plain", CASED)
    load(folder).save(folder)
    return folder, json.loads((folder / "tokenizer.json").read_text("utf-8"))


@pytest.mark.filterwarnings("ignore")
@settings(deadline=None, max_examples=150)
@given(config=st.dictionaries(st.sampled_from(FIELDS), values, max_size=3), fast=st.booleans())
def test_any_setting_is_heeded_or_refused(plain, config, fast):
    """Catches a traceback of Rust or Python, and a setting that counts as another one."""
    folder, content = plain
    (folder / CONFIG).write_text(json.dumps(config))
    (folder / "tokenizer.json").unlink(missing_ok=True)
    if fast:
        (folder / "tokenizer.json").write_text(json.dumps(content), "utf-8")
    tokenizer = or_error(lambda: load(folder))
    if isinstance(tokenizer, BertFlowError):
        assert str(folder) in str(tokenizer)
        return
    for name, token in config.items():
        if name.endswith("_token") and token is not None:
            text = token["content"] if isinstance(token, dict) else token
            assert tokenizer.special_id(name) == tokenizer._files.backend.token_to_id(text)
    (row,) = tokenizer(["Hello"]).ids
    assert row.dtype == np.int32
    assert 1 <= len(row) <= tokenizer.max_length


def places(content, path=()):
    """Return the path to every value inside a JSON value, without those of the vocabulary."""
    if path[-1:] == ("vocab",):
        return [path]
    if not isinstance(content, dict | list):
        return [path]
    inner = content.items() if isinstance(content, dict) else enumerate(content)
    return [path] * bool(path) + [p for key, value in inner for p in places(value, (*path, key))]


@pytest.mark.filterwarnings("ignore")
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_any_damage_of_tokenizer_json_is_an_error_of_ours_or_harmless(plain, data):
    """Catches a panic of Rust, and a token id that fits no int32."""
    folder, content = plain
    changed = json.loads(json.dumps(content))
    *way, last = data.draw(st.sampled_from(places(changed)))
    inside = changed
    for key in way:
        inside = inside[key]
    if data.draw(st.booleans()):
        inside[last] = data.draw(values)
    else:
        del inside[last]
    (folder / CONFIG).write_text(json.dumps({"do_lower_case": True}))
    (folder / "tokenizer.json").write_text(json.dumps(changed), "utf-8")
    rows = or_error(lambda: load(folder)(["Hello", "", "a" * 300]))
    if isinstance(rows, BertFlowError):
        assert str(folder) in str(rows) or "row " in str(rows)
        return
    assert all(ids.dtype == np.int32 and len(ids) <= 64 for ids in rows.ids)
