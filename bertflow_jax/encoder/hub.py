"""From a path or a Hugging Face Hub id to a local folder.

The network is asked only for what cannot be a path: a name that starts with `.`, `~` or `/`, that
has more than one slash, or that exists as a folder is local. Nor is huggingface_hub, which takes
as long to load as the encoder's own modules, imported for a folder.
"""

import importlib.resources
import os
from pathlib import Path

from bertflow_jax.encoder.st_files import ST_TRANSFORMER
from bertflow_jax.errors import DataNotFoundError, InputError, shown
from bertflow_jax.hub_access import HubAccess, fetch
from bertflow_jax.hub_cache import check_revision
from bertflow_jax.paths import user_path

MINI_BERT = "mini_bert"

# At the top of an encoder's folder, besides its weights.
FOLDER_FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "modules.json",
    "config_sentence_transformers.json",
    *ST_TRANSFORMER,
    "bertflow_jax.json",
)
# Patterns of snapshot_download, in which * also matches a slash.
_SMALL_FILES = (
    *FOLDER_FILES,
    "postprocess/*.json",
    "postprocess/*.safetensors",
    "[0-9]*_*.json",
    "[0-9]*_*/vocab.txt",
)
_WEIGHTS = (
    ("model.safetensors", "model-*-of-*.safetensors"),
    ("flax_model.msgpack", "flax_model-*-of-*.msgpack"),
    ("pytorch_model.bin", "pytorch_model-*-of-*.bin"),
)


def resolve_folder(
    path_or_hub_id: str | os.PathLike[str],
    revision: str | None = None,
    *,
    token: str | bool | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    local_files_only: bool = False,
) -> Path:
    """Return the local folder of an encoder.

    Args:
      path_or_hub_id: `mini_bert` (the encoder that comes with the package), a folder, or a Hub id
        such as `google-bert/bert-base-uncased`, which is downloaded into the Hub's own cache.
      revision: branch, tag or commit of a Hub id.
      token: for the Hub, with cache_dir and local_files_only, see `HubAccess`; without effect for
        a folder.
      cache_dir: see token.
      local_files_only: see token.

    Raises DataNotFoundError for a missing folder or a Hub id that cannot be had, saying why,
    DataError for a file of the cache that is not what was downloaded, and InputError for arguments
    of the wrong form.
    """
    access = HubAccess(token, cache_dir, local_files_only)
    check_revision(revision)
    folder = user_path(path_or_hub_id, "encoder")
    name = os.fspath(path_or_hub_id)
    if not name.strip():
        raise InputError("the encoder's path is empty")
    if name == MINI_BERT:
        return Path(str(importlib.resources.files("bertflow_jax") / "models" / MINI_BERT))
    # Not Path.is_dir and Path.exists, which raise for a name that is too long.
    if os.path.isdir(folder):
        return folder
    if os.path.exists(folder):
        raise DataNotFoundError(f"{name} is a file; give the folder of the encoder")
    if not isinstance(path_or_hub_id, str) or looks_local(name):
        raise DataNotFoundError(f"folder not found: {name}")
    return _download(name, revision, access)


def check_encoder_name(name: str) -> None:
    """Raise for what is neither a folder that is there nor could be a Hub id; the Hub is not asked.

    Raises:
      InputError, DataNotFoundError: as `resolve_folder`.
    """
    folder = user_path(name, "encoder")
    if not name.strip() or name == MINI_BERT or os.path.exists(folder) or looks_local(name):
        resolve_folder(name)
        return
    from huggingface_hub import errors, utils

    try:
        utils.validate_repo_id(name)
    except errors.HFValidationError as error:
        raise DataNotFoundError(
            f"folder not found, and not a Hub id: {shown(name)} ({error})"
        ) from None


def looks_local(name: str) -> bool:
    """Return whether a name cannot be a Hub id, whether or not such a folder is there."""
    return name.startswith((".", "~")) or os.path.isabs(name) or name.count("/") > 1 or "\\" in name


def _download(repo: str, revision: str | None, access: HubAccess) -> Path:
    """Fetch the small files and one format of weights, the first of `_WEIGHTS` there is.

    `fetch` asks the Hub what is new, and takes the cache where the Hub is out of reach.
    """
    for whole, shards in _WEIGHTS:
        weights = [whole, f"{whole}.index.json", shards]
        patterns = [*_SMALL_FILES, *weights, *(f"[0-9]*_*/{name}" for name in weights)]
        folder = fetch(repo, patterns, revision, access)
        if any(folder.rglob(f"{whole}*")):
            break
    return folder
