"""Checkpoints in a bucket: a step counts once its marker is there.

    checkpoints/STEP/...           the files, under the names that they have on a disk
    checkpoints/STEP.commit.json   the marker: names, sizes and sha256 of the files; written last
    checkpoints/STEP.unfinished    while a step is written or deleted

A step is deleted marker first. What has `unfinished` and no marker is what a killed run left of an
upload or of a delete; the next run deletes it. Files with neither were copied here by hand, from a
local workdir: they are a step too, which the digests inside the checkpoint have to prove.
"""

import json
import logging
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from bertflow_jax.checkpoint_steps import LocalSteps
from bertflow_jax.data.json_files import parse_json
from bertflow_jax.errors import CheckpointError, WorkdirError
from bertflow_jax.paths import file_sha256
from bertflow_jax.remote.bucket import BucketFolder
from bertflow_jax.remote.inventory import COMMIT, UNFINISHED, Inventory, is_inside
from bertflow_jax.workdir import CHECKPOINTS

_log = logging.getLogger(__name__)


class RemoteSteps(LocalSteps):
    """Step folders that are written and read on a disk and kept in a bucket.

    What the bucket holds is asked for once: after that this run alone changes it. Of a step only
    the items that are read come down.

    Attributes:
      failed: whether an upload has failed, so that what is on the disk is not all in the bucket.
    """

    def __init__(
        self,
        bucket: BucketFolder,
        folder: Path,
        *,
        before_upload: Callable[[], None] | None = None,
        after_upload: Callable[[], None] | None = None,
    ):
        """Take the place in the bucket and the one on the disk.

        Args:
          bucket: of WORKDIR.
          folder: local WORKDIR/checkpoints, empty.
          before_upload: called first, to refuse.
          after_upload: called once a step is in the bucket.
        """
        super().__init__(folder)
        self.place = f"{bucket.address}/{CHECKPOINTS}"
        self._bucket = bucket
        self._before_upload, self._after_upload = before_upload, after_upload
        self.failed = False
        self._inventory: Inventory | None = None
        self._markers: dict[int, dict[str, dict[str, Any]]] = {}
        self._here: set[tuple[int, str]] = set()  # step and file, on the disk

    @property
    def _known(self) -> Inventory:
        if self._inventory is None:
            start = len(CHECKPOINTS) + 1
            names = self._bucket.names(f"{CHECKPOINTS}/")
            self._inventory = Inventory.of(name[start:] for name in names)
        return self._inventory

    def steps(self) -> list[int]:
        """Return the complete steps in ascending order."""
        return self._known.steps()

    def look_again(self) -> list[int]:
        """Return the complete steps of now, where another process changes them."""
        self.forget()
        return self.steps()

    def is_gone(self, step: int) -> bool:
        """Return whether nothing is left of a step that was there; raises WorkdirError."""
        if self._bucket.names(f"{CHECKPOINTS}/{step}/"):
            return False
        self._leave(step)  # one that comes in its place is read anew
        return True

    def run_at_work(self) -> bool:
        """Return False: a bucket has no locks."""
        return False

    def forget(self) -> None:
        """Ask the bucket anew what it holds, when that is needed next."""
        self._inventory = None
        self._markers.clear()

    def clean(self) -> None:
        """Delete what killed uploads and deletes have left."""
        for step in sorted(self._known.begun):
            if step not in self._known.committed:
                _log.warning(
                    "%s/%d is what a stopped run left of an upload: deleted", self.place, step
                )
                self._delete_files(step)
            self._end(step)

    def need(self, step: int, items: Iterable[str]) -> Path:
        """Return the local folder of a step with these items, compared with their digests.

        Raises:
          CheckpointError: a file is missing or differs from its digest.
          WorkdirError: the service refuses or cannot be reached.
        """
        marker = self._marker(step)
        wanted = {*items, ""}
        for name, said in marker.items():
            item = name.split("/", 1)[0] if "/" in name else ""
            if item not in wanted or (step, name) in self._here:
                continue
            target = self.folder / str(step) / name
            if not self._bucket.get_file(f"{CHECKPOINTS}/{step}/{name}", target):
                raise self._damaged(step, f"{name} is missing")
            if said and _digest(target) != said:
                target.unlink()
                raise self._damaged(step, f"{name} differs from its digest")
            self._here.add((step, name))
        return self.folder / str(step)

    def written(self, step: int) -> None:
        """Upload a step; a step of that number that is there already is replaced.

        Raises:
          WorkdirError: it cannot be uploaded; its local copy stays.
        """
        local = self.folder / str(step)
        if not local.is_dir():
            raise WorkdirError(f"checkpoint {local} is missing after the save")
        try:
            self._upload(step, local)
        except WorkdirError as error:
            self.failed = True
            raise WorkdirError(
                f"{error}; checkpoint {step} is kept in {local}, the steps before it are in "
                f"{self.place}"
            ) from error

    def _upload(self, step: int, local: Path) -> None:
        if self._before_upload is not None:
            self._before_upload()
        if step in self._known.committed or step in self._known.files:
            self._delete_remote(step)
        self._begin(step)
        marker = {}
        for path in sorted(path for path in local.rglob("*") if path.is_file()):
            name = path.relative_to(local).as_posix()
            marker[name] = _digest(path)
            self._known.files.setdefault(step, []).append(name)
            self._bucket.put(f"{CHECKPOINTS}/{step}/{name}", path)
            self._here.add((step, name))
        text = json.dumps({"files": marker}, indent=1)
        self._bucket.put(f"{CHECKPOINTS}/{step}{COMMIT}", text.encode())
        self._known.committed.add(step)
        self._markers[step] = marker
        self._end(step)
        if self._after_upload is not None:
            self._after_upload()

    def delete(self, step: int) -> None:
        """Delete a step in the bucket, then here.

        Raises:
          WorkdirError: it cannot be deleted.
        """
        self._delete_remote(step)
        self._leave(step)

    def set_aside(self, step: int) -> str:
        """Rename a step so that it counts no more; return where it is now."""
        aside = f"{CHECKPOINTS}/{step}.passed_over"
        for old in self._bucket.names(f"{aside}/"):
            self._bucket.delete(old)
        self._begin(step)
        self._uncommit(step)
        for name in self._known.files.pop(step, []):
            self._bucket.move(f"{CHECKPOINTS}/{step}/{name}", f"{aside}/{name}")
        self._end(step)
        self._leave(step)
        return f"{self._bucket.address}/{aside}"

    def _marker(self, step: int) -> Mapping[str, dict[str, Any]]:
        """Return what is known of a step's files: name -> size and digest; {} copied by hand."""
        if step in self._markers:
            return self._markers[step]
        if step not in self._known.committed:
            marker: dict[str, dict[str, Any]] = {n: {} for n in self._known.files.get(step, [])}
            if not all(map(is_inside, marker)):
                raise self._damaged(step, "an object of it is named outside the step")
        else:
            raw = self._bucket.get(f"{CHECKPOINTS}/{step}{COMMIT}")
            try:
                marker = parse_json(raw or b"")["files"]
                usable = all(is_inside(name) and said["sha256"] for name, said in marker.items())
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise self._damaged(step, f"its {COMMIT} cannot be read") from error
            if not usable:
                raise self._damaged(step, f"its {COMMIT} names a file outside the step")
        self._markers[step] = marker
        return marker

    def _delete_remote(self, step: int) -> None:
        self._begin(step)
        self._uncommit(step)
        self._delete_files(step)
        self._end(step)

    def _begin(self, step: int) -> None:
        self._bucket.put(f"{CHECKPOINTS}/{step}{UNFINISHED}", b"")
        self._known.begun.add(step)

    def _end(self, step: int) -> None:
        self._bucket.delete(f"{CHECKPOINTS}/{step}{UNFINISHED}")
        self._known.begun.discard(step)

    def _uncommit(self, step: int) -> None:
        self._bucket.delete(f"{CHECKPOINTS}/{step}{COMMIT}")
        self._known.committed.discard(step)
        self._markers.pop(step, None)

    def _delete_files(self, step: int) -> None:
        for name in self._known.files.pop(step, []):
            self._bucket.delete(f"{CHECKPOINTS}/{step}/{name}")

    def _leave(self, step: int) -> None:
        """Remove what came down of a step."""
        shutil.rmtree(self.folder / str(step), ignore_errors=True)
        self._here = {known for known in self._here if known[0] != step}

    def _damaged(self, step: int, cause: str) -> CheckpointError:
        return CheckpointError(f"checkpoint {self.place}/{step} is damaged or incomplete ({cause})")


def _digest(path: Path) -> dict[str, Any]:
    return {"size": path.stat().st_size, "sha256": file_sha256(path)}
