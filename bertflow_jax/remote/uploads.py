"""Files of a local folder, sent to a bucket when they have changed."""

from collections.abc import Iterable
from pathlib import Path

from bertflow_jax.remote.bucket import BucketFolder


class Uploads:
    """Sends files under the names that they have in a folder."""

    def __init__(self, bucket: BucketFolder, folder: Path):
        """Take the folder and the place of its files in the bucket."""
        self._bucket, self._folder = bucket, folder
        self._sent: dict[Path, tuple[int, int]] = {}

    def send(self, paths: Iterable[Path]) -> None:
        """Upload the files among these paths that have changed since they were last sent.

        Raises:
          WorkdirError: one cannot be uploaded; names the object.
        """
        for path in sorted(paths):
            if not path.is_file():
                continue
            said = path.stat()
            state = said.st_size, said.st_mtime_ns
            if self._sent.get(path) == state:
                continue
            # Read at once: a file that grows during the upload would not match its own digest.
            self._bucket.put(path.relative_to(self._folder).as_posix(), path.read_bytes())
            self._sent[path] = state
