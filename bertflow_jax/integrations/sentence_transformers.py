"""Folders that sentence-transformers loads: an encoder and what is done to its vectors.

    Transformer -> Pooling -> [Normalize] -> [Dense | BertFlow]*

Affine post-processors that follow each other are one Dense. What sentence-transformers has no
module for (a flow, a pooling of several layers) is a class of `bertflow_modules.py`, which is
copied into the folder and which it runs only with trust_remote_code=True. This package never runs
a file of a folder: it reads bertflow_jax.json and the post-processor's own files in `postprocess`.

Nothing here needs sentence-transformers or PyTorch.
"""

import hashlib
import importlib.resources
import logging
from pathlib import Path

from safetensors import SafetensorError

from bertflow_jax import postprocess
from bertflow_jax.array_files import read_safetensors
from bertflow_jax.data.json_files import read_json, read_json_object, write_json
from bertflow_jax.digests import tree_digest
from bertflow_jax.encoder.folder import (
    OWN_SETTINGS,
    POSTPROCESS,
    ST_MODULES,
    EncoderFolder,
    module_folder,
    read_folder,
    st_has_pooling,
    write_own_settings,
    write_st_modules,
    write_st_pooling,
)
from bertflow_jax.encoder.origin import check_origin
from bertflow_jax.encoder.pretrained import Encoder, save_encoder
from bertflow_jax.encoder.st_files import ST_TRANSFORMER
from bertflow_jax.errors import (
    CheckpointError,
    ConfigError,
    InputError,
    WorkdirError,
    shown,
)
from bertflow_jax.integrations.folder_names import CARD, CODE
from bertflow_jax.integrations.model_card import Card, has_other_card, remove_card, write_card
from bertflow_jax.integrations.saved_with import check_encoder, encoder_record, origin_of
from bertflow_jax.integrations.st_modules import Module, layer_pooling, processor_modules
from bertflow_jax.paths import file_sha256
from bertflow_jax.postprocess.base import PostProcessor, PureTransform
from bertflow_jax.postprocess.known_encoder import known_for
from bertflow_jax.postprocess.storage import DAMAGE, remove_saved
from bertflow_jax.staging import files_together
from bertflow_jax.weight_output import write_safetensors

_log = logging.getLogger(__name__)
_ENCODER = "encoder"  # its key beside the digests of the post-processor
_WITH_WEIGHTS = ("Dense", "LayerPooling", "BertFlow")  # modules that `save_folder` writes


def save_folder(
    encoder: Encoder, processor: PostProcessor | None, folder: Path, card: Card | None = None
) -> None:
    """Write an encoder and its post-processor into a folder that is there.

    An older save in it is replaced once the new one is complete.

    Args:
      encoder: what is written.
      processor: what is done to its vectors.
      folder: where to.
      card: of README.md; None writes one only where sentence-transformers runs code.

    Raises:
      InputError: a post-processor of a kind that no module can say, or no card.
      WorkdirError: a file cannot be written.
    """
    if not isinstance(card, Card | None):
        raise InputError(f"card={shown(card)}: must be a model_card.Card, or None")
    plain = st_has_pooling(encoder.pooling, encoder.config.num_hidden_layers)
    modules = [] if plain else [layer_pooling(encoder)]
    if encoder.normalize:
        modules.append(Module(f"{ST_MODULES}Normalize"))
    if processor is not None:
        modules += processor_modules(processor)
    try:
        with files_together(folder, lambda: _clear(folder)) as new:
            save_encoder(encoder, new)
            if not plain or processor is not None:
                _write(encoder, modules, processor, new)
            code = code_of(new)
            if card is not None:
                write_card(new, card, code)
            if has_other_card(folder):
                (new / CARD).unlink(missing_ok=True)
    except (OSError, SafetensorError) as error:
        raise WorkdirError(f"{folder} cannot be written: {error}") from error
    if code:
        _log.warning(
            "%s holds code, %s, for %s: sentence-transformers loads the folder only with "
            "trust_remote_code=True; SentenceEncoder.from_pretrained does not run it",
            folder,
            CODE,
            " and ".join(code),
        )


def load_postprocess(folder: Path, encoder: Encoder) -> PostProcessor:
    """Read the post-processor that `save_folder` wrote into a folder.

    No file of the folder is executed, and no path that one names is followed.

    Args:
      folder: that was saved.
      encoder: as loaded from it, with its own pooling.

    Raises:
      DataNotFoundError: its files are missing.
      CheckpointError: a file is damaged, or is not the one that was saved; the encoder is another.
      ConfigError: bertflow_jax.json does not say what it should.
      InputError: as `check_origin`, of a folder that an older version wrote.
    """
    path = folder / OWN_SETTINGS
    said = read_json_object(path).get(POSTPROCESS)
    if not isinstance(said, dict) or set(said) - {_ENCODER} != {"sha256", "modules_sha256"}:
        raise ConfigError(f"{path}: {POSTPROCESS} must hold sha256 and modules_sha256")
    saved_with = said.get(_ENCODER)
    if not isinstance(saved_with, dict | None):
        raise ConfigError(f"{path}: {_ENCODER} of {POSTPROCESS} must be an object")
    check_encoder(folder, saved_with, encoder, read_folder(folder))
    processor = postprocess.load(folder / POSTPROCESS)
    if tree_digest(processor.pure().params) != said["sha256"]:
        raise CheckpointError(
            f"{folder / POSTPROCESS} is not the post-processor that {path} was written for; save "
            "the encoder again, or give pooling to load it without"
        )
    try:
        # Older versions took the digest of the files, which sentence-transformers writes anew.
        digest = _modules_digest(folder, of_files=saved_with is None)
    except DAMAGE as error:
        raise CheckpointError(
            f"{folder}: the weights of its modules cannot be read ({error}); save the encoder again"
        ) from error
    if digest != said["modules_sha256"]:
        raise CheckpointError(
            f"{folder}: the weights of its modules ({', '.join(_WITH_WEIGHTS)}) are not those "
            f"that were saved with {POSTPROCESS}, so sentence-transformers would give other "
            "vectors; save the encoder again, or give pooling to load it without its post-processor"
        )
    if saved_with is None:
        check_origin(processor, encoder)  # a run's flow knows more than such a folder
        return processor
    # Older versions noted the encoder in bertflow_jax.json alone.
    return known_for(processor, origin_of(saved_with))


def code_of(folder: Path) -> list[str]:
    """Return the classes of bertflow_modules.py that a folder's modules.json names, each once."""
    entries = read_json(folder / "modules.json")
    kinds = [entry["type"] for entry in entries if entry["type"].startswith(Path(CODE).stem)]
    return list(dict.fromkeys(kind.rpartition(".")[2] for kind in kinds))


def check_unchanged(pure: PureTransform, processor: PostProcessor | None) -> None:
    """Raise InputError unless a post-processor still is what the encoder computes."""
    if processor is None:
        raise InputError(
            f"save_pretrained needs the {pure.name} itself, which with_postprocess takes; this "
            "encoder was made from its function alone"
        )
    if tree_digest(processor.pure().params) != tree_digest(pure.params):
        raise InputError(
            f"the {pure.name} was fitted again after with_postprocess, so that this encoder no "
            "longer computes it: call with_postprocess again"
        )


def _write(
    encoder: Encoder, modules: list[Module], processor: PostProcessor | None, folder: Path
) -> None:
    settings = EncoderFolder(
        folder,
        normalize=encoder.normalize,
        max_length=encoder.tokenizer.max_length,
        lower_first=encoder.lower_first,
    )
    kinds = [f"{ST_MODULES}Transformer"]
    if st_has_pooling(encoder.pooling, encoder.config.num_hidden_layers):
        hidden = encoder.config.hidden_size
        write_st_pooling(folder, encoder.pooling, hidden, encoder.usage.include_prompt)
        kinds.append(f"{ST_MODULES}Pooling")
    else:
        config = read_json_object(folder / "config.json")
        write_json(folder / "config.json", {**config, "output_hidden_states": True})
    for number, module in enumerate(modules, len(kinds)):
        place = folder / module_folder(number, module.kind)
        place.mkdir(exist_ok=True)
        write_json(place / "config.json", dict(module.config))
        if module.arrays:
            write_safetensors(place / "model.safetensors", module.arrays, {"format": "pt"})
    named = (module.kind.rpartition(".")[2] for module in modules if module.is_code)
    code = list(dict.fromkeys(named))
    if code:
        (folder / CODE).write_bytes((importlib.resources.files(__package__) / CODE).read_bytes())
    saved = None
    if processor is not None:
        record = encoder_record(encoder, settings)
        # Taken out of the folder, it must not go beside another encoder.
        known_for(processor, origin_of(record)).save(folder / POSTPROCESS)
        digest = tree_digest(processor.pure().params)
        others = _modules_digest(folder)
        saved = {"sha256": digest, "modules_sha256": others, _ENCODER: record}
    write_card(folder, Card(encoder, processor), code)
    write_own_settings(settings, encoder.pooling, saved)
    write_st_modules(settings, [*kinds, *(module.kind for module in modules)])


def _clear(folder: Path) -> None:
    """Remove what an older save may have left, the descriptions first: no mixture can be loaded."""
    settings = (*ST_TRANSFORMER, "config_sentence_transformers.json")
    for name in ("modules.json", OWN_SETTINGS, CODE, *settings):
        (folder / name).unlink(missing_ok=True)
    remove_card(folder)
    remove_saved(folder / POSTPROCESS)
    for path in _weight_files(folder):
        path.unlink()


def _modules_digest(folder: Path, of_files: bool = False) -> str:
    """Return the sha256 of the weights of every module but the first."""
    total = hashlib.sha256()
    for path in _weight_files(folder):
        digest = file_sha256(path) if of_files else tree_digest(read_safetensors(path))
        total.update(f"{path.parent.name} {digest}\n".encode())
    return total.hexdigest()


def _weight_files(folder: Path) -> list[Path]:
    found = (folder.glob(f"[0-9]*_{kind}/model.safetensors") for kind in _WITH_WEIGHTS)
    return sorted(path for paths in found for path in paths)
