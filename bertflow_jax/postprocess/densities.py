"""Methods of post-processors that map the embeddings to N(0, I), and of no others."""

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any

from bertflow_jax.errors import InputError


class NoDensityError(InputError, AttributeError):
    """A method that needs a density is asked of a post-processor without one.

    An AttributeError too, so that `hasattr` says whether there is one.
    """


def no_density(instance: object, method: str) -> NoDensityError:
    """Return the error of a method that needs the density which a post-processor has not."""
    return NoDensityError(
        f"{instance!r} has no {method}: it does not map the embeddings to N(0, I), so there is no "
        "density; give a search or a cross-validation its own scoring=..."
    )


class OfDensities:
    """A method that is there only where `_is_density()`, as scikit-learn's `available_if`."""

    def __init__(self, function: Callable[..., Any]):
        self._function = function
        functools.update_wrapper(self, function)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self._function
        if not instance._is_density():
            raise no_density(instance, self._function.__name__)
        return MethodType(self._function, instance)
