"""What huggingface_hub's errors mean: a sentence that names the repository and what to do.

No text of these holds a token.
"""

from bertflow_jax.errors import BertFlowError, HubError, shown

LOG_IN = "log in with `hf auth login` or set HF_TOKEN"
_BAD_CARD = "Invalid metadata in README.md"  # of huggingface_hub's ValueError
_BAD_TOKEN = "Invalid credentials"  # of the Hub's header X-Error-Message


def not_cached(
    repo: str, revision: str | None, cache: str, local_files_only: bool, commit: str | None = None
) -> str:
    """Explain that nobody may be asked, or can be, and the cache has not all.

    `commit` is what the cache has for the revision, None where it has none.
    """
    from huggingface_hub import constants

    if local_files_only:
        why = "local_files_only is set"
    elif constants.HF_HUB_OFFLINE:
        why = "HF_HUB_OFFLINE is set"
    else:
        why = f"{constants.ENDPOINT} cannot be reached"
    what = "it" if revision is None else f"its revision {shown(revision)}"
    bundled = "; the bundled encoder is mini_bert" if "/" not in repo else ""
    of = "" if commit is None else f" (refs/{revision or 'main'} names the commit {shown(commit)})"
    return (
        f"Hub id {repo!r}: {why}, and {what} is not complete in the cache {cache}{of}; no folder "
        f"here has that name{bundled}; go online once, or give a local folder"
    )


def status_of(error: Exception) -> int | None:
    """Return the status of the Hub's answer that an error is made of, None where it had none.

    In huggingface_hub 0.x errors without an answer are HfHubHTTPErrors too.
    """
    return getattr(getattr(error, "response", None), "status_code", None)


def refusal(repo: str, error: Exception, revision: str | None = None) -> str:
    """Explain an error that is the Hub's answer (`status_of`), what to do included.

    The Hub answers 401 for private and absent repositories alike.
    """
    from huggingface_hub import constants, errors

    response, status = getattr(error, "response", None), status_of(error)
    place = f"Hub id {repo!r}"
    if isinstance(error, errors.RevisionNotFoundError):
        return (
            f"{place} has no revision {shown(revision)}; name one of its branches, tags or commits"
        )
    if isinstance(error, errors.GatedRepoError):
        return (
            f"{place} is gated ({constants.ENDPOINT} answered {status}): accept its terms on "
            f"{constants.ENDPOINT}/{repo} and {LOG_IN}, with a token of that account"
        )
    if _BAD_TOKEN in str(getattr(response, "headers", {}).get("X-Error-Message")):
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


def broken_download(repo: str, error: Exception, cache: str, token: str | bool) -> str:
    """Explain a download that ended early, or a cache that cannot be written."""
    from huggingface_hub import constants

    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        place = error.filename or cache
        return (
            f"Hub id {repo!r}: {place} cannot be written ({error.strerror}); make room, or name "
            "another cache folder (HF_HUB_CACHE or cache_dir)"
        )
    return (
        f"Hub id {repo!r}: the download from {constants.ENDPOINT} broke off "
        f"({described(error, token)}); run the same again: what is complete in {cache} is "
        "not fetched twice"
    )


def described(error: Exception, token: str | bool) -> str:
    """Return an error's kind and first line, without the token."""
    text = f"{type(error).__name__}: {first_line(error)}"
    return text.replace(token, "***") if isinstance(token, str) else text


def upload_error(
    repo: str, error: Exception, token: str | bool, revision: str | None = None
) -> BertFlowError:
    """Return what is to be raised for an error of huggingface_hub while a folder is uploaded."""
    from huggingface_hub import constants, errors

    status = status_of(error)
    if status is not None:
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


def first_line(error: Exception) -> str:
    """Return the first line of an error's text."""
    return (str(error).strip().splitlines() or [""])[0][:500].rstrip(". ")
