"""JAX's environment variables, as commands meet them: refused before JAX loads, or explained after.

JAX is not loaded here: what a variable says is known without the seconds that takes.
"""

import os
import re
import sys
from collections.abc import Mapping

from bertflow_jax.errors import ConfigError

X64 = (
    "JAX_ENABLE_X64 (jax_enable_x64) is on: this package computes, saves and reads float32, and "
    "float64 would make checkpoints that are read as damaged; unset it, or set it to 0"
)
_TRUE = ("y", "yes", "t", "true", "on", "1")  # as JAX reads them, in any case
_NO_BACKEND = re.compile(r"Unable to initialize backend '([^']*)': (.*?)(?: \(set JAX_|$)", re.S)
_BAD_VALUE = re.compile(r"invalid truth value|for JAX flag|invalid literal for int|enum value")


def refuse_variables(variables: Mapping[str, str] = os.environ) -> None:
    """Raise ConfigError where JAX would compute in float64."""
    if variables.get("JAX_ENABLE_X64", "").lower() in _TRUE:
        raise ConfigError(X64)


def no_docstrings() -> str:
    """Return why no flow can be used in this process, where Python leaves docstrings out."""
    if sys.flags.optimize < 2:
        return ""
    return (
        "python -OO (PYTHONOPTIMIZE=2) leaves out docstrings, which tensorflow_probability needs, "
        "and so every flow; use python or python -O, or unset PYTHONOPTIMIZE"
    )


def explained(
    error: BaseException, variables: Mapping[str, str] = os.environ
) -> BaseException | ConfigError:
    """Return an error of JAX's about a variable as one of ours that names it; others as they are.

    Args:
      error: what ended a command.
      variables: the environment.
    """
    text = str(error)
    if isinstance(error, RuntimeError) and (found := _NO_BACKEND.match(text)):
        backend, why = found[1], " ".join(found[2].split())
        given = variables.get("JAX_PLATFORMS") or variables.get("JAX_PLATFORM_NAME")
        name = f"JAX_PLATFORMS={given}" if given else "JAX"
        return ConfigError(
            f"{name}: there is no {backend} that JAX can use here ({why}); unset JAX_PLATFORMS, or "
            "compute on the CPU with JAX_PLATFORMS=cpu"
        )
    if isinstance(error, ValueError) and _BAD_VALUE.search(text) and _is_of_jax(error):
        for name, value in sorted(variables.items()):
            if not name.startswith("JAX_"):
                continue
            if name in text.upper() or repr(value).strip("'") in re.findall(r"'([^']*)'", text):
                return ConfigError(f"{name}={value}: JAX does not know this value; unset {name}")
    return error


def _is_of_jax(error: BaseException) -> bool:
    """Whether an error was raised where JAX reads its settings."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    file = "" if trace is None else trace.tb_frame.f_code.co_filename
    return os.path.join("jax", "_src", "config.py") in file
