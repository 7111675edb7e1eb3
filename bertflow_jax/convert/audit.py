"""Every tensor of a source is used or left out for a reason; anything else is an error."""

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from bertflow_jax.errors import WeightsError

Shape = tuple[int, ...]
Read = Callable[[str], np.ndarray]  # a tensor by its name in the source


def check_shapes(
    found: Mapping[str, Shape], expected: Mapping[str, Shape], source: str, what: str
) -> None:
    """Raise WeightsError naming the tensors that are missing, unexpected or misshapen.

    Args:
      found: name -> shape in the source.
      expected: name -> shape, of everything that must be there.
      source: path, for the message.
      what: they should be part of, for the message.
    """
    missing = sorted(set(expected) - set(found))
    if missing:
        raise WeightsError(
            f"{source}: {len(missing)} tensor(s) of {what} missing: {some(missing)}; the first "
            f"should have shape {expected[missing[0]]}"
        )
    unknown = sorted(set(found) - set(expected))
    if unknown:
        raise WeightsError(
            f"{source}: {len(unknown)} tensor(s) that {what} has no place for: "
            + some(f"{name} {found[name]}" for name in unknown)
        )
    for name, shape in expected.items():
        if found[name] != shape:
            raise WeightsError(f"{source}: {name} has shape {found[name]}; {what} needs {shape}")


def read_finite(read: Read, name: str, source: str) -> np.ndarray:
    """Return a tensor as float32; raises WeightsError if it is of another kind or not finite."""
    value = read(name)
    if not np.issubdtype(value.dtype, np.floating):
        raise WeightsError(f"{source}: {name} has dtype {value.dtype}, not floats")
    with np.errstate(over="ignore"):
        value = value.astype(np.float32)
    if not np.isfinite(value).all():
        raise WeightsError(f"{source}: {name} holds values that are not finite")
    return value


def some(names: Iterable[str]) -> str:
    """Return the first five names."""
    listed = list(names)
    return ", ".join(listed[:5]) + (", ..." if len(listed) > 5 else "")


def length(shape: Shape) -> int:
    """Return the number of values of a shape."""
    return math.prod(shape)
