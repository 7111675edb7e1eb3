"""Fields of configs by name: from nested dicts, and as flags name them."""

import dataclasses
from typing import Any

from bertflow_jax.errors import ConfigError, shown


def from_dict(cls: Any, fields: dict[str, Any], prefix: str) -> Any:
    """Return a config, or a section of one, with fields as `dataclasses.asdict` gives them.

    Args:
      cls: the class of it.
      fields: name -> value; what is left out has its default.
      prefix: of the fields' names in messages.

    Raises:
      ConfigError: no dict, or a field that there is not.
    """
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        what = prefix.removesuffix(".") or "fields"
        raise ConfigError(f"{what}={shown(fields)}: must be a dict of config fields by name")
    known = {field.name: field for field in dataclasses.fields(cls)}
    unknown = sorted(set(fields) - set(known))
    if unknown:
        raise ConfigError(
            f"unknown config field(s): {', '.join(prefix + name for name in unknown)}"
        )
    kwargs = {}
    for name, value in fields.items():
        kind = known[name].type
        nested = dataclasses.is_dataclass(kind) and isinstance(value, dict)
        kwargs[name] = from_dict(kind, value, f"{prefix}{name}.") if nested else value
    return cls(**kwargs)


def field_names(cls: Any, prefix: str = "") -> list[str]:
    """Return the dotted names of the fields of a config class, as in --config.NAME=value."""
    names: list[str] = []
    for field in dataclasses.fields(cls):
        name = prefix + field.name
        names += (
            field_names(field.type, f"{name}.") if dataclasses.is_dataclass(field.type) else [name]
        )
    return names
