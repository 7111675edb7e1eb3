"""What an encoder folder says besides its weights: pooling, maximum length, normalisation.

Three layouts: a plain Hugging Face folder (nothing said), a sentence-transformers folder
(`modules.json`), and a folder written by `SentenceEncoder.save_pretrained` whose pooling or
post-processor its `modules.json` can only name as code (`bertflow_jax.json`, which is then the one
that is read here: the code is for sentence-transformers).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from bertflow_jax.data.json_files import (
    is_there,
    read_json_object,
    read_json_object_if_present,
    write_json,
)
from bertflow_jax.encoder.pooling import PoolingSpec
from bertflow_jax.encoder.st_files import (
    ST_POOLINGS,
    ST_TRANSFORMER,
    read_modules,
    refuse_other_types,
    st_pooling,
    transformer_settings,
)
from bertflow_jax.errors import ConfigError, UnsupportedModelError

OWN_SETTINGS = "bertflow_jax.json"
POSTPROCESS = "postprocess"  # its key in OWN_SETTINGS, and the subfolder that holds it
ST_MODULES = "sentence_transformers.models."  # every version since 2 finds the classes there


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

    Raises:
      UnsupportedModelError: a CrossEncoder, a SparseEncoder and the like, or a module this package
        does not compute (a Dense layer, a pooling over several modes), which is named.
      ConfigError: files that contradict themselves.
    """
    refuse_other_types(folder)
    if is_there(folder / OWN_SETTINGS):
        return _read_own(folder)
    if is_there(folder / "modules.json"):
        return _read_sentence_transformers(folder)
    if is_there(folder / "1_Pooling"):
        raise ConfigError(
            f"{folder / 'modules.json'} is missing, but 1_Pooling is there: nothing says which "
            "modules follow the encoder. Copy it too, or delete 1_Pooling for the encoder alone"
        )
    return EncoderFolder(folder)


def _read_own(folder: Path) -> EncoderFolder:
    fields = read_json_object(folder / OWN_SETTINGS)
    fields.pop(POSTPROCESS, None)  # `integrations.sentence_transformers` reads that
    names = {field.name for field in dataclasses.fields(EncoderFolder)} - {"path"}
    if set(fields) != names:
        raise ConfigError(f"{folder / OWN_SETTINGS}: fields {sorted(names)} are expected")
    path = folder / OWN_SETTINGS
    for name in ("normalize", "lower_first"):
        _require_switch(fields[name], name, path)
    _require_length(fields["max_length"], "max_length", path)
    if not isinstance(fields["pooling"], str):
        raise ConfigError(f"{path}: pooling={fields['pooling']!r} must be a name")
    return EncoderFolder(folder, **fields)


def _require_switch(value: object, name: str, path: Path) -> bool:
    """Return a true or false; a word such as "false" would count as true."""
    if not isinstance(value, bool):
        raise ConfigError(f"{path}: {name}={value!r} must be true or false")
    return value


def _require_length(value: object, name: str, path: Path) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 3:
        raise ConfigError(
            f"{path}: {name}={value!r} must be an integer >= 3 ([CLS], a token, [SEP]), or null"
        )
    return value


def has_postprocess(folder: Path) -> bool:
    """Return whether a post-processor was saved with the encoder of a folder."""
    return read_json_object_if_present(folder / OWN_SETTINGS).get(POSTPROCESS) is not None


def _read_sentence_transformers(folder: Path) -> EncoderFolder:
    modules = read_modules(folder)
    kinds = [kind for kind, _ in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        known = ("Transformer", "Pooling", "Normalize")
        other = [kind for kind in kinds if kind not in known] or [" -> ".join(kinds)]
        raise UnsupportedModelError(
            f"{folder / 'modules.json'}: module {other[0]} is not supported; a Transformer, a "
            "Pooling and perhaps a Normalize are"
        )
    transformer, pooling = modules[0][1], modules[1][1]
    settings, path = transformer_settings(transformer)
    lower_first = settings.get("do_lower_case")
    return EncoderFolder(
        transformer,
        pooling=st_pooling(pooling / "config.json"),
        normalize=kinds[-1] == "Normalize",
        max_length=_require_length(settings.get("max_seq_length"), "max_seq_length", path),
        lower_first=_require_switch(
            False if lower_first is None else lower_first, "do_lower_case", path
        ),
    )


def write_folder_settings(
    folder: EncoderFolder,
    spec: PoolingSpec,
    num_layers: int,
    hidden_size: int,
    include_prompt: bool = True,
) -> None:
    """Write the settings into `folder.path`, for sentence-transformers where it has the words.

    Args:
      folder: the settings; its pooling name is replaced by `spec`.
      spec: the pooling.
      num_layers: L of the encoder.
      hidden_size: D of the encoder.
      include_prompt: see `usage.Usage`.
    """
    # An older save may have used the other layout, which would be believed.
    for stale in (OWN_SETTINGS, "modules.json", *ST_TRANSFORMER):
        (folder.path / stale).unlink(missing_ok=True)
    if not st_has_pooling(spec, num_layers):
        write_own_settings(folder, spec)
        return
    kinds = ["Transformer", "Pooling", *(["Normalize"] if folder.normalize else [])]
    write_st_pooling(folder.path, spec, hidden_size, include_prompt)
    write_st_modules(folder, [ST_MODULES + kind for kind in kinds])


def st_has_pooling(spec: PoolingSpec, num_layers: int) -> bool:
    """Return whether sentence-transformers' own Pooling module can say the same."""
    return spec.layers == (num_layers,) and spec.tokens != "pooler"


def write_own_settings(
    folder: EncoderFolder, spec: PoolingSpec, postprocess: Mapping[str, object] | None = None
) -> None:
    """Write bertflow_jax.json, with what is known of the post-processor beside it."""
    fields = dataclasses.asdict(dataclasses.replace(folder, pooling=str(spec)))
    del fields["path"]
    if postprocess is not None:
        fields[POSTPROCESS] = dict(postprocess)
    write_json(folder.path / OWN_SETTINGS, fields)


def write_st_pooling(
    folder: Path, spec: PoolingSpec, hidden_size: int, include_prompt: bool = True
) -> None:
    """Write the folder of sentence-transformers' Pooling module, which comes second."""
    (folder / "1_Pooling").mkdir(exist_ok=True)
    pooling = {f"pooling_mode_{st}": ours == spec.tokens for st, ours in ST_POOLINGS.items()}
    write_json(
        folder / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": hidden_size,
            **pooling,
            **({} if include_prompt else {"include_prompt": False}),
        },
    )


def write_st_modules(folder: EncoderFolder, types: Sequence[str]) -> None:
    """Write modules.json, and the tokens and the lower-casing of its Transformer.

    Args:
      folder: the settings.
      types: the class of every module, in order; number i lies in the folder `module_folder`.
    """
    modules = []
    for i, kind in enumerate(types):
        place = "" if i == 0 else module_folder(i, kind)
        (folder.path / place).mkdir(exist_ok=True)
        modules.append({"idx": i, "name": str(i), "path": place, "type": kind})
    write_json(
        folder.path / ST_TRANSFORMER[0],
        {"max_seq_length": folder.max_length, "do_lower_case": folder.lower_first},
    )
    write_json(folder.path / "modules.json", modules)


def module_folder(number: int, kind: str) -> str:
    """Return the name of a module's folder: `1_Pooling`."""
    return f"{number}_{kind.rpartition('.')[2]}"
