"""The folder of an evaluation's results, here or in a bucket."""

import contextlib
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self

from bertflow_jax.errors import WorkdirError, not_hiding
from bertflow_jax.output_locks import LOCK, sole_writer
from bertflow_jax.output_places import output_folder, refuse_link
from bertflow_jax.remote.address import remote_address

FILES = ("results.json", "table.md", "table.tex", "report.html")


class Output:
    """A local folder to write results into; its files go up where the place is in a bucket.

    As a context it holds the folder for one evaluation (buckets know no locks), and ends with
    everything uploaded, whatever ended it.

    Attributes:
      folder: local; of a place in a bucket it is temporary.
    """

    def __init__(self, place: str, flag: str = "--output"):
        """Make the folder and show that the place can be written.

        Raises:
          WorkdirError: it cannot, see `output_places.output_folder`; a file of it is a link.
          DataNotFoundError: no such bucket.
          ConfigError: a bucket, without the extra `gcs`.
        """
        address = remote_address(place, flag)
        self._held = contextlib.ExitStack()
        self._given = f"{flag}={place}"
        self._remote = address is not None
        if address is None:
            self.folder = output_folder(place, flag)
            for name in FILES:
                refuse_link(self.folder / name, f"{flag}={place}: {name}")
            self._shown = str(self.folder)
            return
        from bertflow_jax.remote.bucket import BucketFolder
        from bertflow_jax.remote.uploads import Uploads
        from bertflow_jax.remote.workdir import show_writable, temporary_folder

        bucket = BucketFolder(address, flag)
        show_writable(bucket)
        self.folder, self._shown = temporary_folder(), str(address)
        self._bucket, self._uploads = bucket, Uploads(bucket, self.folder)

    def place(self, name: str) -> str:
        """Return what messages call a file of the output."""
        return f"{self._shown}/{name}" if self._remote else str(Path(self._shown) / name)

    def drop(self, name: str, beside: str) -> None:
        """Delete a file that an earlier evaluation left, known by another of its files.

        Args:
          name: of the file; one that is not there is none.
          beside: without this file there was no earlier evaluation, and `name` is somebody else's.

        Raises:
          WorkdirError: it cannot be deleted.
        """
        if self._remote:
            if {name, beside} <= self._bucket.names().keys():
                self._bucket.delete(name)
            return
        if not (self.folder / beside).is_file():
            return
        try:
            (self.folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise WorkdirError(
                f"{self.folder / name} of an earlier evaluation cannot be deleted "
                f"({error.strerror}); name another folder"
            ) from error

    def publish(self) -> None:
        """Upload what has been written since the last time.

        Raises:
          WorkdirError: a file cannot be uploaded; the local copies stay.
        """
        if not self._remote:
            return
        try:
            self._uploads.send(self.folder.rglob("*"))
        except WorkdirError as error:
            self._remote = False  # not again, and the folder stays
            raise WorkdirError(f"{error}; the results are kept in {self.folder}") from error

    def __enter__(self) -> Self:
        """Raise WorkdirError where another evaluation writes into the folder."""
        if not self._remote:
            self._held.enter_context(sole_writer(self.folder / LOCK, self._given))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._held, not_hiding(error):
            self.publish()
        if self._remote:
            shutil.rmtree(self.folder, ignore_errors=True)
