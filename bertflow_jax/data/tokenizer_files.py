"""Building a fast tokenizer from the files of an encoder folder.

`tokenizer.json` is the tokenizer; `tokenizer_config.json` overrules its lower-casing, accents and
Chinese characters, as in Hugging Face's BertTokenizer. A folder with only `vocab.txt` gets BERT's
WordPiece with the options of `tokenizer_config.json`, or of the caller.
"""

import dataclasses
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from bertflow_jax.data.json_files import (
    broken_link,
    is_there,
    read_json_object,
    read_json_object_if_present,
    refuse_pointer,
    write_json,
)
from bertflow_jax.data.tokenizer_settings import CONFIG, OPTIONS, TokenizerSettings, read_settings
from bertflow_jax.errors import (
    BertFlowWarning,
    ConfigError,
    DataNotFoundError,
    UnsupportedModelError,
)


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
    tokenizer_json = folder / "tokenizer.json"
    if is_there(tokenizer_json):
        backend = _from_tokenizer_json(tokenizer_json, said)
        _check_option(backend, do_lower_case, folder)
        _compare_vocabularies(backend, folder)
    else:
        backend = _from_vocab(folder, said, do_lower_case)
    pad = said.special["pad_token"]
    pad_id = backend.token_to_id(pad)
    if pad_id is None:
        raise ConfigError(f"{folder}: the vocabulary lacks the token {pad}")
    return TokenizerFiles(
        backend, said.special, pad_id, said.model_max_length, said.truncation_side
    )


def _from_tokenizer_json(path: Path, said: TokenizerSettings) -> tokenizers.Tokenizer:
    content = read_json_object(path)
    # Stored truncation and padding are the settings of whoever saved the file.
    content |= {"truncation": None, "padding": None}
    normalizer = content.get("normalizer") or {}
    if not isinstance(normalizer, dict):
        raise ConfigError(f"{path}: normalizer is not an object")
    if normalizer.get("type") == "BertNormalizer":
        for option, value in said.options.items():
            if value != normalizer.get(option):
                warnings.warn(
                    f"{path.parent}: {CONFIG} says {OPTIONS[option]}={value}, tokenizer.json "
                    f"{normalizer.get(option)}; the former is used",
                    BertFlowWarning,
                    stacklevel=2,
                )
                normalizer[option] = value
    try:
        backend = tokenizers.Tokenizer.from_str(json.dumps(content))
        backend.encode("a")  # what is found missing at the first text is refused here
    except Exception as error:  # tokenizers raises the bare Exception class
        raise ConfigError(f"{path}: not a tokenizer this package can read ({error})") from error
    unknown = str(getattr(backend.model, "unk_token", None))
    if isinstance(backend.model, models.WordPiece) and backend.model.token_to_id(unknown) is None:
        raise ConfigError(f"{path}: model.vocab lacks {unknown}, which unknown words become")
    return backend


def _compare_vocabularies(backend: tokenizers.Tokenizer, folder: Path) -> None:
    """Warn where a vocab.txt beside the tokenizer.json, edited say, gives tokens other ids."""
    if not (folder / "vocab.txt").is_file():
        return
    listed, used = _read_vocab(folder / "vocab.txt"), backend.get_vocab()
    other = next((token for token in listed if used.get(token) != listed[token]), None)
    if other is not None:
        warnings.warn(
            f"{folder}: the token {other!r} is {listed[other]} in vocab.txt and {used.get(other)} "
            "in tokenizer.json; the latter is used: delete the file that is out of date",
            BertFlowWarning,
            stacklevel=2,
        )


def _lowercase(backend: tokenizers.Tokenizer) -> bool | None:
    normalizer = json.loads(backend.to_str()).get("normalizer") or {}
    return normalizer.get("lowercase") if normalizer.get("type") == "BertNormalizer" else None


def _check_option(backend: tokenizers.Tokenizer, asked: bool | None, folder: Path) -> None:
    said = _lowercase(backend)
    if asked is not None and asked != said:
        raise ConfigError(
            f"do_lower_case={asked} contradicts the tokenizer of {folder}, which says {said}; "
            "leave the option out"
        )


def _from_vocab(
    folder: Path, said: TokenizerSettings, do_lower_case: bool | None
) -> tokenizers.Tokenizer:
    if said.kind not in ("BertTokenizer", "BertTokenizerFast"):
        raise UnsupportedModelError(
            f"{folder}: tokenizer_class={said.kind} without a tokenizer.json"
        )
    special, options = said.special, said.options
    vocab = _read_vocab(folder / "vocab.txt")
    unknown = special["unk_token"]
    for token in (unknown, special["cls_token"], special["sep_token"]):
        if token not in vocab:
            raise ConfigError(f"{folder}/vocab.txt lacks {token}")
    backend = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=unknown))
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=options.get("handle_chinese_chars", True) is True,
        strip_accents=options.get("strip_accents"),
        lowercase=_decide_lower_case(folder, options.get("lowercase"), vocab, do_lower_case),
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    backend.add_special_tokens([token for token in special.values() if token in vocab])
    _add_tokens(backend, folder)
    cls, sep = special["cls_token"], special["sep_token"]
    backend.post_processor = processors.BertProcessing((sep, vocab[sep]), (cls, vocab[cls]))
    return backend


def _read_vocab(path: Path) -> dict[str, int]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataNotFoundError(
            f"{path.parent} has no tokenizer; looked for tokenizer.json and vocab.txt"
            f"{broken_link(path)}"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 ({error})") from error
    refuse_pointer(path, text[:100].encode())
    lines = text.split("\n")
    # A vocabulary may hold U+2028 or U+0085 as tokens: only \n separates lines.
    lines = lines[:-1] if lines[-1] == "" else lines
    return {line.removesuffix("\r"): i for i, line in enumerate(lines)}


def _decide_lower_case(
    folder: Path, said: bool | None, vocab: Mapping[str, int], asked: bool | None
) -> bool:
    if said is not None:
        if asked is not None and asked != said:
            raise ConfigError(
                f"do_lower_case={asked} contradicts {folder}/tokenizer_config.json, which says "
                f"{said}; leave the option out"
            )
        return said
    if asked is not None:
        return asked
    cased = any(token != token.lower() for token in vocab if not token.startswith("["))
    warnings.warn(
        f"{folder} does not say whether to lower-case; its vocabulary has "
        f"{'' if cased else 'no '}upper-case tokens, so do_lower_case={not cased} is assumed. "
        "Pass do_lower_case to decide",
        BertFlowWarning,
        stacklevel=2,
    )
    return not cased


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
    if (content.get("normalizer") or {}).get("type") == "BertNormalizer":
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
