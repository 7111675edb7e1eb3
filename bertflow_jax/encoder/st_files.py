"""What the files of a sentence-transformers folder say, in the words of its versions 2 to 6."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertflow_jax.data.json_files import (
    is_there,
    read_json,
    read_json_object,
    read_json_object_if_present,
)
from bertflow_jax.errors import ConfigError, UnsupportedModelError
from bertflow_jax.paths import can_be_path

# Its Transformer reads the first of these that is there.
ST_TRANSFORMER = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
# Fields of that file which go to `from_pretrained` of a part of the encoder, by their names of
# versions 2 to 5 and since, or to every call of the tokenizer.
_ST_ARGUMENTS = (
    *("model_args", "tokenizer_args", "config_args"),
    *("model_kwargs", "processor_kwargs", "config_kwargs", "processing_kwargs"),
)
# Those that change no number but by rounding.
_HARMLESS = {
    *("torch_dtype", "dtype", "attn_implementation", "low_cpu_mem_usage", "use_safetensors"),
    *("use_fast", "trust_remote_code"),
}
ST_POOLINGS = {"cls_token": "cls", "mean_tokens": "mean", "max_tokens": "max"}


def read_modules(folder: Path) -> list[tuple[str, Path]]:
    """Return (kind, folder) of every module of a modules.json; raises ConfigError."""
    path = folder / "modules.json"
    entries = read_json(path)
    if not isinstance(entries, list):
        raise ConfigError(f"{path}: a list of modules is expected")
    modules = []
    for entry in entries:
        words = [entry.get("type"), entry.get("path")] if isinstance(entry, dict) else [None]
        if not all(isinstance(word, str) and can_be_path(word) for word in words):
            raise ConfigError(f"{path}: every module needs a type and a path")
        place = Path(entry["path"])
        if place.is_absolute() or ".." in place.parts:
            raise ConfigError(f"{path}: module path {entry['path']!r} leaves the folder")
        package, _, name = entry["type"].rpartition(".")
        # A class of somebody else's may have the name of one that is known.
        theirs = package.partition(".")[0] == "sentence_transformers"
        modules.append((name if theirs else repr(entry["type"]), folder / place))
    return modules


def refuse_other_types(folder: Path) -> None:
    """Refuse what is no dense encoder.

    sentence-transformers makes one of it by mean pooling, with a warning; who wanted the sparse
    vectors or the scores of a reranker would not find out here.

    Raises:
      UnsupportedModelError: a model of another type than SentenceTransformer.
    """
    path = folder / "config_sentence_transformers.json"
    kind = read_json_object_if_present(path).get("model_type", "SentenceTransformer")
    if kind != "SentenceTransformer":
        raise UnsupportedModelError(
            f"{path}: model_type={kind!r}: only SentenceTransformer gives one vector a text; name "
            "such a model, or the encoder that this one was made from"
        )
    # Versions 4 and 5.
    said = read_json_object_if_present(folder / "config.json").get("sentence_transformers")
    if isinstance(said, dict) and "activation_fn" in said:
        raise UnsupportedModelError(
            f"{folder / 'config.json'}: sentence_transformers.activation_fn is of a CrossEncoder, "
            "which scores pairs and gives no vectors; name a dense model"
        )


def transformer_settings(folder: Path) -> tuple[dict[str, Any], Path]:
    """Return the settings of a Transformer's folder, and the file that they are from.

    Raises:
      UnsupportedModelError: arguments that decide on what other files than those we read say.
    """
    names = [name for name in ST_TRANSFORMER if is_there(folder / name)]
    path = folder / (names or ST_TRANSFORMER)[0]
    settings = read_json_object_if_present(path)
    _refuse_arguments(settings, path)
    return settings, path


def _refuse_arguments(settings: Mapping[str, object], path: Path) -> None:
    for name in _ST_ARGUMENTS:
        given = settings.get(name) or {}
        other = sorted(set(given) - _HARMLESS) if isinstance(given, dict) else [given]
        if other:
            raise UnsupportedModelError(
                f"{path}: {name} sets {', '.join(map(str, other))}, which is not supported: write "
                "it into config.json or tokenizer_config.json, and delete it here"
            )
    task = settings.get("transformer_task", "feature-extraction")
    if task != "feature-extraction":
        raise UnsupportedModelError(
            f"{path}: transformer_task={task!r} is not supported; feature-extraction is"
        )


def st_pooling(path: Path) -> str:
    """Return the name of a Pooling module, by its config.json; raises UnsupportedModelError."""
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
    names = [ST_POOLINGS.get(m, m) for m in modes]
    if len(names) != 1 or names[0] not in ST_POOLINGS.values():
        raise UnsupportedModelError(
            f"{path}: pooling {' + '.join(modes) or 'none'} is not supported; one of cls, mean "
            "and max is. Pass pooling= to replace it"
        )
    return names[0]
