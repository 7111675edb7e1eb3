"""Which checkpoint is read, the one asked for or the newest that is whole, and what damage is."""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from bertflow_jax.data.json_files import json_fault
from bertflow_jax.errors import CheckpointError, DataNotFoundError, WorkdirError

_log = logging.getLogger(__name__)
_DO = "train again (train.py --overwrite), or bring its files back from a copy"
T = TypeVar("T")


def asked_for(steps: Sequence[int], place: str, step: int | None) -> None:
    """Raise DataNotFoundError where there is no step, or not the one asked for.

    Args:
      steps: that there are.
      place: of the checkpoints.
      step: asked for, None for any.
    """
    if not steps:
        raise DataNotFoundError(f"no checkpoint in {place}: train first, or name another --workdir")
    if step is not None and step not in steps:
        raise DataNotFoundError(f"no checkpoint of step {step} in {place}; there are {list(steps)}")


def first_good(order: Sequence[int], place: str, check: Callable[[int], T], told: set[int]) -> T:
    """Return check(step) for the first step for which it succeeds, warning of those before it.

    Args:
      order: steps, at least one.
      place: of the checkpoints.
      check: raises CheckpointError when a step is damaged.
      told: steps that were warned of already; those warned of now are added.

    Raises:
      CheckpointError: every step is damaged.
    """
    for step, following in zip(order, [*order[1:], None], strict=True):
        try:
            return check(step)
        except CheckpointError as error:
            if following is not None:
                if step not in told:
                    _log.warning("%s; trying step %d", error, following)
                told.add(step)
            elif len(order) == 1:
                raise CheckpointError(f"{error}, and there is no other: {_DO}") from error
            else:
                failed = error
    raise CheckpointError(
        f"{failed}, and so is every checkpoint in {place} ({sorted(order)}): {_DO}"
    ) from failed


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
