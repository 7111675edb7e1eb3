"""What a chain of post-processors may be made of."""

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from bertflow_jax.errors import ConfigError, InputError, shown
from bertflow_jax.postprocess.base import PostProcessor

# What a chain asks of a step.
_NEEDED = (
    *("name", "features", "latent_features", "get_params", "fit", "fit_examples"),
    *("transform", "inverse_transform", "save", "pure"),
)


def check_steps(given: Any) -> tuple[PostProcessor, ...]:
    """Return the steps of a chain.

    Raises:
      ConfigError: none.
      InputError: what is no list, something in it that is no post-processor (names its place), or
        one object twice, also within a `Compose` among them.
    """
    try:
        unordered = isinstance(given, str | bytes | Mapping | Set)
        steps: tuple[Any, ...] | None = None if unordered else tuple(given)
    except TypeError:
        steps = None
    if steps is None:
        raise InputError(
            f"steps={shown(given)}: must be a list of post-processors, as [Standardize(), NATSV(6)]"
        )
    if not steps:
        raise ConfigError("Compose needs at least one post-processor")
    for place, step in enumerate(steps):
        if isinstance(step, type):
            raise InputError(
                f"steps[{place}] is the class {step.__name__}: make an object of it, "
                f"{step.__name__}(...)"
            )
        if lacking := [name for name in _NEEDED if not hasattr(step, name)]:
            raise InputError(
                f"steps[{place}]={shown(step)}: must be a post-processor, as Standardize(); it has "
                f"no {lacking[0]}"
            )
    objects = list(single(steps))
    for place, step in enumerate(objects):
        if any(step is other for other in objects[:place]):
            raise InputError(
                f"Compose was given one {step.name} object twice: the second fit would replace "
                "the first; make two"
            )
    return steps


def check_chain(steps: Sequence[PostProcessor]) -> None:
    """Raise InputError naming a fitted step that takes other vectors than the one before gives.

    A step that knows the encoder of its vectors (`Flow.fitted_on`) has its place before all others.
    """
    for place, (before, step) in enumerate(itertools.pairwise(steps), 1):
        if getattr(step, "fitted_on", None) is not None:
            raise InputError(
                f"steps[{place}], a {step.name}, was fitted on an encoder's vectors, not on what "
                f"comes before it, a {before.name}; put it first, or fit them together"
            )
        given, taken = before.latent_features, step.features
        if given is not None and taken is not None and given != taken:
            raise InputError(
                f"steps[{place}], a {step.name}, was fitted on {taken} dimensions, and what comes "
                f"before it, a {before.name}, gives {given}; fit them together"
            )


def single(steps: Sequence[Any]) -> Iterator[PostProcessor]:
    """Yield the steps, of a `Compose` among them its own."""
    for step in steps:
        yield from single(step.steps) if step.name == "compose" else (step,)
