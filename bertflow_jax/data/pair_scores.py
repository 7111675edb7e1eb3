"""Scores of labelled pairs: the range that they come from, and the cosine each is to become."""

import logging
import math

from bertflow_jax.data.sts_files import Row
from bertflow_jax.errors import DataError
from bertflow_jax.supervision_config import parse_score_range

_log = logging.getLogger(__name__)
_RANGES = {"sickr": (1.0, 5.0)}  # SICK's raters chose from 1 to 5, all others from 0 to 5
_DEFAULT_RANGE = (0.0, 5.0)


def score_range(given: str, sts_task: str | None, place: str) -> tuple[float, float]:
    """Return the lowest and the highest score.

    Args:
      given: `supervision.score_range`, "" where it says nothing.
      sts_task: whose range is known; None for files of the user's, whose range is assumed.
      place: of the scores, for the warning about that.

    Raises:
      ConfigError: what is given is no range.
    """
    if given:
        return parse_score_range(given, "supervision.score_range")
    if sts_task is not None:
        return _RANGES.get(sts_task, _DEFAULT_RANGE)
    _log.warning(
        "%s: its scores are taken to go from %g to %g; supervision.score_range says else",
        place,
        *_DEFAULT_RANGE,
    )
    return _DEFAULT_RANGE


def scaled_score(row: Row, low: float, high: float) -> float:
    """Return a gold score with its range mapped to [0, 1]; raises DataError naming its place."""
    try:
        score = float(row.gold) if row.gold.isascii() and "_" not in row.gold else math.nan
    except ValueError:
        score = math.nan
    if not low <= score <= high:  # also for NaN
        raise DataError(
            f"{row.place}: score {row.gold!r} is not a number from {low:g} to {high:g}; set "
            "supervision.score_range to the lowest and the highest score"
        )
    return (score - low) / (high - low)
