"""Scores of a run's steps: which direction is better, and which steps are the best.

One order for everything that compares steps: NaN, infinities and "not evaluated" are worse than any
number and never the best.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

HELD_OUT = "held_out_bits_per_dim"
HIGHER_IS_BETTER = {"spearman": True, "accuracy": True, "loss": False, HELD_OUT: False}


def is_better(metric: str, value: float | None, than: float | None) -> bool:
    """Return whether a value of a metric beats another; what is not finite beats nothing."""
    if value is None or not math.isfinite(value):
        return False
    if than is None or not math.isfinite(than):
        return True
    return value > than if HIGHER_IS_BETTER[metric] else value < than


@dataclasses.dataclass(frozen=True)
class Score:
    """The run's metric at one step.

    Attributes:
      metric: of `HIGHER_IS_BETTER`.
      value: None where it is undefined or was not computed.
    """

    metric: str
    value: float | None

    def to_record(self) -> dict[str, Any]:
        """Return the score as a JSON-safe dict; what is not finite becomes None."""
        finite = self.value is not None and math.isfinite(self.value)
        return {"metric": self.metric, "value": self.value if finite else None}


def recorded_score(state: Mapping[str, Any]) -> Score | None:
    """Return the score of a step from its record `state`, None where it says nothing.

    Records of before scores have the dev record alone: it says the value of the step that was the
    best then.
    """
    if (score := state.get("score")) is not None:
        return Score(score["metric"], score["value"])
    best = state.get("best") or {}
    if best.get("step") is not None and best["step"] == state.get("step"):
        return Score(best["metric"], best["value"])
    return None


def best_steps(scores: Mapping[int, Score | None]) -> list[int]:
    """Return the steps with a finite score, the best first; of equal ones the earlier first."""
    known: dict[int, float] = {}
    for step, score in scores.items():
        if score is not None and score.value is not None and math.isfinite(score.value):
            sign = -1.0 if HIGHER_IS_BETTER[score.metric] else 1.0
            known[step] = sign * score.value
    return sorted(known, key=lambda step: (known[step], step))
