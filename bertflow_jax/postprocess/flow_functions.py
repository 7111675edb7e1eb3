"""The flow's functions of (variables, embeddings), one for all flows of a config."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax

from bertflow_jax.config import FlowConfig


def loaded_glow() -> Any:
    """Return `bertflow_jax.flow.glow`, loaded when it is first used.

    distrax takes nearly as long to load as JAX itself, which a program that only encodes need not
    wait for.
    """
    # The first use may be inside a traced function, and what modules define must not be traced.
    with jax.ensure_compile_time_eval():
        from bertflow_jax.flow import glow
    return glow


def _forward(config: FlowConfig, variables: Any, x: jax.Array) -> jax.Array:
    return loaded_glow().bijector(config, variables, x.shape[-1]).forward(x)


def _inverse(config: FlowConfig, variables: Any, z: jax.Array) -> jax.Array:
    return loaded_glow().bijector(config, variables, z.shape[-1]).inverse(z)


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
