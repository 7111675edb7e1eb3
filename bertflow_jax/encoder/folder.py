"""What an encoder folder says besides its weights: pooling, maximum length, normalisation.

Three layouts: a plain Hugging Face folder (nothing said), a sentence-transformers folder
(`modules.json`), and a folder written by `SentenceEncoder.save_pretrained` whose pooling
sentence-transformers has no words for (`bertflow_jax.json`).
"""

import dataclasses
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertflow_jax.data.json_files import (
    read_json,
    read_json_object,
    read_json_object_if_present,
    write_json,
)
from bertflow_jax.encoder.pooling import PoolingSpec
from bertflow_jax.errors import ConfigError, UnsupportedModelError

OWN_SETTINGS = "bertflow_jax.json"

_ST_POOLINGS = {"cls_token": "cls", "mean_tokens": "mean", "max_tokens": "max"}


@dataclasses.dataclass(frozen=True)
class EncoderFolder:
    """An encoder folder.

    Attributes:
      path: the folder with config.json, weights and tokenizer.
      pooling: a name of `pooling`, or None where the folder names none.
      normalize: whether vectors are scaled to length 1.
      max_length: tokens a text, or None where the folder sets none.
      lower_first: whether texts are lower-cased before the tokenizer sees them.
    """

    path: Path
    pooling: str | None = None
    normalize: bool = False
    max_length: int | None = None
    lower_first: bool = False


def read_folder(folder: Path) -> EncoderFolder:
    """Recognise the layout of a folder and read its settings.

    Raises UnsupportedModelError naming a module this package does not compute (a Dense layer, a
    pooling over several modes), ConfigError for files that contradict themselves.
    """
    if (folder / OWN_SETTINGS).exists():
        return _read_own(folder)
    if (folder / "modules.json").exists():
        return _read_sentence_transformers(folder)
    return EncoderFolder(folder)


def _read_own(folder: Path) -> EncoderFolder:
    fields = read_json_object(folder / OWN_SETTINGS)
    names = {field.name for field in dataclasses.fields(EncoderFolder)} - {"path"}
    if set(fields) != names:
        raise ConfigError(f"{folder / OWN_SETTINGS}: fields {sorted(names)} are expected")
    return EncoderFolder(folder, **fields)


def _read_sentence_transformers(folder: Path) -> EncoderFolder:
    modules = _modules(folder)
    kinds = [kind for kind, _ in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        known = ("Transformer", "Pooling", "Normalize")
        other = [kind for kind in kinds if kind not in known] or [" -> ".join(kinds)]
        raise UnsupportedModelError(
            f"{folder / 'modules.json'}: module {other[0]} is not supported; a Transformer, a "
            "Pooling and perhaps a Normalize are"
        )
    transformer, pooling = modules[0][1], modules[1][1]
    settings = read_json_object_if_present(transformer / "sentence_bert_config.json")
    general = read_json_object_if_present(folder / "config_sentence_transformers.json")
    if general.get("default_prompt_name"):
        warnings.warn(
            f"{folder}: its default prompt {general['default_prompt_name']!r} is not applied; "
            "put it before your texts",
            stacklevel=2,
        )
    return EncoderFolder(
        transformer,
        pooling=_st_pooling(pooling / "config.json"),
        normalize=kinds[-1] == "Normalize",
        max_length=_st_max_length(settings, transformer),
        lower_first=bool(settings.get("do_lower_case", False)),
    )


def _modules(folder: Path) -> list[tuple[str, Path]]:
    """Return (kind, folder) of every module of a modules.json."""
    path = folder / "modules.json"
    entries = read_json(path)
    if not isinstance(entries, list):
        raise ConfigError(f"{path}: a list of modules is expected")
    modules = []
    for entry in entries:
        words = [entry.get("type"), entry.get("path")] if isinstance(entry, dict) else [None]
        if not all(isinstance(word, str) and "\0" not in word for word in words):
            raise ConfigError(f"{path}: every module needs a type and a path")
        place = Path(entry["path"])
        if place.is_absolute() or ".." in place.parts:
            raise ConfigError(f"{path}: module path {entry['path']!r} leaves the folder")
        modules.append((entry["type"].rpartition(".")[2], folder / place))
    return modules


def _st_pooling(path: Path) -> str:
    fields = read_json_object(path)
    mode = fields.get("pooling_mode")
    if mode is None:
        modes = [
            name.removeprefix("pooling_mode_")
            for name, on in fields.items()
            if name.startswith("pooling_mode_") and on
        ]
    else:
        modes = [str(m) for m in (mode if isinstance(mode, list) else [mode])]
    names = [_ST_POOLINGS.get(m, m) for m in modes]
    if len(names) != 1 or names[0] not in _ST_POOLINGS.values():
        raise UnsupportedModelError(
            f"{path}: pooling {' + '.join(modes) or 'none'} is not supported; one of cls, mean "
            "and max is. Pass pooling= to replace it"
        )
    return names[0]


def _st_max_length(settings: Mapping[str, Any], folder: Path) -> int | None:
    value = settings.get("max_seq_length")
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 3):
        raise ConfigError(f"{folder}/sentence_bert_config.json: max_seq_length={value!r}")
    return value


def write_folder_settings(
    folder: EncoderFolder, spec: PoolingSpec, num_layers: int, hidden_size: int
) -> None:
    """Write the settings into `folder.path`, for sentence-transformers where it has the words.

    Args:
      folder: the settings; its pooling name is replaced by `spec`.
      spec: the pooling.
      num_layers: L of the encoder.
      hidden_size: D of the encoder.
    """
    # An older save may have used the other layout, which would be believed.
    for stale in (OWN_SETTINGS, "modules.json", "sentence_bert_config.json"):
        (folder.path / stale).unlink(missing_ok=True)
    if spec.layers != (num_layers,) or spec.tokens == "pooler":
        fields = dataclasses.asdict(dataclasses.replace(folder, pooling=str(spec)))
        write_json(folder.path / OWN_SETTINGS, {k: v for k, v in fields.items() if k != "path"})
        return
    kinds = ["Transformer", "Pooling", *(["Normalize"] if folder.normalize else [])]
    modules = []
    for i, kind in enumerate(kinds):
        place = "" if i == 0 else f"{i}_{kind}"
        (folder.path / place).mkdir(exist_ok=True)
        kind = f"sentence_transformers.models.{kind}"
        modules.append({"idx": i, "name": str(i), "path": place, "type": kind})
    write_json(folder.path / "modules.json", modules)
    pooling = {f"pooling_mode_{st}": ours == spec.tokens for st, ours in _ST_POOLINGS.items()}
    write_json(
        folder.path / "1_Pooling" / "config.json",
        {"word_embedding_dimension": hidden_size, **pooling},
    )
    write_json(
        folder.path / "sentence_bert_config.json",
        {"max_seq_length": folder.max_length, "do_lower_case": folder.lower_first},
    )
