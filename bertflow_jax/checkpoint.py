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
from pathlib import Path
from types import TracebackType
from typing import Any

import jax
import numpy as np

from bertflow_jax import checkpoint_files, distributed, parallel
from bertflow_jax.background import Background
from bertflow_jax.checkpoint_reader import CheckpointReader
from bertflow_jax.checkpoint_records import RECORD_NAMES, records_digest
from bertflow_jax.checkpoint_records import Records as Records
from bertflow_jax.checkpoint_steps import LocalSteps
from bertflow_jax.digests import tree_digest
from bertflow_jax.errors import CheckpointError, WorkdirError, not_hiding, refusal
from bertflow_jax.jax_settings import refuse_x64
from bertflow_jax.scores import Score, best_steps, recorded_score

_log = logging.getLogger(__name__)


class CheckpointStore(CheckpointReader):
    """The checkpoints of one workdir, read and written.

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
        super().__init__(workdir, steps)
        self._keep, self._keep_best = keep, keep_best
        self._background = Background("checkpoint")
        self._last: tuple[int, dict[str, Any]] | None = None

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

    def set_aside_after(self, step: int) -> None:
        """Rename the steps after one that a run resumes from: it will write its own."""
        for later in [other for other in self.steps() if other > step]:
            aside = self._found.set_aside(later)
            _log.warning("the run resumes from step %d: %d is now %s", step, later, aside)


def _like(array: np.ndarray) -> np.ndarray:
    """Return an array of the same shape and type that takes no memory."""
    return np.broadcast_to(np.zeros((), array.dtype), array.shape)
