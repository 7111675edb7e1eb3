"""Checkpoints: the only file that imports orbax.

One folder a step under WORKDIR/checkpoints/, with separate items:

    flow       flow variables: "params" and, for some flows, "constants"
    optimizer  optimiser state
    state      step, ActNorm initialisation, digests of the two items above
    config     the whole configuration
    encoder    identity of the encoder (digests of weights and tokenizer, pooling, max length)
    manifest   which text was used

A run that trains the encoder has other arrays: see `training.supervised_run`.

A step is written under a temporary name and renamed when complete. A damaged step is noticed by
the digests of its arrays as well as by what orbax itself finds.
"""

import dataclasses
import hashlib
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from bertflow_jax.digests import tree_digest
from bertflow_jax.errors import CheckpointError, DataNotFoundError, WorkdirError
from bertflow_jax.paths import user_path

_log = logging.getLogger(__name__)
_RECORDS = ("state", "config", "encoder", "manifest")


@dataclasses.dataclass(frozen=True)
class Records:
    """What a checkpoint says besides arrays; every field is a JSON-safe dict.

    Attributes:
      state: step, rows of the ActNorm initialisation, digests of the arrays.
      config: as `bertflow_jax.config.Config.to_dict`.
      encoder: as `SentenceEncoder.identity`.
      manifest: as `bertflow_jax.data.text.TextCorpus.manifest`.
    """

    state: dict[str, Any]
    config: dict[str, Any]
    encoder: dict[str, Any]
    manifest: dict[str, Any]


class CheckpointStore:
    """The checkpoints of one workdir.

    Attributes:
      folder: absolute path of WORKDIR/checkpoints.
    """

    def __init__(self, workdir: str | Path, keep: int | None = None):
        """Open the store; `keep` newest checkpoints stay when saving (None: all)."""
        self.folder = user_path(workdir, "--workdir").absolute() / "checkpoints"
        self._keep = keep

    def steps(self) -> list[int]:
        """Return the complete steps in ascending order."""
        if not self.folder.is_dir():
            return []
        names = [path.name for path in self.folder.iterdir() if path.is_dir()]
        # No other spelling of a number than the one that is written: not 007, not superscripts.
        return sorted(int(n) for n in names if n.isascii() and n.isdigit() and str(int(n)) == n)

    def save(self, arrays: dict[str, Any], records: Records, protected: int | None = None) -> None:
        """Write a step and check that it is there; older steps beyond `keep` go afterwards.

        Args:
          arrays: name of an item -> pytree that is not empty, as {"flow": ..., "optimizer": ...}.
          records: the rest; `records.state["step"]` names the step.
          protected: a step that stays, whatever its age: the best one.

        Raises:
          WorkdirError: the folder cannot be written (names it), or the written step is incomplete.
        """
        if set(arrays) & set(_RECORDS):
            raise AssertionError(f"items of arrays may not be named like records: {set(arrays)}")
        step = records.state["step"]
        host = jax.tree.map(np.asarray, arrays)
        said = dataclasses.asdict(records)
        said["state"]["digests"] = {name: tree_digest(tree) for name, tree in host.items()}
        said["state"]["records_sha256"] = _records_digest(said)
        items = {name: ocp.args.StandardSave(tree) for name, tree in host.items()} | {
            name: ocp.args.JsonSave(value) for name, value in said.items()
        }
        try:
            with self._checkpointer() as checkpointer:
                checkpointer.save(
                    self.folder / str(step), args=ocp.args.Composite(**items), force=True
                )
        except (OSError, ValueError) as error:  # ValueError is tensorstore's, for a full disk too
            raise WorkdirError(
                f"checkpoint {self.folder / str(step)} could not be written: {error}; "
                "earlier checkpoints are kept"
            ) from error
        older = [other for other in self.steps() if other < step]
        for old in older[: max(0, len(older) - self._keep + 1)] if self._keep else []:
            if old != protected:
                shutil.rmtree(self.folder / str(old))
        if step not in self.steps():
            raise WorkdirError(f"checkpoint {self.folder / str(step)} is missing after the save")

    def set_aside_after(self, step: int) -> None:
        """Rename the steps after one that a run resumes from: it will write its own."""
        for later in [other for other in self.steps() if other > step]:
            aside = self.folder / f"{later}.passed_over"
            _log.warning("the run resumes from step %d: %d is now %s", step, later, aside)
            shutil.rmtree(aside, ignore_errors=True)
            (self.folder / str(later)).rename(aside)

    def records(self, step: int) -> Records:
        """Return the records of a step.

        Raises:
          CheckpointError: a record is missing or damaged.
        """
        try:
            with self._checkpointer() as checkpointer:
                found = checkpointer.restore(
                    self.folder / str(step),
                    args=ocp.args.Composite(**{name: ocp.args.JsonRestore() for name in _RECORDS}),
                )
            said = {name: dict(found[name]) for name in _RECORDS}
            digest = said["state"].pop("records_sha256", None)
        except Exception as error:
            raise self._damaged(step, error) from error
        if digest != _records_digest(said):
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
          abstract: records -> {"flow": pytree of ShapeDtypeStruct, ...}; only the items named in it
            are read.

        Raises:
          CheckpointError: a record or an item is damaged, or has other shapes.
        """
        records = self.records(step)
        device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        target = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=device),
            abstract(records),
        )
        try:
            with self._checkpointer() as checkpointer:
                found = checkpointer.restore(
                    self.folder / str(step),
                    args=ocp.args.Composite(
                        **{name: ocp.args.StandardRestore(tree) for name, tree in target.items()}
                    ),
                )
            arrays = {name: found[name] for name in target}
        except Exception as error:
            raise self._damaged(step, error) from error
        for name, tree in arrays.items():
            if tree_digest(tree) != records.state["digests"][name]:
                raise self._damaged(step, f"the arrays of item {name!r} differ from their digest")
        return arrays, records

    def newest_good(self, check: Any, step: int | None = None) -> Any:
        """Return check(step) for the step asked for, or the newest step for which it succeeds.

        Args:
          check: a function of a step that raises CheckpointError when the step is damaged.
          step: a step asked for by number; a damaged one is then an error.

        Raises:
          DataNotFoundError: no checkpoint, or not the one asked for.
          CheckpointError: the step asked for, or every step, is damaged.
        """
        steps = self.steps()
        if not steps:
            raise DataNotFoundError(
                f"no checkpoint in {self.folder}: train first, or name another --workdir"
            )
        if step is not None:
            if step not in steps:
                raise DataNotFoundError(
                    f"no checkpoint of step {step} in {self.folder}; there are {steps}"
                )
            return check(step)
        for candidate in reversed(steps):
            try:
                return check(candidate)
            except CheckpointError as error:
                _log.warning("%s; trying the one before", error)
        raise CheckpointError(f"every checkpoint in {self.folder} is damaged ({steps})")

    def _checkpointer(self) -> ocp.Checkpointer:
        return ocp.Checkpointer(ocp.CompositeCheckpointHandler())

    def _damaged(self, step: int, cause: object) -> CheckpointError:
        """Return the error of a damaged step; what is no damage is raised at once."""
        if isinstance(cause, MemoryError):
            raise cause
        absent = FileNotFoundError | NotADirectoryError | IsADirectoryError
        if isinstance(cause, OSError) and not isinstance(cause, absent):
            raise WorkdirError(
                f"checkpoint {self.folder / str(step)} cannot be read: {cause}; it may be whole: "
                "try again"
            ) from cause
        text = str(cause).strip().splitlines()
        return CheckpointError(
            f"checkpoint {self.folder / str(step)} is damaged or incomplete "
            f"({text[0][:300] if text else type(cause).__name__})"
        )


def _records_digest(records: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(records, sort_keys=True).encode()).hexdigest()
