"""Checkpoints of a run: saved in the background, checked by digests, the newest and the best kept.

One folder a step under WORKDIR/checkpoints/, with separate items:

    flow       flow variables: "params" and, for some flows, "constants"
    optimizer  optimiser state
    state      step, ActNorm initialisation, score, digests of the two items above
    config     the whole configuration
    encoder    identity of the encoder (digests of weights and tokenizer, pooling, max length)
    manifest   which text was used

A run that trains the encoder has other arrays: see `training.supervised_run`. A step is written
under a temporary name and renamed when complete. A damaged one is noticed by the digests of its
arrays as well as by what orbax itself finds.

`save` copies the arrays and returns; one background thread makes the digests, writes and then
deletes older steps. It is ours, not orbax's `AsyncCheckpointer`: with that one digests and records
stay in the caller, which deleting waits for, and errors are logged with their traceback.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import jax
import numpy as np

from bertflow_jax import checkpoint_files, distributed, parallel
from bertflow_jax.background import Background
from bertflow_jax.checkpoint_records import RECORD_NAMES, records_digest
from bertflow_jax.checkpoint_records import Records as Records
from bertflow_jax.checkpoint_steps import LocalSteps
from bertflow_jax.checkpoint_walk import asked_for, damaged, first_good
from bertflow_jax.digests import tree_digest
from bertflow_jax.errors import CheckpointError, WorkdirError, not_hiding, refusal
from bertflow_jax.jax_settings import refuse_x64
from bertflow_jax.paths import user_path
from bertflow_jax.scores import Score, best_steps, recorded_score
from bertflow_jax.workdir import CHECKPOINTS

_log = logging.getLogger(__name__)


class CheckpointStore:
    """The checkpoints of one workdir.

    A run that writes enters the store as a context, which ends with no save under way. Every
    method waits for the save before it.

    Attributes:
      folder: absolute path of WORKDIR/checkpoints.
      place: what messages call it: the path, or an address in a bucket.
    """

    def __init__(
        self,
        workdir: str | Path,
        keep: int | None = None,
        keep_best: int = 0,
        steps: LocalSteps | None = None,
    ):
        """Open the store.

        Args:
          workdir: of the run.
          keep: how many of the newest checkpoints stay when saving (None: all).
          keep_best: how many of those with the best scores stay besides.
          steps: where they are, if not simply in WORKDIR/checkpoints.
        """
        own = LocalSteps(user_path(workdir, "--workdir").absolute() / CHECKPOINTS)
        self._found = own if steps is None else steps
        self.folder, self.place = self._found.folder, self._found.place
        self._keep, self._keep_best = keep, keep_best
        self._background = Background("checkpoint")
        self._scores: dict[int, Score | None] = {}
        self._last: tuple[int, dict[str, Any]] | None = None
        self._told: set[int] = set()  # damaged steps that were warned of

    def __enter__(self) -> "CheckpointStore":
        """Delete what killed saves have left."""
        if distributed.is_first():
            self._found.clean()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with not_hiding(error):
            self.wait()

    def steps(self) -> list[int]:
        """Return the complete steps in ascending order."""
        self.wait()
        return self._found.steps()

    def save(self, arrays: dict[str, Any], records: Records, score: Score | None = None) -> None:
        """Copy the arrays and write a step in the background, after the save before it.

        Once it is complete, older steps go that are neither among the newest `keep` nor among the
        best `keep_best`. Of several processes all call it, and the first one writes.

        Args:
          arrays: name of an item -> pytree that is not empty, as {"flow": ..., "optimizer": ...}.
          records: the rest; `records.state["step"]` names the step.
          score: of the step; it is added to `records.state`.

        Raises:
          WorkdirError: the save before this one failed; see `wait`. ConfigError: float64 is on.
        """
        if set(arrays) & set(RECORD_NAMES):
            raise AssertionError(f"items of arrays may not be named like records: {set(arrays)}")
        refuse_x64()
        host = parallel.to_host(arrays)
        distributed.share(lambda: self._begin(host, records, score))

    def _begin(self, host: dict[str, Any], records: Records, score: Score | None) -> None:
        self.wait()
        self._found.ready()
        step = records.state["step"]
        said = records.to_dict()
        if score is not None:
            said["state"]["score"] = score.to_record()
        self._last = step, jax.tree.map(_like, host)
        self._scores[step] = recorded_score(said["state"])
        self._background.start(lambda: self._write(step, host, said))

    def wait(self) -> None:
        """Wait for the save under way.

        Raises:
          WorkdirError: the folder could not be written (names it), or the step is incomplete.
        """
        self._background.wait()

    def finish(self) -> None:
        """Wait for the last save and read it back: its arrays must be those that were saved.

        Raises:
          WorkdirError: as `wait`, or what is on the disk is something else; in every process.
        """
        distributed.share(self._verify_last)

    def _verify_last(self) -> None:
        self.wait()
        if self._last is None:
            return
        step, shapes = self._last
        self._last = None
        try:
            self._read(step, self.records(step), shapes)
        except CheckpointError as error:
            raise WorkdirError(
                f"{error}: it was written without an error and reads otherwise; the disk of "
                f"{self.folder} is not to be trusted"
            ) from error

    def best(self) -> tuple[int, Score] | None:
        """Return the step with the best score and the score; None where no step has one."""
        scores = self._known_scores(self.steps())
        for step in best_steps(scores):
            if (score := scores[step]) is not None:
                return step, score
        return None

    def _write(self, step: int, host: dict[str, Any], said: dict[str, Any]) -> None:
        path = self.folder / str(step)
        said["state"]["digests"] = {name: tree_digest(tree) for name, tree in host.items()}
        said["state"]["records_sha256"] = records_digest(said)
        try:
            checkpoint_files.write_step(path, host, said)
        except (OSError, ValueError) as error:
            kept = (
                "earlier checkpoints are kept" if self._found.steps() else "no earlier one is there"
            )
            raise WorkdirError(
                f"checkpoint {path} could not be written: {refusal(error)}; {kept}; make room, or "
                "name another --workdir"
            ) from error
        self._found.written(step)
        self._prune(step)

    def _prune(self, step: int) -> None:
        """Delete older steps that are neither among the newest nor among the best."""
        older = [other for other in self._found.steps() if other < step]
        if self._keep is None or len(older) < self._keep:
            return
        kept = set(older[len(older) - self._keep + 1 :])
        if self._keep_best:
            kept |= set(best_steps(self._known_scores([*older, step]))[: self._keep_best])
        for old in [old for old in older if old not in kept]:
            self._found.delete(old)

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

    def set_aside_after(self, step: int) -> None:
        """Rename the steps after one that a run resumes from: it will write its own."""
        for later in [other for other in self.steps() if other > step]:
            aside = self._found.set_aside(later)
            _log.warning("the run resumes from step %d: %d is now %s", step, later, aside)

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
            said = checkpoint_files.read_records(path, RECORD_NAMES)
            digest = said["state"].pop("records_sha256", None)
        except Exception as error:
            raise self._damaged(step, error) from error
        if digest != records_digest(said):
            raise self._damaged(step, "its records differ from their digest")
        if said["state"].get("step") != step:
            raise self._damaged(step, f"it is a checkpoint of step {said['state'].get('step')}")
        return Records(**said)

    def restore(
        self, step: int, abstract: Callable[[Records], dict[str, Any]]
    ) -> tuple[dict[str, Any], Records]:
        """Return a step's arrays, on the default device, and its records.

        Args:
          step: the step.
          abstract: records -> {"flow": pytree of ShapeDtypeStruct, ...}; only these items are read.

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
        try:
            arrays = checkpoint_files.read_arrays(path, target)
        except Exception as error:
            raise self._damaged(step, error) from error
        for name, tree in arrays.items():
            if tree_digest(tree) != records.state["digests"][name]:
                raise self._damaged(step, f"the arrays of item {name!r} differ from their digest")
        return arrays

    def newest_good(self, check: Any, step: int | None = None, first: int | None = None) -> Any:
        """Return check(step) for the step asked for, or the newest step for which it succeeds.

        Args:
          check: a function of a step that raises CheckpointError when the step is damaged.
          step: a step asked for by number; a damaged one is then an error.
          first: a step that is tried before the newest one; it may be gone.

        Raises:
          DataNotFoundError: no checkpoint, or not the one asked for.
          CheckpointError: the step asked for, or every step, is damaged.
        """
        steps = self.steps()
        asked_for(steps, self.place, step)
        if step is not None:
            return check(step)
        order = sorted(steps, key=lambda other: (other == first, other), reverse=True)
        return first_good(order, self.place, check, self._told)

    def _damaged(self, step: int, cause: object) -> CheckpointError:
        return damaged(self.place, step, cause)


def _like(array: np.ndarray) -> np.ndarray:
    """Return an array of the same shape and type that takes no memory."""
    return np.broadcast_to(np.zeros((), array.dtype), array.shape)
