"""The Hugging Face Hub: how it is reached, what is fetched, and its errors in sentences of ours.

A token is handed to huggingface_hub and to nothing else: no repr, error text or log holds one.
huggingface_hub is imported inside the functions: it takes as long to load as an encoder's modules.
"""

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path

from bertflow_jax.errors import BertFlowError, DataNotFoundError, HubError, InputError
from bertflow_jax.paths import user_path

LOG_IN = "log in with `hf auth login` or set HF_TOKEN"
_BAD_CARD = "Invalid metadata in README.md"  # of huggingface_hub's ValueError
_BAD_TOKEN = "Invalid credentials"  # of the Hub's header X-Error-Message


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
        if not isinstance(self.local_files_only, bool):
            raise InputError(f"local_files_only={self.local_files_only!r}: must be True or False")
        if self.cache_dir is not None:
            if not os.fspath(user_path(self.cache_dir, "cache_dir")).strip():
                raise InputError("cache_dir is blank; name a folder, or leave it out")
            if os.path.isfile(user_path(self.cache_dir, "cache_dir")):
                raise InputError(f"cache_dir={self.cache_dir} is a file; name a folder")

    @property
    def cache(self) -> str:
        """The folder of downloads."""
        from huggingface_hub import constants

        if self.cache_dir is None:
            return str(constants.HF_HUB_CACHE)
        return str(user_path(self.cache_dir, "cache_dir"))

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
        raise InputError(f"{name}={repo_id!r}: must be a str such as 'you/your-model'")
    try:
        utils.validate_repo_id(repo_id)
    except errors.HFValidationError as error:
        raise InputError(f"{name}={repo_id!r} is no Hub id: {_first_line(error)}") from None


def check_card_fields(
    license: str | None, language: Sequence[str] = (), base_model: str | None = None
) -> None:
    """Raise InputError for a licence, language or base model that no card can name."""
    if license is not None and not _matches(r"[a-z0-9][a-z0-9.+-]*", license):
        raise InputError(
            f"license={license!r}: one of the Hub's identifiers is needed, such as apache-2.0, "
            "mit, cc-by-4.0 or other"
        )
    for code in language:
        if not _matches(r"[a-z]{2,3}(-[A-Za-z0-9]+)*|code|multilingual", code):
            raise InputError(
                f"language={code!r}: an ISO 639 code is needed, such as en, or multilingual"
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
      InputError: a token that cannot be sent.
    """
    from huggingface_hub import errors, snapshot_download

    access = access or HubAccess()
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
            f"folder not found, and not a Hub id: {repo!r} ({_first_line(error)})"
        ) from None
    except errors.LocalEntryNotFoundError as error:
        # Raised too when the Hub answered with an error and the cache has nothing.
        cause = error.__cause__
        if isinstance(cause, errors.HfHubHTTPError):
            raise DataNotFoundError(refusal(repo, cause, revision)) from None
        raise DataNotFoundError(_not_cached(repo, revision, access)) from None
    except errors.HfHubHTTPError as error:
        raise DataNotFoundError(refusal(repo, error, revision)) from None
    except (errors.HTTPError, OSError) as error:
        raise DataNotFoundError(_broken(repo, error, access, token)) from None
    return Path(folder)


def _not_cached(repo: str, revision: str | None, access: HubAccess) -> str:
    from huggingface_hub import constants

    if access.local_files_only:
        why = "local_files_only is set"
    elif constants.HF_HUB_OFFLINE:
        why = "HF_HUB_OFFLINE is set"
    else:
        why = f"{constants.ENDPOINT} cannot be reached"
    what = "it" if revision is None else f"its revision {revision!r}"
    return (
        f"Hub id {repo!r}: {why}, and {what} is not complete in the cache {access.cache}; "
        "go online once, or give a local folder"
    )


def refusal(repo: str, error: Exception, revision: str | None = None) -> str:
    """Explain an HfHubHTTPError in one sentence that names the repository and what to do.

    The Hub answers 401 for private and absent repositories alike.
    """
    from huggingface_hub import constants, errors

    assert isinstance(error, errors.HfHubHTTPError)
    status = error.response.status_code
    place = f"Hub id {repo!r}"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{place} has no revision {revision!r}; name one of its branches, tags or commits"
    if isinstance(error, errors.GatedRepoError):
        return (
            f"{place} is gated ({constants.ENDPOINT} answered {status}): accept its terms on "
            f"{constants.ENDPOINT}/{repo} and {LOG_IN}, with a token of that account"
        )
    if _BAD_TOKEN in str(error.response.headers.get("X-Error-Message")):
        return (
            f"{place}: {constants.ENDPOINT} answered {status}: the token is wrong or has expired; "
            f"{LOG_IN} again, or send none (token=False) for what is public"
        )
    if status in (401, 403, 404):
        why = (
            "it does not exist, is private or is gated; check the spelling, and if you have "
            f"access, {LOG_IN}"
        )
    else:
        why = "try again later"
    return f"{place}: {constants.ENDPOINT} answered {status}: {why}"


def _broken(repo: str, error: Exception, access: HubAccess, token: str | bool) -> str:
    from huggingface_hub import constants

    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        place = error.filename or access.cache
        return (
            f"Hub id {repo!r}: {place} cannot be written ({error.strerror}); make room, or name "
            "another cache folder (HF_HUB_CACHE or cache_dir)"
        )
    return (
        f"Hub id {repo!r}: the download from {constants.ENDPOINT} broke off "
        f"({described(error, token)}); run the same again: what is complete in {access.cache} is "
        "not fetched twice"
    )


def described(error: Exception, token: str | bool) -> str:
    """Return an error's kind and first line, without the token."""
    text = f"{type(error).__name__}: {_first_line(error)}"
    return text.replace(token, "***") if isinstance(token, str) else text


def upload_error(
    repo: str, error: Exception, token: str | bool, revision: str | None = None
) -> BertFlowError:
    """Return what is to be raised for an error of huggingface_hub while a folder is uploaded."""
    from huggingface_hub import constants, errors

    if isinstance(error, errors.HfHubHTTPError):
        status = error.response.status_code
        if status == 409:
            return HubError(
                f"Hub id {repo!r} exists already: leave exist_ok as it is to add a commit to it, "
                "or take another name"
            )
        if status == 403:
            return HubError(
                f"Hub id {repo!r}: {constants.ENDPOINT} answered 403: the token may not write "
                "there; take one with write access to it"
            )
        return HubError(refusal(repo, error, revision))
    if isinstance(error, errors.OfflineModeIsEnabled):
        return HubError(f"Hub id {repo!r}: HF_HUB_OFFLINE is set, so nothing is uploaded: unset it")
    if isinstance(error, ValueError) and _BAD_CARD in str(error):
        found = "; ".join(line.strip("- ") for line in str(error).splitlines()[1:])
        return HubError(f"Hub id {repo!r}: the Hub refuses the card: {found}")
    return HubError(
        f"Hub id {repo!r}: the upload to {constants.ENDPOINT} broke off "
        f"({described(error, token)}); nothing was committed: run the same again"
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0].rstrip(". ")
