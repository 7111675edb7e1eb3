"""Long texts cost what their beginning costs, and have the tokens of the whole."""

import importlib.util
import json
import random
from pathlib import Path

import pytest
import tokenizers

from bertflow_jax.data import long_texts
from bertflow_jax.data.long_texts import beginning, word_ends
from bertflow_jax.data.tokens import TextTokenizer

PIECES = [
    *("word", "guitar", "uneasiness", "Straße", "naïve", "ΟΔΟΣ", "漢字", "仮名です", "ab" * 60, "3.14%"),
    *("[SEP]", "[PAD]", "[MASK]", "<new>", "<n", "ew>", "don't", "a\u0301", "\u0301", "\u200b", "\x97"),
    *(" ", " ", "  ", "\n", "\t", "\u00a0", "\u2028", "。", "、", "-", "]", "[", "\U0001f971", "İ", "\U0001d49c"),
]  # fmt: skip


def _texts(seed, count=60):
    draw = random.Random(seed)
    return ["".join(draw.choices(PIECES, k=draw.randrange(0, 400))) for _ in range(count)]


@pytest.fixture(scope="module")
def folder():
    spec = importlib.util.find_spec("bertflow_jax")
    return Path(spec.submodule_search_locations[0]) / "models" / "mini_bert"


def _tokenizer(folder, tmp_path, max_length, side="right", added=()):
    """mini_bert's tokenizer with another side and with added tokens, and the plain backend."""
    for file in folder.glob("*token*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**config, "truncation_side": side}))
    backend = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    backend.add_tokens(list(added))
    backend.no_padding()
    backend.save(str(tmp_path / "tokenizer.json"))
    backend.enable_truncation(max_length, direction=side)
    ours = TextTokenizer.from_folder(
        tmp_path, vocab_size=8193, positions=max_length, max_length=max_length
    )
    return ours, backend


ADDED = {
    "none": [],
    "plain": ["<new>"],
    "white": ["word guitar"],
    "single": [tokenizers.AddedToken("guitar", single_word=True)],
    "chinese": ["字word"],
}


@pytest.mark.parametrize("added", ADDED)
@pytest.mark.parametrize("max_length", [3, 4, 17])
def test_the_tokens_are_those_of_the_whole_text(folder, tmp_path, monkeypatch, max_length, added):
    """A word, an accent or an added token cut in two would have other tokens."""
    ours, backend = _tokenizer(folder, tmp_path, max_length, added=ADDED[added])
    monkeypatch.setattr(long_texts, "_CHUNK", 7)
    monkeypatch.setattr(long_texts, "_CHUNK_CHARACTERS", 2000)
    texts = [*_texts(max_length), "", "word", "[SEP]"]
    expected = backend.encode_batch(texts)
    rows = ours(texts)
    assert [ids.tolist() for ids in rows.ids] == [encoding.ids for encoding in expected]
    assert rows.truncated == sum(bool(encoding.overflowing) for encoding in expected)
    assert 20 < rows.truncated < 63


def test_the_end_is_kept_where_the_tokenizer_says_so(folder, tmp_path):
    ours, backend = _tokenizer(folder, tmp_path, 9, side="left")
    expected = backend.encode_batch(_texts(0))
    assert [ids.tolist() for ids in ours(_texts(0)).ids] == [e.ids for e in expected]


@pytest.mark.parametrize("length", range(0, 300, 7))
def test_every_cut_is_at_the_end_of_a_word(folder, tmp_path, length):
    """At any place: what comes in front has the first tokens of the text."""
    _, backend = _tokenizer(folder, tmp_path, 64, added=["<new>"])
    backend.no_truncation()
    ends = word_ends(backend)
    for text in _texts(length, 12):
        whole = backend.encode(text, add_special_tokens=False).ids
        part = backend.encode(beginning(text, length, ends), add_special_tokens=False).ids
        assert part == whole[: len(part)]


def test_a_tokenizer_that_is_not_berts_is_left_alone(folder, tmp_path):
    """Where words are not known to end, nothing may be cut; the tokens are right all the same."""
    _, backend = _tokenizer(folder, tmp_path, 8)
    for added in ADDED:
        _, with_added = _tokenizer(folder, tmp_path, 8, added=ADDED[added])
        assert (word_ends(with_added) is None) == (added in ("white", "single"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    assert word_ends(backend) is None


def test_a_megabyte_costs_its_first_thousands(folder, tmp_path, monkeypatch):
    """Every piece that was cut off was built: 12.8 s and 930 MB for max_length=3."""
    ours, backend = _tokenizer(folder, tmp_path, 64)
    seen = []

    class Watched:
        def encode_batch_fast(self, texts, **kwargs):
            seen.append(sum(map(len, texts)))
            return backend.encode_batch_fast(texts, **kwargs)

        def __getattr__(self, name):
            return getattr(backend, name)

    backend.no_truncation()
    text = "A man is playing a guitar. " * 40_000
    first = ours([text[:2000]])
    object.__setattr__(ours._files, "backend", Watched())
    rows = ours([text, " " * 50_000 + text, "short"])
    assert rows.ids[0].tolist() == rows.ids[1].tolist() == first.ids[0].tolist()
    assert rows.truncated == 2
    assert sum(seen) < 400_000
    assert len(seen) == 4  # both together, then the one that begins with blanks by itself
