"""What tokenizer_config.json and special_tokens_map.json of an encoder folder say."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertflow_jax.data.json_files import read_json_object_if_present
from bertflow_jax.errors import ConfigError

CONFIG = "tokenizer_config.json"
SPECIAL = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
# BertNormalizer's name of an option -> tokenizer_config.json's name of it.
OPTIONS = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "handle_chinese_chars": "tokenize_chinese_chars",
}


@dataclasses.dataclass(frozen=True)
class TokenizerSettings:
    """The two files, checked.

    Attributes:
      special: {"pad_token": "[PAD]", ...}, the texts of the special tokens.
      options: BertNormalizer's name -> value of those that are said. None is a value of
        `strip_accents` alone (strip where lower-casing does).
      kind: the tokenizer's class.
      model_max_length: the tokenizer's own limit in tokens; None where it states none.
      truncation_side: `right` or `left`, the end that is cut off; None where nothing is said.
      padding_side: `right` or `left`; None where nothing is said.
    """

    special: Mapping[str, str]
    options: Mapping[str, bool | None]
    kind: str
    model_max_length: int | None
    truncation_side: str | None
    padding_side: str | None


def read_settings(folder: Path) -> TokenizerSettings:
    """Read the files, where they are there.

    Raises:
      ConfigError: a damaged file, or a field with a value that it cannot have; names both.
    """
    tokens = read_json_object_if_present(folder / "special_tokens_map.json")
    path = folder / CONFIG
    config = read_json_object_if_present(path)
    special = {}
    for name, text in SPECIAL.items():
        said, source = config.get(name), path
        if said is None:
            said, source = tokens.get(name), folder / "special_tokens_map.json"
        special[name] = _token_text(said, text, f"{source}: {name}")
    # Hugging Face looks there too.
    model = read_json_object_if_present(folder / "config.json")
    return TokenizerSettings(
        special,
        _options(config, path),
        str(config.get("tokenizer_class") or model.get("tokenizer_class") or "BertTokenizer"),
        _model_max_length(config.get("model_max_length"), path),
        _side(config, "truncation_side", path),
        _side(config, "padding_side", path),
    )


def _side(config: Mapping[str, Any], name: str, path: Path) -> str | None:
    side = config.get(name)
    if name in config and side not in ("right", "left"):
        raise ConfigError(f"{path}: {name}={side!r} must be right or left")
    return side


def _token_text(value: object, default: str, what: str) -> str:
    """Return the text of a token given as a string or as an added-token object."""
    text = value.get("content") if isinstance(value, Mapping) else value
    if value is None:
        return default
    if not isinstance(text, str) or not text:
        raise ConfigError(f'{what}={value!r} must be the text of a token, such as "{default}"')
    return text


def _options(config: Mapping[str, Any], path: Path) -> dict[str, bool | None]:
    """Return what is said of the normaliser; a word such as "false" would count as true."""
    options = {}
    for option, name in OPTIONS.items():
        value = config.get(name)
        if value is not None and not isinstance(value, bool):
            raise ConfigError(f"{path}: {name}={value!r} must be true or false")
        if value is not None or (option == "strip_accents" and name in config):
            options[option] = value
    return options


def _model_max_length(value: object, path: Path) -> int | None:
    if value is None:
        return None
    ok = isinstance(value, int | float) and not isinstance(value, bool)
    # "No limit" is written as int(1e30), which no int32 or Rust usize holds.
    if ok and value >= 2**31:  # type: ignore[operator]
        return None
    if not ok or not value >= 3 or value != int(value):  # type: ignore[operator, call-overload]
        raise ConfigError(
            f"{path}: model_max_length={value!r} must be a number of tokens, at least 3: [CLS], a "
            "token, [SEP]"
        )
    return int(value)  # type: ignore[call-overload]
