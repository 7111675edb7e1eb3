"""What the JSON file of a saved post-processor says, and in our words what is wrong with it."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bertflow_jax.data.json_files import parse_json
from bertflow_jax.errors import shown


def read_described(file: Path) -> dict[str, Any]:
    """Return the object in a JSON file; raises ValueError or OSError."""
    content = file.read_bytes()
    try:
        found = parse_json(content)
    except ValueError as error:
        raise ValueError(f"{file.name}: not valid JSON ({error})") from error
    if not isinstance(found, dict):
        raise ValueError(f"{file.name} holds no object")
    return found


def entry(described: Mapping[str, Any], name: str, file: str) -> Any:
    """Return the entry of a name; raises ValueError naming the file where it has none."""
    if name not in described:
        raise ValueError(f"{file} has no {name!r}")
    return described[name]


def object_entry(described: Mapping[str, Any], name: str, file: str) -> dict[str, Any]:
    """Return an entry that must be an object; raises ValueError as `entry`."""
    found = entry(described, name, file)
    if not isinstance(found, dict):
        raise ValueError(f"{file}: {name}={shown(found)}: must be an object")
    return found


def made_of(kind: Any, settings: Mapping[str, Any], file: str) -> Any:
    """Return a post-processor made with its saved settings.

    Args:
      kind: its class.
      settings: the arguments of its constructor by name.
      file: that they are from, for messages.

    Raises:
      ValueError: a setting that the kind has not, or lacks; or as the constructor.
    """
    arguments = inspect.signature(kind).parameters
    unknown = [name for name in settings if name not in arguments]
    lacking = [
        name
        for name, argument in arguments.items()
        if argument.default is inspect.Parameter.empty and name not in settings
    ]
    for names, what in ((unknown, "has no"), (lacking, "needs")):
        if names:
            raise ValueError(f"{file}: a {kind.name} {what} {', '.join(map(repr, names))}")
    return kind(**settings)


def shapes_entry(described: Mapping[str, Any], file: str) -> dict[str, jax.ShapeDtypeStruct]:
    """Return the shapes of the arrays, by name; raises ValueError where they are none."""
    shapes = object_entry(described, "shapes", file)
    for name, shape in shapes.items():
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError(
                f"{file}: the shape of {name} is {shown(shape)}, not a list of integers >= 0"
            )
    return {name: jax.ShapeDtypeStruct(tuple(shape), np.float64) for name, shape in shapes.items()}
