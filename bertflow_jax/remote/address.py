"""Names of folders on Google Cloud Storage; imports nothing of Google's."""

import dataclasses
import os
import re

from bertflow_jax.errors import WorkdirError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/+")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")


@dataclasses.dataclass(frozen=True)
class Address:
    """A folder in a bucket.

    Attributes:
      bucket: its name.
      path: of the folder, with `/` between its parts alone; not empty.
    """

    bucket: str
    path: str

    def __str__(self) -> str:
        return f"gs://{self.bucket}/{self.path}"

    def __truediv__(self, name: str) -> "Address":
        return Address(self.bucket, f"{self.path}/{name}")


def remote_address(place: str | os.PathLike[str], flag: str) -> Address | None:
    """Return the address that a place is, None for a path of this machine.

    Args:
      place: as given by the user. A `Path` has made one slash of two; that is understood too.
      flag: where it comes from, for the message.

    Raises:
      WorkdirError: an address of another kind, without a folder, or with an impossible name.
    """
    if not isinstance(place, str | os.PathLike):
        return None  # and no path either, which is told where it is read
    text = str(place)
    found = _SCHEME.match(text)
    if found is None or ("://" not in text and not isinstance(place, os.PathLike)):
        return None
    if found[1] != "gs":
        raise WorkdirError(
            f"{flag}={place} is no folder of this machine; of other places only "
            "gs://BUCKET/FOLDER (Google Cloud Storage) is known"
        )
    bucket, _, path = text[found.end() :].partition("/")
    path = path.rstrip("/")
    if not _BUCKET.fullmatch(bucket):
        raise WorkdirError(f"{flag}={place}: {bucket!r} is no name of a bucket")
    if not path.strip():
        raise WorkdirError(
            f"{flag}={place} is a whole bucket; name a folder in it, as gs://{bucket}/runs/mine"
        )
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or not path.isprintable():
        raise WorkdirError(
            f"{flag}={place}: the folder has an empty part, a . or .., or a control character"
        )
    return Address(bucket, path)
