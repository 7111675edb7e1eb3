"""Folders of tiny tokenizers: words and letters of a made vocabulary."""

import json
from pathlib import Path

from bertflow_jax.data.tokenizer_files import read_tokenizer
from bertflow_jax.data.tokens import TextTokenizer

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
    """Read a folder's tokenizer, with an embedding table that has a row for every token."""
    if "vocab_size" not in kwargs:
        found = read_tokenizer(folder, kwargs.get("do_lower_case")).backend.get_vocab()
        kwargs["vocab_size"] = 1 + max(found.values())
    return TextTokenizer.from_folder(folder, **{"positions": 64, **kwargs})


def tokens(tokenizer, text, vocab=UNCASED):
    return [vocab[i] for i in tokenizer([text]).ids[0]]
