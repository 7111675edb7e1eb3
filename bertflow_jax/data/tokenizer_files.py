"""Building a fast tokenizer from the files of an encoder folder.

`tokenizer.json` is the tokenizer (`tokenizer_json` reads it). A folder with only `vocab.txt` gets
BERT's WordPiece with the options of `tokenizer_config.json`, or of the caller.
"""

import dataclasses
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from bertflow_jax.data.json_files import is_there, read_json_object_if_present, write_json
from bertflow_jax.data.tokenizer_json import (
    bert_normalizer,
    read_tokenizer_json,
    unlike_bert,
)
from bertflow_jax.data.tokenizer_settings import OPTIONS, TokenizerSettings, read_settings
from bertflow_jax.data.vocabulary import compare_vocabularies, read_vocab
from bertflow_jax.errors import BertFlowWarning, ConfigError, UnsupportedModelError


@dataclasses.dataclass(frozen=True)
class TokenizerFiles:
    """A tokenizer as its folder describes it.

    Attributes:
      backend: the tokenizer, without truncation or padding.
      special: {"pad_token": "[PAD]", ...}, the texts of the special tokens.
      pad_id: id of the padding token.
      model_max_length: the tokenizer's own limit in tokens; None where it states none.
      truncation_side: `right` or `left`, the end that is cut off.
    """

    backend: tokenizers.Tokenizer
    special: Mapping[str, str]
    pad_id: int
    model_max_length: int | None
    truncation_side: str


def read_tokenizer(folder: Path, do_lower_case: bool | None = None) -> TokenizerFiles:
    """Build the tokenizer of an encoder folder.

    Args:
      folder: holds tokenizer.json or vocab.txt, and possibly tokenizer_config.json.
      do_lower_case: for a folder whose files do not say; None guesses from the vocabulary and
        warns. A value that contradicts the files is a ConfigError.

    Raises DataNotFoundError if there is no tokenizer, ConfigError for a damaged one,
    UnsupportedModelError for one that is not WordPiece and has no tokenizer.json.
    """
    said = read_settings(folder)
    if is_there(folder / "tokenizer.json"):
        backend, said = read_tokenizer_json(folder / "tokenizer.json", said, do_lower_case)
        compare_vocabularies(backend, folder)
    else:
        backend = _from_vocab(folder, said, do_lower_case)
    if said.padding_side == "left":
        warnings.warn(
            f"{folder}: its tokenizer pads on the left, so that sentence-transformers gives a text "
            "other positions, and another vector, beside longer ones; here it is always the one "
            "that the text has alone",
            BertFlowWarning,
            stacklevel=2,
        )
    pad = said.special["pad_token"]
    pad_id = backend.token_to_id(pad)
    if pad_id is None:
        raise ConfigError(f"{folder}: the vocabulary lacks the token {pad}")
    return TokenizerFiles(
        backend, said.special, pad_id, said.model_max_length, said.truncation_side or "right"
    )


def _from_vocab(
    folder: Path, said: TokenizerSettings, do_lower_case: bool | None
) -> tokenizers.Tokenizer:
    if said.kind not in ("BertTokenizer", "BertTokenizerFast"):
        raise UnsupportedModelError(
            f"{folder}: tokenizer_class={said.kind} without a tokenizer.json"
        )
    special = said.special
    vocab = read_vocab(folder / "vocab.txt")
    unknown = special["unk_token"]
    for token in (unknown, special["cls_token"], special["sep_token"]):
        if token not in vocab:
            raise ConfigError(f"{folder}/vocab.txt lacks {token}")
    backend = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=unknown))
    backend.normalizer = bert_normalizer(folder, said, vocab, do_lower_case)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    backend.add_special_tokens([token for token in special.values() if token in vocab])
    _add_tokens(backend, folder)
    cls, sep = special["cls_token"], special["sep_token"]
    backend.post_processor = processors.BertProcessing((sep, vocab[sep]), (cls, vocab[cls]))
    return backend


def _add_tokens(backend: tokenizers.Tokenizer, folder: Path) -> None:
    """Add the tokens of `added_tokens.json`, which must get the ids the file says."""
    added = read_json_object_if_present(folder / "added_tokens.json")
    for token, number in sorted(added.items(), key=lambda item: str(item[1]).zfill(12)):
        backend.add_tokens([token])
        if backend.token_to_id(token) != number:
            raise ConfigError(f"{folder}/added_tokens.json: {token!r} cannot have id {number}")


def write_tokenizer(files: TokenizerFiles, folder: Path, max_length: int) -> None:
    """Write tokenizer.json and tokenizer_config.json so that Hugging Face reads the same."""
    content = tokenizer_content(files.backend)
    write_json(folder / "tokenizer.json", content)
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    # Of any other tokenizer Hugging Face's BertTokenizer would heed the vocabulary alone.
    if not unlike_bert(files.backend, files.special):
        options = {name: content["normalizer"].get(option) for option, name in OPTIONS.items()}
        config = {"tokenizer_class": "BertTokenizer", **options}
    config |= {
        name: token
        for name, token in files.special.items()
        if files.backend.token_to_id(token) is not None
    }
    config |= {"model_max_length": max_length, "truncation_side": files.truncation_side}
    write_json(folder / "tokenizer_config.json", config)


def tokenizer_content(backend: tokenizers.Tokenizer) -> dict[str, Any]:
    """Return the tokenizer as the content of a tokenizer.json, truncation and padding left out."""
    return json.loads(backend.to_str()) | {"truncation": None, "padding": None}


def standalone_tokenizer(files: TokenizerFiles, max_length: int, multiple: int) -> str:
    """Return the content of a tokenizer.json that cuts and pads without further settings."""
    backend = tokenizers.Tokenizer.from_str(files.backend.to_str())
    backend.enable_truncation(max_length, direction=files.truncation_side)
    backend.enable_padding(
        pad_id=files.pad_id, pad_token=files.special["pad_token"], pad_to_multiple_of=multiple
    )
    return backend.to_str(pretty=True)


def hugging_face_tokenizer(files: TokenizerFiles, max_length: int, lower_first: bool) -> Any:
    """Return a copy of a tokenizer as a `transformers.PreTrainedTokenizerFast`."""
    from transformers import PreTrainedTokenizerFast

    backend = tokenizers.Tokenizer.from_str(files.backend.to_str())
    if lower_first:
        steps = [normalizers.Lowercase(), backend.normalizer]
        backend.normalizer = normalizers.Sequence([step for step in steps if step])
    present = {k: v for k, v in files.special.items() if backend.token_to_id(v) is not None}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=max_length,
        truncation_side=files.truncation_side,
        **present,
    )
