"""A vocabulary with fewer or more tokens than the embedding table has rows."""

import shutil
import warnings
from pathlib import Path

import pytest
from tokenizers_made import SAYS_LOWER, UNCASED, load, write

import bertflow_jax
from bertflow_jax import SentenceEncoder
from bertflow_jax.errors import BertFlowWarning, ConfigError

COUNT = len(UNCASED)


def as_json(folder: Path) -> Path:
    """Turn a folder's tokenizer into tokenizer.json alone."""
    load(folder).save(folder)
    (folder / "vocab.txt").unlink()
    return folder


def test_a_vocabulary_that_was_cut_is_told(tmp_path):
    """Bug: words behind the cut came apart into letters, or into [UNK], without a word."""
    folder = tmp_path / "cut"
    shutil.copytree(Path(bertflow_jax.__file__).parent / "models" / "mini_bert", folder)
    (folder / "tokenizer.json").unlink()
    lines = (folder / "vocab.txt").read_text("utf-8").split("\n")
    (folder / "vocab.txt").write_text("\n".join(lines[:500]) + "\n", "utf-8")
    with pytest.warns(BertFlowWarning, match=r"cut/vocab\.txt has 500 tokens, and .* 8192 rows"):
        encoder = SentenceEncoder.from_pretrained(folder)
    whole = SentenceEncoder.from_pretrained("mini_bert").encoder.tokenizer(["playing"]).ids[0]
    assert whole.tolist() == [2, 4582, 3]
    assert len(encoder.encoder.tokenizer(["playing"]).ids[0]) > 3


@pytest.mark.parametrize(("rows", "told"), [(COUNT, False), (COUNT + 1, True)])
def test_one_line_too_few(tmp_path, rows, told):
    folder = write(tmp_path / "a")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        load(folder, vocab_size=rows)
    said = [str(w.message) for w in found]
    expected = f"{folder}/vocab.txt has {COUNT} tokens, and the encoder's embedding table {rows}"
    assert len(said) == told
    assert all(text.startswith(expected) for text in said)


@pytest.mark.parametrize(("rows", "told"), [(COUNT + 127, False), (COUNT + 128, True)])
def test_a_table_that_was_rounded_up_beside_a_tokenizer_json(tmp_path, rows, told):
    """JSON that is cut is refused as such; the tokenizer of another model is told."""
    folder = as_json(write(tmp_path / "a"))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        load(folder, vocab_size=rows)
    assert len(found) == told
    assert all(f"tokenizer.json has {COUNT} tokens" in str(w.message) for w in found)


@pytest.mark.parametrize("kind", ["vocab.txt", "tokenizer.json"])
def test_more_tokens_than_rows_are_refused_before_any_text(tmp_path, kind):
    """Bug: it was an error of the first text that has such a token, after hours perhaps."""
    folder = write(tmp_path / "a")
    folder = folder if kind == "vocab.txt" else as_json(folder)
    said = rf"a/{kind} has {COUNT} tokens, but .* table has {COUNT - 1} rows"
    with pytest.raises(ConfigError, match=said):
        load(folder, vocab_size=COUNT - 1)


@pytest.mark.filterwarnings("error")
def test_what_is_no_token_too_many(tmp_path):
    """Blank lines at the end, and added tokens, which are refused in the text that has one."""
    folder = write(tmp_path / "a", [*UNCASED, "", ""])
    expected = [2, UNCASED.index("word"), 3]
    assert load(folder, vocab_size=COUNT)(["word"]).ids[0].tolist() == expected
    added = write(tmp_path / "b", config=SAYS_LOWER, added_tokens={"newword": COUNT})
    assert load(added, vocab_size=COUNT)(["word"]).ids[0].tolist() == expected
    assert load(added, vocab_size=COUNT + 1)(["newword"]).ids[0].tolist() == [2, COUNT, 3]


def test_lines_that_occur_twice_have_rows_of_their_own(tmp_path):
    """Counting distinct tokens would warn of a table that fits."""
    folder = write(tmp_path / "a", [*UNCASED, "word", "dog"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(folder, vocab_size=COUNT + 2)
