"""The Hugging Face Hub: how it is reached and what is fetched; `hub_errors` explains its errors.

A token is handed to huggingface_hub and to nothing else: no repr, error text or log holds one.
huggingface_hub is imported inside the functions: it takes as long to load as an encoder's modules.
"""

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path

from bertflow_jax.checks import check_switch
from bertflow_jax.errors import DataNotFoundError, InputError, shown
from bertflow_jax.hub_cache import bad_reference, check_revision, check_snapshot, reference
from bertflow_jax.hub_errors import (
    LOG_IN,
    broken_download,
    first_line,
    not_cached,
    refusal,
    status_of,
)
from bertflow_jax.paths import user_path


@dataclasses.dataclass(frozen=True)
class HubAccess:
    """How the Hub is reached.

    Attributes:
      token: a token; None takes HF_TOKEN or the stored one if there is one, True the same and fails
        without one, False sends none.
      cache_dir: folder of downloads; None takes the Hub's own (HF_HUB_CACHE, HF_HOME).
      local_files_only: take the cache and ask nobody, as HF_HUB_OFFLINE=1 does for a whole process.
    """

    token: str | bool | None = dataclasses.field(default=None, repr=False)
    cache_dir: str | os.PathLike[str] | None = None
    local_files_only: bool = False

    def __post_init__(self) -> None:
        """Refuse what huggingface_hub would trip over, or show in its own error.

        Raises:
          InputError: a token of another type, or with characters that no header can hold; a
            local_files_only that is not True or False.
          ConfigError: a cache_dir that is no path.
        """
        _check_token(self.token, "token")
        check_switch(self.local_files_only, "local_files_only")
        if self.cache_dir is not None:
            folder = user_path(self.cache_dir, "cache_dir", reading=False)
            if not os.fspath(self.cache_dir).strip():  # of which Path makes "."
                raise InputError("cache_dir is blank; name a folder, or leave it out")
            if os.path.isfile(folder):
                raise InputError(f"cache_dir={self.cache_dir} is a file; name a folder")

    @property
    def cache(self) -> str:
        """The folder of downloads."""
        from huggingface_hub import constants

        if self.cache_dir is None:
            return str(constants.HF_HUB_CACHE)
        return str(user_path(self.cache_dir, "cache_dir", reading=False))

    def checked_token(self) -> str | bool:
        """Return the token that is sent, False for none.

        Raises:
          InputError: there is none and `token` is True, or the stored one cannot be sent.
        """
        if isinstance(self.token, str) or self.token is False:
            return self.token
        from huggingface_hub import get_token

        found = get_token()
        _check_token(found, "HF_TOKEN, or the stored token,")
        if found is None and self.token is True:
            raise InputError(f"token=True, and no token is stored: {LOG_IN}")
        return found or False


def _check_token(token: object, name: str) -> None:
    if token is None or isinstance(token, bool):
        return
    # Its value is not shown: a token with one wrong character is still a secret.
    if not isinstance(token, str):
        raise InputError(f"{name} must be a str, True, False or None, not {type(token).__name__}")
    if not token or not all("!" <= character <= "~" for character in token):
        raise InputError(
            f"{name} is empty or holds a space, a line end or a letter that no token has; copy it "
            "again"
        )


def check_repo_id(repo_id: object, name: str) -> None:
    """Raise InputError unless a value has the form of a Hub id; `name` is the argument or flag."""
    from huggingface_hub import errors, utils

    if not isinstance(repo_id, str):
        raise InputError(f"{name}={shown(repo_id)}: must be a str such as 'you/your-model'")
    try:
        utils.validate_repo_id(repo_id)
    except errors.HFValidationError as error:
        raise InputError(f"{name}={shown(repo_id)} is no Hub id: {first_line(error)}") from None


def check_card_fields(
    license: str | None, language: Sequence[str] = (), base_model: str | None = None
) -> None:
    """Raise InputError for a licence, language or base model that no card can name."""
    if license is not None and not _matches(r"[a-z0-9][a-z0-9.+-]*", license):
        raise InputError(
            f"license={shown(license)}: one of the Hub's identifiers is needed, such as "
            "apache-2.0, mit, cc-by-4.0 or other"
        )
    for code in language:
        if not _matches(r"[a-z]{2,3}(-[A-Za-z0-9]+)*|code|multilingual", code):
            raise InputError(
                f"language={shown(code)}: an ISO 639 code is needed, such as en, or multilingual"
            )
    if base_model is not None:
        check_repo_id(base_model, "base_model")


def _matches(pattern: str, value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def fetch(
    repo: str, patterns: Sequence[str], revision: str | None = None, access: HubAccess | None = None
) -> Path:
    """Return the folder of a repository's files in the cache, brought up to date.

    Args:
      repo: Hub id.
      patterns: files, in which * also matches a slash.
      revision: branch, tag or commit; None is the main branch.
      access: token and cache.

    Raises:
      DataNotFoundError: it cannot be had; the text says why and what to do.
      DataError: a file in the cache is not what was downloaded.
      InputError: a token that cannot be sent, or a revision that is none.
    """
    from huggingface_hub import errors, snapshot_download

    access = access or HubAccess()
    check_revision(revision)
    token = access.checked_token()
    try:
        folder = snapshot_download(
            repo,
            revision=revision,
            token=token,
            cache_dir=access.cache,
            local_files_only=access.local_files_only,
            allow_patterns=list(patterns),
        )
    except errors.HFValidationError as error:
        raise DataNotFoundError(
            f"folder not found, and not a Hub id: {shown(repo)} ({first_line(error)})"
        ) from None
    except errors.LocalEntryNotFoundError as error:
        # Raised too when the Hub answered with an error and the cache has nothing.
        cause = error.__cause__
        if isinstance(cause, Exception) and status_of(cause) is not None:
            raise DataNotFoundError(refusal(repo, cause, revision)) from None
        commit = reference(repo, revision, access.cache)
        raise DataNotFoundError(
            not_cached(repo, revision, access.cache, access.local_files_only, commit)
        ) from None
    except errors.HfHubHTTPError as error:
        raise DataNotFoundError(refusal(repo, error, revision)) from None
    except UnicodeDecodeError:  # of the file below refs/
        raise bad_reference(repo, revision, access.cache) from None
    except (errors.HTTPError, OSError) as error:
        reference(repo, revision, access.cache)
        raise DataNotFoundError(broken_download(repo, error, access.cache, token)) from None
    found = Path(folder)
    check_snapshot(repo, revision, access.cache, found, patterns)
    return found
