"""Reading the checkpoints of a run: their records, arrays and scores, and the newest good one."""

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from bertflow_jax import checkpoint_files
from bertflow_jax.checkpoint_bounds import RECORDS, check_files, largest
from bertflow_jax.checkpoint_records import RECORD_NAMES, Records, check_state, records_digest
from bertflow_jax.checkpoint_steps import LocalSteps
from bertflow_jax.checkpoint_walk import asked_for, damaged, first_good, gone, the_one
from bertflow_jax.digests import tree_digest
from bertflow_jax.errors import CheckpointError
from bertflow_jax.jax_settings import refuse_x64
from bertflow_jax.paths import user_path
from bertflow_jax.scores import Score, best_steps, recorded_score
from bertflow_jax.workdir import CHECKPOINTS

_log = logging.getLogger(__name__)


class CheckpointReader:
    """The checkpoints of one workdir, to be read: what `checkpoint.CheckpointStore` builds on.

    Attributes:
      folder: absolute path of WORKDIR/checkpoints.
      place: what messages call it: the path, or an address in a bucket.
    """

    def __init__(self, workdir: str | Path, steps: LocalSteps | None = None):
        """Open the checkpoints.

        Args:
          workdir: of the run.
          steps: where they are, if not simply in WORKDIR/checkpoints.
        """
        own = LocalSteps(user_path(workdir, "--workdir").absolute() / CHECKPOINTS)
        self._found = own if steps is None else steps
        self.folder, self.place = self._found.folder, self._found.place
        self._scores: dict[int, Score | None] = {}
        self._told: set[int] = set()  # damaged steps that were warned of

    def wait(self) -> None:
        """Wait for what would change while it is read; here nothing is written."""

    def steps(self) -> list[int]:
        """Return the complete steps in ascending order."""
        self.wait()
        return self._found.steps()

    def best(self) -> tuple[int, Score] | None:
        """Return the step with the best score and the score; None where no step has one."""
        scores = self._known_scores(self.steps())
        for step in best_steps(scores):
            if (score := scores[step]) is not None:
                return step, score
        return None

    def _known_scores(self, steps: list[int]) -> dict[int, Score | None]:
        """Return the scores of steps, read where this process has not made them itself."""
        for step in steps:
            if step not in self._scores:
                try:
                    self._scores[step] = recorded_score(self._records(step).state)
                except CheckpointError as error:
                    _log.warning("%s; it has no score", error)
                    self._scores[step] = None
        return {step: self._scores[step] for step in steps}

    def records(self, step: int) -> Records:
        """Return the records of a step.

        Raises:
          CheckpointError: a record is missing or damaged.
        """
        self.wait()
        return self._records(step)

    def _records(self, step: int) -> Records:
        path = self._found.need(step, RECORD_NAMES)
        try:
            check_files(path, dict.fromkeys(RECORD_NAMES, RECORDS))
            said = checkpoint_files.read_records(path, RECORD_NAMES)
            digest = said["state"].pop("records_sha256", None)
            same = digest == records_digest(said)
            if same:
                check_state(said["state"], step)
        except Exception as error:
            raise self._damaged(step, error) from error
        if not same:
            raise self._damaged(step, "its records differ from their digest")
        return Records(**said)

    def restore(
        self, step: int, abstract: Callable[[Records], dict[str, Any]]
    ) -> tuple[dict[str, Any], Records]:
        """Return a step's arrays, on the default device, and its records.

        Args:
          step: the step.
          abstract: records -> {"flow": pytree of ShapeDtypeStruct, ...}; only the items named in it
            are read.

        Raises:
          CheckpointError: a record or an item is damaged, or has other shapes.
          ConfigError: float64 is on.
        """
        refuse_x64()
        records = self.records(step)
        device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        target = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=device),
            abstract(records),
        )
        return self._read(step, records, target), records

    def _read(self, step: int, records: Records, target: dict[str, Any]) -> dict[str, Any]:
        """Return the arrays of a step, compared with their digests."""
        path = self._found.need(step, target)
        digests = records.state["digests"]
        try:
            check_files(path, {name: largest(_nbytes(tree)) for name, tree in target.items()})
            arrays = checkpoint_files.read_arrays(path, target)
        except Exception as error:
            raise self._damaged(step, error) from error
        for name, tree in arrays.items():
            if tree_digest(tree) != digests.get(name):
                raise self._damaged(step, f"the arrays of item {name!r} differ from their digest")
        return arrays

    def newest_good(self, check: Any, step: int | None = None, first: int | None = None) -> Any:
        """Return check(step) for the step asked for, or the newest step for which it succeeds.

        Args:
          check: a function of a step that raises CheckpointError when the step is damaged.
          step: a step asked for by number; a damaged one is then an error.
          first: a step that is tried before the newest one; it may be gone.

        Raises:
          DataNotFoundError: no checkpoint, or not the one asked for, or another process has deleted
            them meanwhile.
          CheckpointError: the step asked for, or every step, is damaged.
        """
        steps = self.steps()
        asked_for(steps, self._found, step)
        if step is not None:
            return the_one(step, self._found, check)
        order = sorted(steps, key=lambda other: (other == first, other), reverse=True)
        return first_good(order, self._found, check, self._told)

    def _damaged(self, step: int, cause: object) -> CheckpointError:
        if self._found.is_gone(step):
            return CheckpointError(gone(self.place, step))
        return damaged(self.place, step, cause)


def _nbytes(tree: Any) -> int:
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
