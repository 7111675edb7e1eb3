"""From a path or a Hugging Face Hub id to a local folder.

The network is asked only for what cannot be a path: a name that starts with `.`, `~` or `/`, that
has more than one slash, or that exists as a folder is local. Nor is huggingface_hub, which takes
as long to load as the encoder's own modules, imported for a folder.
"""

import importlib.resources
import os
from pathlib import Path

from bertflow_jax.errors import DataNotFoundError, InputError
from bertflow_jax.paths import user_path

MINI_BERT = "mini_bert"

# Patterns of snapshot_download, in which * also matches a slash.
_SMALL_FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "modules.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    "bertflow_jax.json",
    "postprocess/*.json",
    "postprocess/*.safetensors",
    "[0-9]_*.json",
    "[0-9]_*/vocab.txt",
)
_WEIGHTS = (
    ("model.safetensors", "model-*-of-*.safetensors"),
    ("flax_model.msgpack", "flax_model-*-of-*.msgpack"),
    ("pytorch_model.bin", "pytorch_model-*-of-*.bin"),
)


def resolve_folder(path_or_hub_id: str | os.PathLike[str], revision: str | None = None) -> Path:
    """Return the local folder of an encoder.

    Args:
      path_or_hub_id: `mini_bert` (the encoder that comes with the package), a folder, or a Hub id
        such as `google-bert/bert-base-uncased`, which is downloaded into the Hub's own cache.
      revision: branch, tag or commit of a Hub id.

    Raises DataNotFoundError for a missing folder or a Hub id that cannot be had, saying why.
    """
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
    if not isinstance(path_or_hub_id, str) or _looks_local(name):
        raise DataNotFoundError(f"folder not found: {name}")
    return _download(name, revision)


def check_encoder_name(name: str) -> None:
    """Raise for what is neither a folder that is there nor could be a Hub id; the Hub is not asked.

    Raises:
      InputError, DataNotFoundError: as `resolve_folder`.
    """
    folder = user_path(name, "encoder")
    if not name.strip() or name == MINI_BERT or os.path.exists(folder) or _looks_local(name):
        resolve_folder(name)
        return
    from huggingface_hub import errors, utils

    try:
        utils.validate_repo_id(name)
    except errors.HFValidationError as error:
        raise DataNotFoundError(f"folder not found, and not a Hub id: {name!r} ({error})") from None


def _looks_local(name: str) -> bool:
    return name.startswith((".", "~")) or os.path.isabs(name) or name.count("/") > 1 or "\\" in name


def _download(repo: str, revision: str | None) -> Path:
    """Fetch the small files and one format of weights, the first of `_WEIGHTS` there is.

    snapshot_download asks the Hub what is new, and takes the cache where the Hub is out of reach.
    """
    from huggingface_hub import constants, errors, snapshot_download

    try:
        for whole, shards in _WEIGHTS:
            weights = [whole, f"{whole}.index.json", shards]
            patterns = [*_SMALL_FILES, *weights, *(f"[0-9]_*/{name}" for name in weights)]
            folder = Path(snapshot_download(repo, revision=revision, allow_patterns=patterns))
            if any(folder.rglob(f"{whole}*")):
                break
        return folder
    except errors.HFValidationError as error:
        raise DataNotFoundError(f"folder not found, and not a Hub id: {repo!r} ({error})") from None
    except errors.RevisionNotFoundError:
        raise DataNotFoundError(f"Hub id {repo!r} has no revision {revision!r}") from None
    except errors.LocalEntryNotFoundError as error:
        # Raised too when the Hub answered with an error and the cache has nothing.
        if isinstance(error.__cause__, errors.HfHubHTTPError):
            raise _refused(repo, error.__cause__.response.status_code) from None
        raise _not_cached(repo) from None
    except errors.HfHubHTTPError as error:
        raise _refused(repo, error.response.status_code) from None
    except (errors.HTTPError, OSError) as error:
        raise DataNotFoundError(
            f"Hub id {repo!r}: {constants.ENDPOINT} failed ({type(error).__name__}: {error})"
        ) from None


def _not_cached(repo: str) -> DataNotFoundError:
    from huggingface_hub import constants

    why = (
        "HF_HUB_OFFLINE is set"
        if constants.HF_HUB_OFFLINE
        else f"{constants.ENDPOINT} cannot be reached"
    )
    return DataNotFoundError(
        f"Hub id {repo!r}: {why}, and it is not complete in the cache {constants.HF_HUB_CACHE}; "
        "go online once, or give a local folder"
    )


def _refused(repo: str, status: int) -> DataNotFoundError:
    """Explain a refusal; the Hub answers 401 for gated, private and absent repositories alike."""
    from huggingface_hub import constants

    if status in (401, 403, 404):
        why = (
            "it does not exist, is private or is gated; check the spelling, and if you have "
            "access, log in with `hf auth login` or set HF_TOKEN"
        )
    else:
        why = "try again later"
    return DataNotFoundError(f"Hub id {repo!r}: {constants.ENDPOINT} answered {status}: {why}")
