"""The cache of the Hub as it lies on disk: which snapshot a revision is, and that it is whole.

    models--OWNER--NAME/refs/REVISION            the commit, as text
    models--OWNER--NAME/snapshots/COMMIT/FILE    a link to ../../blobs/DIGEST

huggingface_hub takes both at their word: it opens whatever folder the text leads to, and never
reads a blob again once it is there.
"""

import hashlib
import os
import re
import warnings
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from bertflow_jax.errors import BertFlowWarning, DataError, DataNotFoundError, InputError, shown

# Larger ones are weights: reading them twice takes seconds, and their formats tell of a cut.
_READ_AGAIN = 32 * 2**20
_NAMED = re.compile(r"[^\s~^:?*\[\\]{1,250}")  # as git names them
_REPEAT = "and load it once with the Hub in reach"


def check_revision(revision: object) -> None:
    """Raise InputError for what is neither None nor could be a branch, a tag or a commit.

    It becomes a part of an address and of a path in the cache, which `..` would lead out of.
    """
    if revision is None:
        return
    usable = (
        isinstance(revision, str)
        and _NAMED.fullmatch(revision)
        and revision.isprintable()
        and ".." not in revision
        and not {"", "."} & set(revision.split("/"))
    )
    if not usable:
        raise InputError(
            f"revision={shown(revision)}: must be a branch, a tag or a commit, as in main, v1 or "
            "refs/pr/1, or be left out"
        )


def _folder(repo: str, cache: str) -> Path:
    from huggingface_hub.file_download import repo_folder_name

    return Path(cache) / repo_folder_name(repo_id=repo, repo_type="model")


def bad_reference(repo: str, revision: str | None, cache: str) -> DataNotFoundError:
    """Return the error of a file below refs/ that does not name a commit."""
    path = _folder(repo, cache) / "refs" / (revision or "main")
    return DataNotFoundError(
        f"Hub id {repo!r}: {path} names no commit; delete it {_REPEAT}, or name a commit as the "
        "revision"
    )


def reference(repo: str, revision: str | None, cache: str) -> str | None:
    """Return the commit that the cache has for a branch or a tag, None where it has none.

    Raises:
      DataNotFoundError: what is there cannot be read as text.
    """
    path = _folder(repo, cache) / "refs" / (revision or "main")
    if not os.path.lexists(path):
        return None
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError):  # a folder, a link to nowhere, bytes that are no UTF-8
        raise bad_reference(repo, revision, cache) from None


def check_snapshot(
    repo: str, revision: str | None, cache: str, folder: Path, patterns: Sequence[str]
) -> None:
    """Raise where a folder is not a snapshot of a repository, or holds other than was downloaded.

    Args:
      repo: Hub id.
      revision: that was asked for.
      cache: the folder of downloads.
      folder: that huggingface_hub says has the files.
      patterns: the files that matter, in which * also matches a slash.

    Raises:
      DataNotFoundError: the folder is another one, which a damaged file below refs/ led to.
      DataError: a file is not what its digest says.
    """
    # huggingface_hub resolves the folder of downloads, which may be relative or a link.
    own = [_folder(repo, place) / "snapshots" for place in (cache, os.path.realpath(cache))]
    if folder.parent not in own or folder.name == "..":
        raise bad_reference(repo, revision, cache)
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() and any(fnmatchcase(name, pattern) for pattern in patterns):
            _check_blob(repo, path)


def tell_unknown_modules(folder: Path, local_files_only: bool) -> None:
    """Warn where nobody can know whether a cached encoder has a modules.json, and so a pooling.

    transformers fetches none. huggingface_hub notes what a repository holds (`trees`, in newer
    versions), and what it lacks of the files that were asked for (`.no_exist`).

    Args:
      folder: of an encoder; one outside a cache says all that there is.
      local_files_only: whether the Hub was not asked.
    """
    cache, commit, name = folder.parent.parent, folder.name, "modules.json"
    if folder.parent.name != "snapshots" or os.path.lexists(folder / name):
        return
    known = (cache / "trees" / f"{commit}.json", cache / ".no_exist" / commit / name)
    if any(os.path.isfile(path) for path in known):
        return
    from huggingface_hub import constants

    if local_files_only or constants.HF_HUB_OFFLINE:
        warnings.warn(
            f"{folder}: {name} is not among the downloaded files, and nothing says that the "
            "repository has none: pooling by the mean may not be its own; name a pooling, or load "
            "it once with the Hub in reach",
            BertFlowWarning,
            stacklevel=3,
        )


def _check_blob(repo: str, path: Path) -> None:
    """Raise DataError where the content behind a link has not the digest that it is named after."""
    blob = path.parent / os.readlink(path)
    if blob.parent.name != "blobs" or not blob.is_file() or blob.stat().st_size > _READ_AGAIN:
        return  # what is missing or no file is told by what reads it
    content = blob.read_bytes()
    if re.fullmatch("[0-9a-f]{64}", blob.name):  # of git-lfs
        found = {hashlib.sha256(content).hexdigest()}
    elif re.fullmatch("[0-9a-f]{40}", blob.name):  # of git; a mirror's are plain
        git = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
        found = {git.hexdigest(), hashlib.sha1(content, usedforsecurity=False).hexdigest()}
    else:
        return
    if blob.name not in found:
        raise DataError(
            f"Hub id {repo!r}: {path} is damaged: its content is not what was downloaded; delete "
            f"{Path(os.path.normpath(blob))} {_REPEAT}"
        )
