"""Objects below one folder of a bucket: the only file that imports google.cloud.storage.

The client's own variables hold: GOOGLE_APPLICATION_CREDENTIALS, and STORAGE_EMULATOR_HOST for a
stand-in. Only permissions on objects are needed (list, get, create, delete).
"""

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertflow_jax.errors import BertFlowError, ConfigError, DataNotFoundError, WorkdirError
from bertflow_jax.remote.address import Address

# Seconds that an operation is tried again while the service or the network fails.
PATIENCE = 120.0
_REASONS = {
    "DefaultCredentialsError": "no Google credentials: run `gcloud auth application-default login`,"
    " or set GOOGLE_APPLICATION_CREDENTIALS to a service account's key file",
    "RefreshError": "the Google credentials are refused: log in again with `gcloud auth "
    "application-default login`",
    "Forbidden": "these credentials may not do that: the bucket's role Storage Object Admin is "
    "needed, Storage Object Viewer to read",
    "Unauthorized": "these credentials are not accepted",
}


class BucketFolder:
    """The objects below an address; every name is relative to it.

    Every method raises WorkdirError with the object's full name where the service refuses or
    cannot be reached.

    Attributes:
      address: of the folder.
    """

    def __init__(self, address: Address, flag: str = "--workdir"):
        """Log in.

        Raises:
          ConfigError: google-cloud-storage is not installed.
          WorkdirError: no credentials.
        """
        self.address = address
        self._flag = flag
        self._storage = _google_storage(f"{flag}={address}")
        with _named(f"{flag}={address}", "cannot be used"):
            # Objects belong to a bucket; the project that is billed is the bucket's.
            self._bucket = self._storage.Client(project=None).bucket(address.bucket)

    def names(self, under: str = "") -> dict[str, int]:
        """Return the objects whose names begin with `under`, in order, and their sizes in bytes.

        Raises:
          DataNotFoundError: there is no such bucket.
        """
        start = len(self.address.path) + 1
        with _named(f"{self._flag}={self.address}", "cannot be listed"):
            try:
                return {
                    blob.name[start:]: int(blob.size or 0)
                    for blob in self._bucket.client.list_blobs(
                        self._bucket, prefix=f"{self.address.path}/{under}", retry=self._retry()
                    )
                    if not blob.name.endswith("/")  # the web console's empty folders
                }
            except self._absent() as error:
                raise self._no_bucket() from error

    def put(self, name: str, content: Path | bytes) -> int:
        """Write an object from a file or from memory; return its generation.

        Raises:
          DataNotFoundError: there is no such bucket.
        """
        blob = self._blob(name)
        with _named(f"{self.address}/{name}", "cannot be written"):
            try:
                if isinstance(content, Path):
                    blob.upload_from_filename(str(content), retry=self._retry())
                else:
                    blob.upload_from_string(content, retry=self._retry())
            except self._absent() as error:
                raise self._no_bucket() from error
        return int(blob.generation)

    def get(self, name: str) -> bytes | None:
        """Return the content of an object, None where there is none."""
        with _named(f"{self.address}/{name}", "cannot be read"):
            try:
                return self._blob(name).download_as_bytes(raw_download=True, retry=self._retry())
            except self._absent():
                return None

    def get_file(self, name: str, target: Path) -> bool:
        """Write the content of an object into a local file; return whether there is the object."""
        with _named(f"{self.address}/{name}", "cannot be read"):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._blob(name).download_to_filename(
                    str(target), raw_download=True, retry=self._retry()
                )
            except self._absent():
                target.unlink(missing_ok=True)
                return False
        return True

    def delete(self, name: str) -> None:
        """Delete an object that may be gone already."""
        with (
            _named(f"{self.address}/{name}", "cannot be deleted"),
            contextlib.suppress(self._absent()),
        ):
            self._blob(name).delete(retry=self._retry())

    def move(self, name: str, new: str) -> None:
        """Copy an object inside the bucket and delete the old one."""
        target, token = self._blob(new), None
        with _named(f"{self.address}/{name}", f"cannot be copied to {new}"):
            while True:
                token, _, _ = target.rewrite(self._blob(name), token=token, retry=self._retry())
                if token is None:
                    break
        self.delete(name)

    def generation(self, name: str) -> int | None:
        """Return the number of an object's version, None where there is no such object."""
        with _named(f"{self.address}/{name}", "cannot be read"):
            blob = self._bucket.get_blob(f"{self.address.path}/{name}", retry=self._retry())
        return None if blob is None else int(blob.generation)

    def _blob(self, name: str) -> Any:
        return self._bucket.blob(f"{self.address.path}/{name}")

    def _no_bucket(self) -> DataNotFoundError:
        return DataNotFoundError(
            f"{self._flag}={self.address}: there is no bucket {self.address.bucket!r}; make it "
            "(gcloud storage buckets create), or name another"
        )

    def _retry(self) -> Any:
        from google.cloud.storage.retry import DEFAULT_RETRY

        return DEFAULT_RETRY.with_timeout(PATIENCE)

    def _absent(self) -> type[Exception]:
        from google.api_core.exceptions import NotFound

        return NotFound


def _google_storage(what: str) -> Any:
    try:
        from google.cloud import storage
    except ImportError as error:
        raise ConfigError(
            f"{what} needs google-cloud-storage: pip install 'google-cloud-storage>=3.17,<4' (the "
            "extra gcs)"
        ) from error
    return storage


@contextlib.contextmanager
def _named(what: str, doing: str) -> Iterator[None]:
    """Turn the client's errors into ours, in one line."""
    try:
        yield
    except BertFlowError:
        raise
    except _failures() as error:
        # A retried error is wrapped in "Timeout of ... exceeded".
        cause = error.__cause__ if type(error).__name__ == "RetryError" else None
        cause = error if cause is None else cause
        reason = _REASONS.get(type(cause).__name__, "")
        raise WorkdirError(f"{what} {doing}: {reason or _first_line(cause)}") from error


def _first_line(error: BaseException) -> str:
    answer = getattr(error, "response", None)
    # InvalidResponse shows neither; the other errors say both themselves.
    if answer is not None and type(error).__name__ == "InvalidResponse":
        return f"HTTP {answer.status_code} {answer.text[:200]}".strip().replace("\n", " ")
    return (str(error).strip().splitlines() or [repr(error)])[0][:300]


@functools.cache
def _failures() -> tuple[type[Exception], ...]:
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.storage.exceptions import DataCorruption, InvalidResponse

    # OSError: of the local file, and of requests, whose errors are OSErrors.
    return GoogleAPIError, GoogleAuthError, DataCorruption, InvalidResponse, OSError
