"""Checks of arguments and of the fields of a configuration, each naming what it refuses."""

import dataclasses
import numbers
import re
from collections.abc import Mapping
from typing import Any

from bertflow_jax.errors import ConfigError, InputError, shown

_MAX_INT = 2**31 - 1  # counters on the device are int32
_MAX_SEED = 2**63 - 1
_MAX_FLOAT = 3e38  # numbers on the device are float32
_MOST_PROFILED = 1000  # steps: a trace takes some MB a step; TensorBoard cannot show more
# Flags that a fitted run has settled.
ENCODER_SETTINGS = ("revision", "pooling", "max_length", "dtype", "flow")


def check_count(value: Any, name: str, least: int) -> int:
    """Return an integer argument, or raise InputError for another type or one below `least`."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise InputError(f"{name}={shown(value)}: must be an integer >= {least}")
    return int(value)


def check_switch(value: Any, name: str) -> bool:
    """Return a true or false argument, or raise InputError for anything else."""
    # NumPy's own type of truth is no bool.
    if not isinstance(value, bool) and type(value).__name__ not in ("bool_", "bool"):
        raise InputError(f"{name}={shown(value)}: must be True or False")
    return bool(value)


def check_encoder_settings(given: Mapping[str, object]) -> None:
    """Raise ConfigError for a setting of the encoder (name -> value or None) beside --workdir."""
    for name, value in given.items():
        if value is not None:
            raise ConfigError(
                f"--{name} goes with --encoder; a --workdir keeps the setting it was trained with"
            )


def require(ok: bool, field: str, value: object, what: str) -> None:
    """Raise ConfigError unless ok, saying what the field must be."""
    if not ok:
        raise ConfigError(f"{field}={shown(value)}: {what}")


def check_choice(field: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise ConfigError unless the value is one of the choices."""
    require(
        isinstance(value, str) and value in choices,
        field,
        value,
        f"must be one of {', '.join(choices)}",
    )


def check_least(section: Any, prefix: str, **least: int) -> None:
    """Raise ConfigError unless every named field of the section is at least its bound."""
    for name, bound in least.items():
        value = getattr(section, name)
        require(value >= bound, prefix + name, value, f"must be >= {bound}")


def check_types(section: Any, prefix: str = "") -> None:
    """Raise ConfigError unless every field has its annotated type and every number is bounded.

    A float field takes an int too; a bool is no number here. A number of NumPy's becomes Python's,
    for configs are written as JSON.

    Args:
      section: a dataclass whose annotations are plain types; it is changed where a field holds a
        number of NumPy's.
      prefix: of the fields' names in the message.
    """
    for field in dataclasses.fields(section):
        name, value, kind = prefix + field.name, getattr(section, field.name), field.type
        if type(value).__module__ == "numpy":
            if kind is int and isinstance(value, numbers.Integral):
                value = int(value)
            elif kind is float and isinstance(value, numbers.Real):
                value = float(value)
            setattr(section, field.name, value)
        allowed: Any = (int, float) if kind is float else kind
        ok = isinstance(value, allowed) and (kind is bool or not isinstance(value, bool))
        expected = getattr(kind, "__name__", kind)
        require(ok, name, value, f"must be of type {expected}, not {type(value).__name__}")
        if kind is float:
            # False for NaN too.
            require(abs(value) <= _MAX_FLOAT, name, value, f"must be finite, at most {_MAX_FLOAT}")
        elif kind is int:
            most = _MAX_SEED if field.name == "seed" else _MAX_INT
            require(value <= most, name, value, f"must be <= {most}")


def parse_profile_steps(text: str, field: str) -> tuple[int, int] | None:
    """Return (start, stop) of "START:STOP", None for "".

    Args:
      text: as in the config.
      field: its name in messages.

    Raises:
      ConfigError: anything else, no step at all or more than a trace can hold; names the field.
    """
    if not text.strip():
        return None
    found = re.fullmatch(r"\s*(\d{1,9})\s*:\s*(\d{1,9})\s*", text, re.ASCII)
    if found is None:
        raise ConfigError(
            f"{field}={shown(text)}: must be START:STOP, two numbers of steps such as 10:15, "
            "or empty"
        )
    start, stop = int(found[1]), int(found[2])
    if not start < stop <= start + _MOST_PROFILED:
        raise ConfigError(
            f"{field}={shown(text)}: holds {stop - start} steps; it must hold 1 to "
            f"{_MOST_PROFILED}, as {start}:{start + 5} does"
        )
    return start, stop


def parse_step(text: str | int | None) -> int | str | None:
    """Return the step that --step names, `best`, or None for the newest.

    Raises:
      ConfigError: anything else.
    """
    whole = isinstance(text, int) and not isinstance(text, bool)
    if text is None or text == "best" or whole:
        return text
    if not isinstance(text, str):
        raise ConfigError(f"--step={shown(text)}: must be the number of a step, or best")
    if not re.fullmatch(r"\d{1,10}", text.strip(), re.ASCII):
        raise ConfigError(f"--step={text}: must be the number of a step, or best")
    return int(text)
