"""tokenizer.json: the tokenizer, read as Hugging Face's class for it reads it.

A BertTokenizer of transformers 5 takes the vocabulary alone from the file, and everything else from
tokenizer_config.json. So lower-casing, accents and Chinese characters are those of
tokenizer_config.json where it speaks of them, and a part that is null is BERT's own. A part that is
there and is not BERT's is used, with a warning: transformers 4 used it too.
"""

import dataclasses
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors

from bertflow_jax.data.json_files import read_json_object
from bertflow_jax.data.long_texts import special_ids
from bertflow_jax.data.tokenizer_settings import CONFIG, OPTIONS, TokenizerSettings
from bertflow_jax.errors import BertFlowWarning, ConfigError, UnsupportedModelError

# The classes that transformers 5 makes of its BertTokenizer.
_BERTS = {
    f"{name}Tokenizer{fast}"
    for name in ("Bert", "DistilBert", "Electra", "MobileBert", "SqueezeBert", "ConvBert")
    for fast in ("", "Fast")
}
# Those that are what the file says, and nothing else.
_PLAIN = ("PreTrainedTokenizerFast", "TokenizersBackend")
_PARTS = ("normalizer", "pre_tokenizer", "post_processor")


def read_tokenizer_json(
    path: Path, said: TokenizerSettings, do_lower_case: bool | None
) -> tuple[tokenizers.Tokenizer, TokenizerSettings]:
    """Build the tokenizer of a tokenizer.json, without its truncation and padding.

    Args:
      path: of the file.
      said: by the files beside it.
      do_lower_case: see `tokenizer_files.read_tokenizer`.

    Returns:
      the tokenizer, and `said` with the sides that the file has where nothing else says them.

    Raises:
      DataNotFoundError, ConfigError: no such file, a damaged one, or one that the files beside it
        contradict.
      UnsupportedModelError: special tokens are left to a class that is not known here.
    """
    content = read_json_object(path)
    said = _with_sides(content, said)
    # Stored truncation and padding are the settings of whoever saved the file.
    content |= {"truncation": None, "padding": None}
    for part in _PARTS:
        if not isinstance(content.get(part), dict | None):
            raise ConfigError(f"{path}: {part} is not an object")
    if content.get("post_processor") is None and said.kind not in (*_BERTS, *_PLAIN):
        raise UnsupportedModelError(
            f"{path}: post_processor is null, and what {said.kind} puts around a text is not known "
            f"here; save the tokenizer again with transformers 5, or write tokenizer_class="
            f"PreTrainedTokenizerFast into {CONFIG} if it puts nothing there"
        )
    _take_options(path, content, said)
    try:
        backend = tokenizers.Tokenizer.from_str(json.dumps(content))
        backend.encode("a")  # what is found missing at the first text is refused here
    except Exception as error:  # tokenizers raises the bare Exception class
        raise ConfigError(f"{path}: not a tokenizer this package can read ({error})") from error
    unknown = str(getattr(backend.model, "unk_token", None))
    if isinstance(backend.model, models.WordPiece) and backend.model.token_to_id(unknown) is None:
        raise ConfigError(f"{path}: model.vocab lacks {unknown}, which unknown words become")
    if said.kind in _BERTS:
        _fill(path, backend, said, do_lower_case)
        if other := unlike_bert(backend, said.special):
            warnings.warn(
                f"{path}: {' and '.join(other)} not of BERT, which {said.kind} of transformers 5 "
                "passes over; used here. If that is meant, write tokenizer_class="
                f"PreTrainedTokenizerFast into {CONFIG}",
                BertFlowWarning,
                stacklevel=2,
            )
    _check_option(backend, do_lower_case, path.parent)
    return backend, said


def _with_sides(content: Mapping[str, Any], said: TokenizerSettings) -> TokenizerSettings:
    """Return the settings with the sides of the file's sections where nothing else says them."""
    sides: dict[str, Any] = {}
    for section, name in (("truncation", "truncation_side"), ("padding", "padding_side")):
        stored = content.get(section)
        found = str(stored.get("direction")).lower() if isinstance(stored, dict) else None
        if getattr(said, name) is None and found in ("left", "right"):
            sides[name] = found
    return dataclasses.replace(said, **sides)


def _take_options(path: Path, content: Mapping[str, Any], said: TokenizerSettings) -> None:
    """Put the options of tokenizer_config.json into the normaliser, and warn of what differs."""
    normalizer = content.get("normalizer") or {}
    if normalizer.get("type") != "BertNormalizer":
        return
    for option, value in said.options.items():
        stored = normalizer.get(option)
        if value == stored:
            continue
        told = f"{path.parent}: {CONFIG} says {OPTIONS[option]}={value}, tokenizer.json {stored}"
        if said.kind in _PLAIN:  # Hugging Face's class passes over them
            told += "; the latter is used, as tokenizer_class is " + said.kind
        else:
            told += "; the former is used"
            normalizer[option] = value
        warnings.warn(told, BertFlowWarning, stacklevel=3)
    unsaid = {"lowercase": True, "strip_accents": None, "handle_chinese_chars": True}
    for option, value in unsaid.items():
        stored = normalizer.get(option)
        if said.kind in _BERTS and option not in said.options and stored != value:
            warnings.warn(
                f"{path.parent}: tokenizer.json says {OPTIONS[option]}={stored} and {CONFIG} "
                f"nothing, where {said.kind} of transformers takes {value}; the former is used: "
                f"write it into {CONFIG} too",
                BertFlowWarning,
                stacklevel=3,
            )


def _fill(
    path: Path, backend: tokenizers.Tokenizer, said: TokenizerSettings, do_lower_case: bool | None
) -> None:
    """Give a tokenizer BERT's own parts where it has none, and warn of them."""
    missing = [part for part in _PARTS if getattr(backend, part) is None]
    if not missing:
        return
    warnings.warn(
        f"{path} has no {' and no '.join(missing)}; BERT's own is used, as by {said.kind} of "
        "transformers 5",
        BertFlowWarning,
        stacklevel=3,
    )
    if "normalizer" in missing:
        vocab = backend.get_vocab(with_added_tokens=False)
        backend.normalizer = bert_normalizer(path.parent, said, vocab, do_lower_case)
    if "pre_tokenizer" in missing:
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if "post_processor" in missing:
        ends = []
        for token in (said.special[name] for name in ("sep_token", "cls_token")):
            number = backend.token_to_id(token)
            if number is None:
                raise ConfigError(f"{path}: the vocabulary lacks {token}, an end of every text")
            ends.append((token, number))
        backend.post_processor = processors.BertProcessing(*ends)


def unlike_bert(backend: tokenizers.Tokenizer, special: Mapping[str, str]) -> list[str]:
    """Return the parts in which a tokenizer is another than BERT's, the three options aside."""
    content = json.loads(backend.to_str())
    normalizer, model = content["normalizer"] or {}, content["model"]
    before, after = (ids.tolist() for ids in special_ids(backend))
    ends = [backend.token_to_id(special[name]) for name in ("cls_token", "sep_token")]
    alike = {
        "normalizer": normalizer.get("type") == "BertNormalizer"
        and normalizer.get("clean_text") is True,
        "pre_tokenizer": (content["pre_tokenizer"] or {}).get("type") == "BertPreTokenizer",
        "post_processor": [before, after] == [[end] for end in ends],
        "model": (model["type"], model.get("continuing_subword_prefix")) == ("WordPiece", "##")
        and model.get("max_input_chars_per_word") == 100,
    }
    return [part for part, same in alike.items() if not same]


def _check_option(backend: tokenizers.Tokenizer, asked: bool | None, folder: Path) -> None:
    normalizer = json.loads(backend.to_str())["normalizer"] or {}
    bert = normalizer.get("type") == "BertNormalizer"
    said = normalizer.get("lowercase") if bert else None
    if asked is not None and asked != said:
        raise ConfigError(
            f"do_lower_case={asked} contradicts the tokenizer of {folder}, which says {said}; "
            "leave the option out"
        )


def bert_normalizer(
    folder: Path, said: TokenizerSettings, vocab: Mapping[str, int], do_lower_case: bool | None
) -> normalizers.BertNormalizer:
    """Return BERT's normaliser with the options of a folder's files, or of the caller.

    Raises:
      ConfigError: the caller's option contradicts the files.
    """
    options = said.options
    return normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=options.get("handle_chinese_chars", True) is True,
        strip_accents=options.get("strip_accents"),
        lowercase=_decide_lower_case(folder, options.get("lowercase"), vocab, do_lower_case),
    )


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
