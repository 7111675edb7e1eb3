"""How an encoder is used, as far as sentence-transformers keeps it in a folder.

`config_sentence_transformers.json` names texts that are put before others (prompts) and the
similarity of two vectors.
"""

import dataclasses
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bertflow_jax.data.json_files import is_there, read_json_object_if_present, write_json
from bertflow_jax.data.texts import iter_texts
from bertflow_jax.encoder.folder import OWN_SETTINGS
from bertflow_jax.encoder.st_files import read_modules
from bertflow_jax.errors import BertFlowWarning, ConfigError, InputError, shown

_FILE = "config_sentence_transformers.json"
_ALWAYS = ("query", "document")  # prompts that sentence-transformers knows as "" in every folder


@dataclasses.dataclass(frozen=True)
class Usage:
    """Prompts and similarity of an encoder.

    Attributes:
      prompts: name -> text that goes before the texts.
      default_prompt_name: of the prompt that is used when none is asked for.
      similarity: name of a similarity; None means cosine.
      include_prompt: whether the tokens of a prompt are pooled with the others.
    """

    prompts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    default_prompt_name: str | None = None
    similarity: str | None = None
    include_prompt: bool = True

    @property
    def known_prompts(self) -> dict[str, str]:
        """The prompts with those that every folder has, "" where it names none."""
        return {**dict.fromkeys(_ALWAYS, ""), **self.prompts}

    def prompt(self, text: str | None = None, name: str | None = None) -> str:
        """Return what goes before the texts: `text`, or the prompt of that name, or the default.

        Raises:
          InputError: both are given, a wrong type, an unknown name, or the encoder leaves the
            tokens of a prompt out of its pooling.
        """
        if text is not None and name is not None:
            raise InputError(
                f"prompt={shown(text)} and prompt_name={shown(name)}: give one of them"
            )
        for value, what in ((text, "prompt"), (name, "prompt_name")):
            if value is not None and not isinstance(value, str):
                raise InputError(f"{what}={shown(value)}: must be a str")
        known = self.known_prompts
        name = self.default_prompt_name if name is None else name
        if text is None and name is not None and name not in known:
            raise InputError(
                f"prompt_name={shown(name)}: this encoder has {', '.join(map(repr, known))}; give "
                "the text itself as prompt"
            )
        found = text if text is not None else "" if name is None else known[name]
        if found and not self.include_prompt:
            raise InputError(
                f"the prompt {found!r} cannot be used: this encoder's Pooling leaves the tokens of "
                "a prompt out (include_prompt is false), which is not supported; prompt='' embeds "
                "the texts alone"
            )
        return found


def with_prompt(texts: Iterable[object], prompt: str) -> Iterable[object]:
    """Put a prompt before every text; what is no str stays, and is refused where texts are read."""
    if not prompt:
        return texts
    return (prompt + text if isinstance(text, str) else text for text in iter_texts(texts))


def read_usage(folder: Path) -> Usage:
    """Read the usage of an encoder folder; a plain Hugging Face folder has none.

    Raises:
      ConfigError: a field of another type, or a default prompt that is not among the prompts.
    """
    path = folder / _FILE
    if not (is_there(folder / "modules.json") or is_there(folder / OWN_SETTINGS)):
        return Usage()
    fields = read_json_object_if_present(path)
    prompts = fields.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(
        isinstance(text, str | None) for text in prompts.values()
    ):
        raise ConfigError(f"{path}: prompts must be an object, name -> text")
    prompts = {name: text or "" for name, text in prompts.items()}
    default = _text(fields, "default_prompt_name", path)
    if default is not None and default not in (*prompts, *_ALWAYS):
        raise ConfigError(f"{path}: default_prompt_name={default!r} is not among the prompts")
    similarity = _text(fields, "similarity_fn_name", path)
    if fields.get("truncate_dim") is not None:
        warnings.warn(
            f"{path}: truncate_dim={fields['truncate_dim']!r} is not applied; give truncate_dim to "
            "encode",
            BertFlowWarning,
            stacklevel=2,
        )
    return Usage(prompts, default, similarity, _includes_prompt(folder))


def write_usage(folder: Path, usage: Usage) -> None:
    """Write what `read_usage` reads; raises OSError."""
    if usage == Usage(include_prompt=usage.include_prompt):
        (folder / _FILE).unlink(missing_ok=True)
        return
    write_json(
        folder / _FILE,
        {
            "prompts": dict(usage.prompts),
            "default_prompt_name": usage.default_prompt_name,
            "similarity_fn_name": usage.similarity,
        },
    )


def _text(fields: Mapping[str, Any], name: str, path: Path) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{path}: {name}={shown(value)} must be a str")
    return value


def _includes_prompt(folder: Path) -> bool:
    if not is_there(folder / "modules.json"):
        return True
    modules = read_modules(folder)
    settings = read_json_object_if_present(modules[1][1] / "config.json") if modules[1:] else {}
    value = settings.get("include_prompt", True)
    if not isinstance(value, bool):
        raise ConfigError(
            f"{modules[1][1] / 'config.json'}: include_prompt={shown(value)} must be true or false"
        )
    return value
