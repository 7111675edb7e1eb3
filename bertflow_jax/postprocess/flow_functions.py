"""The flow's functions of (variables, embeddings), one for all flows of a config."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import flax.traverse_util
import jax
import numpy as np

from bertflow_jax.checks import check_count
from bertflow_jax.config import FlowConfig
from bertflow_jax.embedding_checks import check_results
from bertflow_jax.errors import InputError, shown
from bertflow_jax.jax_settings import own_promotion, own_settings, refuse_fork
from bertflow_jax.postprocess.expected_arrays import check_arrays

_MOST = 2**31 - 1  # sizes on the device are int32
_ROWS = 1024  # rows of one device call; shorter inputs are padded to a power of two


def loaded_glow() -> Any:
    """Return `bertflow_jax.flow.glow`, loaded when it is first used.

    distrax takes nearly as long to load as JAX itself, which a program that only encodes need not
    wait for. Raises InputError in a fork that JAX cannot be used in.
    """
    refuse_fork()
    # The first use may be inside a traced function, and what modules define must not be traced.
    with jax.ensure_compile_time_eval():
        from bertflow_jax.flow import glow
    return glow


@own_promotion()
def _forward(config: FlowConfig, variables: Any, x: jax.Array) -> jax.Array:
    return loaded_glow().bijector(config, variables, x.shape[-1]).forward(x)


@own_promotion()
def _inverse(config: FlowConfig, variables: Any, z: jax.Array) -> jax.Array:
    return loaded_glow().bijector(config, variables, z.shape[-1]).inverse(z)


@own_promotion()
def _log_prob(config: FlowConfig, variables: Any, x: jax.Array) -> jax.Array:
    return loaded_glow().distribution(config, variables, x.shape[-1]).log_prob(x)


_FUNCTIONS = {"forward": _forward, "inverse": _inverse, "log_prob": _log_prob}


def compiled_flow(what: str, config: FlowConfig) -> Callable[[Any, Any], jax.Array]:
    """Return the compiled `forward`, `inverse` or `log_prob` of (variables, rows float32[N, D]).

    Flows of one config share it: in a process that fits or loads many, nothing is compiled again.
    """
    return _compiled(what, dataclasses.astuple(config))


def pure_flow(what: str, config: FlowConfig) -> Callable[[Any, Any], jax.Array]:
    """Return the function that `compiled_flow` compiles; flows of one config share it."""
    return _pure(what, dataclasses.astuple(config))


@functools.lru_cache(maxsize=64)
def _pure(what: str, fields: tuple[Any, ...]) -> Callable[[Any, Any], jax.Array]:
    return functools.partial(_FUNCTIONS[what], FlowConfig(*fields))


@functools.lru_cache(maxsize=64)
def _compiled(what: str, fields: tuple[Any, ...]) -> Callable[[Any, Any], jax.Array]:
    return jax.jit(_pure(what, fields))


@own_settings()
def in_few_shapes(what: str, config: FlowConfig, variables: Any, rows: np.ndarray) -> np.ndarray:
    """Return what `compiled_flow` makes of rows float32[N, D], in calls of a few fixed shapes.

    Raises:
      InputError: as `check_results`.
    """
    compiled, parts = compiled_flow(what, config), []
    for start in range(0, max(len(rows), 1), _ROWS):
        part = rows[start : start + _ROWS]
        size = min(_ROWS, 1 << max(0, len(part) - 1).bit_length())
        padded = np.zeros((size, rows.shape[1]), np.float32)
        padded[: len(part)] = part
        result = np.asarray(compiled(variables, padded))[: len(part)]
        parts.append(check_results(result, f"{what} of the flow", start))
    return np.concatenate(parts)


@own_settings()
def sampled(config: FlowConfig, variables: Any, latents: jax.Array) -> np.ndarray:
    """Return the embeddings float32[n, D] of latents float32[n, D]."""
    return np.asarray(loaded_glow().bijector(config, variables, latents.shape[-1]).inverse(latents))


@own_settings()
def expected_variables(config: FlowConfig, features: int) -> dict[str, jax.ShapeDtypeStruct]:
    """Return the arrays of a flow over D dimensions, as `params/...` -> shape and type.

    Raises:
      ConfigError: an impossible config, or too few dimensions for its levels.
      InputError: `features` is no number of dimensions.
    """
    if check_count(features, "features", 1) > _MOST:
        raise InputError(f"features={shown(features)}: must be at most {_MOST}")
    found = jax.eval_shape(lambda: loaded_glow().init_variables(config, features, 0))
    return flax.traverse_util.flatten_dict(found, sep="/")


def own_config(config: Any) -> FlowConfig:
    """Return a copy of a config; raises InputError for what is none."""
    if not isinstance(config, FlowConfig):
        raise InputError(f"config={shown(config)}: must be a FlowConfig")
    return dataclasses.replace(config)


def check_variables(variables: Any, config: FlowConfig, features: int) -> None:
    """Raise InputError naming the first array that is not as `expected_variables` has it."""
    if not isinstance(variables, Mapping):
        raise InputError(f"variables={shown(variables)}: must be a dict of arrays")
    flat = flax.traverse_util.flatten_dict(dict(variables))
    check_arrays(
        {"/".join(map(str, path)): leaf for path, leaf in flat.items()},
        expected_variables(config, features),
        where="variables",
        wanted_by=f"a flow of this config over {features} dimensions",
        error=InputError,
    )
