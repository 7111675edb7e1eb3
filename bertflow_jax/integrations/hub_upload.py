"""Folders as repositories of the Hugging Face Hub.

A push is one commit: it adds the files of the folder and removes those of an older push that the
folder no longer has, so that nobody loads a mixture. What others put into the repository stays,
a README.md of their own too.
"""

import dataclasses
import logging
import os
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from bertflow_jax.checks import check_switch
from bertflow_jax.encoder.hub import FOLDER_FILES
from bertflow_jax.errors import HubError, InputError, shown
from bertflow_jax.hub_access import HubAccess, check_repo_id
from bertflow_jax.hub_cache import check_revision
from bertflow_jax.hub_errors import LOG_IN, upload_error
from bertflow_jax.integrations.folder_names import CARD, CODE, is_ours
from bertflow_jax.paths import user_path
from bertflow_jax.version import __version__

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_log = logging.getLogger(__name__)
# Of a post-processor by itself, as patterns in which * also matches a slash.
PROCESSOR_FILES: tuple[str, ...] = (
    "compose.json",
    "flow_config.json",
    "flow.safetensors",
    "postprocess.json",
    "postprocess.safetensors",
)
PROCESSOR_FILES += tuple(f"[0-9]*/{name}" for name in PROCESSOR_FILES)
# Of everything that a save writes.
_WRITTEN = (
    *FOLDER_FILES,
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*-of-*.safetensors",
    CODE,
    "postprocess/*",
    *(f"[0-9]*_{k}/*" for k in ("Pooling", "LayerPooling", "Normalize", "Dense", "BertFlow")),
    *PROCESSOR_FILES,
)


@dataclasses.dataclass(frozen=True)
class Target:
    """Where a push goes.

    Attributes:
      repo_id: OWNER/NAME; a name alone is of the token's user.
      token: with write access; None and True take HF_TOKEN or the stored one.
      private: of a new repository; None is as the owner's settings say.
      revision: branch to commit to, made from the main one where it is not there; None is main.
      commit_message: None says what was uploaded by which version.
      exist_ok: whether a repository that is there gets another commit.
    """

    repo_id: str
    token: str | bool | None = dataclasses.field(default=None, repr=False)
    private: bool | None = None
    revision: str | None = None
    commit_message: str | None = None
    exist_ok: bool = True

    def __post_init__(self) -> None:
        """Raise InputError or HubError for what cannot go anywhere; the Hub is not asked."""
        from huggingface_hub import constants

        check_repo_id(self.repo_id, "repo_id")
        check_revision(self.revision)
        if self.private is not None:
            check_switch(self.private, "private")
        check_switch(self.exist_ok, "exist_ok")
        if not isinstance(self.commit_message, str | None):
            raise InputError(f"commit_message={shown(self.commit_message)}: must be a str, or None")
        if constants.HF_HUB_OFFLINE:
            raise HubError(
                f"Hub id {self.repo_id!r}: HF_HUB_OFFLINE is set, so nothing is uploaded: unset it"
            )
        if self.send() is False:
            raise InputError(f"an upload to {self.repo_id!r} needs a token: {LOG_IN}")

    def send(self) -> str | bool:
        """Return the token that is sent, False for none."""
        return HubAccess(self.token).checked_token()

    def api(self) -> "HfApi":
        """Return the client that uploads."""
        from huggingface_hub import HfApi

        return HfApi(token=self.send(), library_name="bertflow_jax", library_version=__version__)

    def with_owner(self) -> "Target":
        """Return it with the token's user before a bare name; raises HubError."""
        if "/" in self.repo_id:
            return self
        from huggingface_hub import errors

        try:
            owner = self.api().whoami()["name"]
        except (errors.HTTPError, OSError) as error:
            raise upload_error(self.repo_id, error, self.send()) from None
        return dataclasses.replace(self, repo_id=f"{owner}/{self.repo_id}")


def push_folder(folder: str | os.PathLike[str], target: Target) -> str:
    """Upload a folder as one commit of a model repository; return the commit's URL.

    Hidden files stay behind.

    Raises:
      HubError: the Hub refuses it or cannot be reached; nothing was committed then.
    """
    from huggingface_hub import errors

    path, target = user_path(folder, "folder"), target.with_owner()
    try:
        return _commit(path, target)
    except (errors.HTTPError, OSError, ValueError, RuntimeError) as error:
        # An upload in a thread of huggingface_hub comes out as a RuntimeError from its cause.
        cause = error.__cause__ if isinstance(error, RuntimeError) else None
        found = cause if isinstance(cause, Exception) else error
        raise upload_error(target.repo_id, found, target.send(), target.revision) from None


def _commit(folder: Path, target: Target) -> str:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    api, repo = target.api(), target.repo_id
    api.create_repo(repo, private=target.private, exist_ok=target.exist_ok)
    if target.revision is not None:
        api.create_branch(repo, branch=target.revision, exist_ok=True)
    there = set(api.list_repo_files(repo, revision=target.revision))
    files = {
        file.relative_to(folder).as_posix(): file
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.name.startswith(".")
    }
    ours = CARD in there and _card_is_ours(api, target)
    if CARD in files and CARD in there and not ours:
        del files[CARD]
        _log.warning("%s has a %s of its own, which stays as it is", repo, CARD)
    # A post-processor by itself replaces no encoder that somebody else put there.
    replaced = _WRITTEN if ours or "config.json" in files else PROCESSOR_FILES
    stale = sorted(
        name
        for name in there - set(files)
        if any(fnmatchcase(name, pattern) for pattern in replaced)
    )
    info = api.create_commit(
        repo,
        [
            *(CommitOperationAdd(name, str(file)) for name, file in files.items()),
            *(CommitOperationDelete(name) for name in stale),
        ],
        commit_message=target.commit_message or f"Written by bertflow_jax {__version__}",
        revision=target.revision,
    )
    return str(info.commit_url)


def _card_is_ours(api: "HfApi", target: Target) -> bool:
    with tempfile.TemporaryDirectory(prefix="bertflow-card-") as cache:
        path = api.hf_hub_download(target.repo_id, CARD, revision=target.revision, cache_dir=cache)
        return is_ours(Path(path).read_text("utf-8", "replace"))
