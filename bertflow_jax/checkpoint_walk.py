"""Which checkpoint is read, the one asked for or the newest that is whole, and what damage is."""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from bertflow_jax.checkpoint_steps import LocalSteps
from bertflow_jax.data.json_files import json_fault
from bertflow_jax.errors import CheckpointError, DataNotFoundError, WorkdirError

_log = logging.getLogger(__name__)
_DO = "train again (train.py --overwrite), or bring its files back from a copy"
_LOOKS = 5  # at the steps, where those that were there go
T = TypeVar("T")


def asked_for(steps: Sequence[int], found: LocalSteps, step: int | None) -> None:
    """Raise DataNotFoundError where there is no step, or not the one asked for.

    Args:
      steps: that there are.
      found: the checkpoints.
      step: asked for, None for any.
    """
    if not steps:
        do = _wait(found) if found.run_at_work() else "train first, or name another --workdir"
        raise DataNotFoundError(f"no checkpoint in {found.place}: {do}")
    if step is not None and step not in steps:
        raise DataNotFoundError(
            f"no checkpoint of step {step} in {found.place}; there are {list(steps)}"
        )


def the_one(step: int, found: LocalSteps, check: Callable[[int], T]) -> T:
    """Return check(step) for a step that was asked for by number.

    Args:
      step: the step.
      found: the checkpoints.
      check: raises CheckpointError when it is damaged.

    Raises:
      CheckpointError: it is damaged.
      DataNotFoundError: it has been deleted meanwhile.
    """
    try:
        return check(step)
    except CheckpointError as error:
        if found.is_gone(step):
            raise DataNotFoundError(f"{gone(found.place, step)}: {_wait(found)}") from error
        if found.run_at_work():
            raise CheckpointError(f"{error}: {_wait(found)}") from error
        raise


def first_good(
    order: Sequence[int], found: LocalSteps, check: Callable[[int], T], told: set[int]
) -> T:
    """Return check(step) for the first step for which it succeeds, warning of those before it.

    Where steps have gone meanwhile, for a run that saves deletes older ones, those that have come
    are tried too.

    Args:
      order: steps, at least one.
      found: the checkpoints.
      check: raises CheckpointError when a step is damaged.
      told: damaged steps that were warned of already; those warned of now are added.

    Raises:
      CheckpointError: every step is damaged.
      DataNotFoundError: every step has been deleted meanwhile.
    """
    waiting, looks = list(order), _LOOKS
    bad: dict[int, CheckpointError] = {}
    lost: set[int] = set()
    while True:
        step = waiting.pop(0)
        try:
            return check(step)
        except CheckpointError as error:
            said = str(error)
            if found.is_gone(step):
                lost.add(step)
                said = gone(found.place, step)
            else:
                bad[step] = error
            cause = error
        if not waiting and lost and looks:
            looks -= 1
            waiting = [new for new in reversed(found.look_again()) if new not in bad]
        if not waiting:
            break
        if step not in told:
            _log.warning("%s; trying step %d", said, waiting[0])
        if step in bad:
            told.add(step)
    tried = sorted(bad | dict.fromkeys(lost))
    do = _wait(found) if lost or found.run_at_work() else _DO
    if len(tried) == 1:
        rest = "" if lost else ", and there is no other"
    elif bad and lost:
        rest = f", and every checkpoint in {found.place} ({tried}) is damaged or gone"
    elif lost:
        rest = f", and so is every checkpoint that was in {found.place} ({tried})"
    else:
        rest = f", and so is every checkpoint in {found.place} ({tried})"
    raise (CheckpointError if bad else DataNotFoundError)(f"{said}{rest}: {do}") from cause


def gone(place: str, step: int) -> str:
    """Return what a message says of a step that was there and is no more."""
    return f"checkpoint {place}/{step} is gone"


def _wait(found: LocalSteps) -> str:
    run = "is a run at work there?"
    if found.run_at_work():
        run = f"a run is at work in {found.folder.parent} (it holds its lock)."
    return f"{run} Wait for its next checkpoint, or name another --workdir"


def damaged(place: str, step: int, cause: object) -> CheckpointError:
    """Return the error of a damaged step.

    Args:
      place: of the checkpoints.
      step: that is damaged.
      cause: what was found, or what reading it raised; what is no damage is raised at once.

    Raises:
      MemoryError: it is the cause.
      WorkdirError: the files cannot be read, and may be whole.
    """
    if isinstance(cause, MemoryError):
        raise cause
    absent = FileNotFoundError | NotADirectoryError | IsADirectoryError
    if isinstance(cause, OSError) and not isinstance(cause, absent):
        raise WorkdirError(
            f"checkpoint {place}/{step} cannot be read: {cause}; it may be whole: try again"
        ) from cause
    said = json_fault(cause) if isinstance(cause, BaseException) else str(cause)
    text = said.strip().splitlines()
    return CheckpointError(
        f"checkpoint {place}/{step} is damaged or incomplete "
        f"({text[0][:300] if text else type(cause).__name__})"
    )
