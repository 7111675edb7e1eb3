"""JAX as this package needs it, whatever the user has set: float32, one random number generator.

Settings of JAX are of a process or a thread. `own_settings` puts those that would change our
numbers, or refuse our arithmetic, to JAX's defaults for the time of one call, and leaves the
caller's as they are.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import jax
import jax.experimental
import numpy as np
from jax._src import xla_bridge

from bertflow_jax.errors import ConfigError, InputError
from bertflow_jax.jax_variables import X64

_GUARDS = (
    "jax_transfer_guard",
    "jax_transfer_guard_host_to_device",
    "jax_transfer_guard_device_to_device",
    "jax_transfer_guard_device_to_host",
)
_jax: Any = jax  # of what its types do not tell
_forked = False  # whether this process was forked from one whose JAX had started


def random_key(seed: int | jax.Array) -> jax.Array:
    """Return the random key of a seed; its numbers depend on no setting of JAX.

    Not on jax_default_prng_impl, nor on jax_random_seed_offset, which JAX adds to every seed.
    """
    if not getattr(_jax.config, "jax_random_seed_offset", 0):
        return jax.random.key(seed, impl="threefry2x32")
    # What JAX makes of a seed in 32 bits. To take the offset off before it is added overflows in
    # NumPy's integers, and an offset of more than 32 bits is one that JAX cannot add.
    low = seed.astype(np.uint32) if isinstance(seed, jax.Array) else np.uint32(int(seed) % 2**32)
    words = jax.numpy.stack([jax.numpy.uint32(0), low])
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def refuse_x64() -> None:
    """Raise ConfigError where JAX computes in float64."""
    if _jax.config.jax_enable_x64:
        raise ConfigError(X64)


def refuse_fork() -> None:
    """Raise InputError in a process that was forked from one whose JAX had started.

    JAX's threads are not in the fork: the next call would wait for them for ever.
    """
    if _forked:
        raise InputError(
            f"process {os.getpid()} was forked from one that had used JAX, and JAX would wait "
            "there for ever; start processes with multiprocessing's 'spawn' "
            "(get_context('spawn'), multiprocessing_context='spawn' of a DataLoader)"
        )


def _in_child() -> None:
    global _forked
    _forked = _forked or xla_bridge.backends_are_initialized()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_in_child)


@contextlib.contextmanager
def own_promotion() -> Iterator[None]:
    """Broadcast and mix types as JAX does by default; for functions under a caller's jax.jit too.

    Flax and distrax do so as well, which no broadcast of ours would change.

    Raises:
      InputError: as `refuse_fork`.
    """
    refuse_fork()
    config = _jax.config
    with contextlib.ExitStack() as stack:
        if config.jax_numpy_rank_promotion != "allow":
            stack.enter_context(jax.numpy_rank_promotion("allow"))
        if config.jax_numpy_dtype_promotion != "standard":
            stack.enter_context(jax.numpy_dtype_promotion("standard"))
        yield


@contextlib.contextmanager
def own_settings() -> Iterator[None]:
    """Compute in float32 and as JAX does by default inside; also a decorator.

    Where nothing else is set, nothing is done. Not for a generator: what it yields to would have
    these settings too.

    Raises:
      InputError: as `refuse_fork`.
    """
    refuse_fork()
    config = _jax.config
    with contextlib.ExitStack() as stack:
        if config.jax_enable_x64:
            stack.enter_context(_float32())
        if not config.jax_threefry_partitionable:
            stack.enter_context(jax.threefry_partitionable(True))
        stack.enter_context(own_promotion())
        if any(getattr(config, guard, None) not in (None, "allow") for guard in _GUARDS):
            stack.enter_context(jax.transfer_guard("allow"))
        yield


@contextlib.contextmanager
def run_settings(*, training: bool = False) -> Iterator[None]:
    """As `own_settings`, for what reads or writes a run, in which threads of others take part.

    Args:
      training: whether random numbers are drawn.

    Raises:
      ConfigError: JAX computes in float64, or a training would have other random numbers.
      InputError: as `refuse_fork`.
    """
    refuse_x64()
    if training and not _jax.config.jax_threefry_partitionable:
        raise ConfigError(
            "JAX_THREEFRY_PARTITIONABLE (jax_threefry_partitionable) is off: a seed would stand "
            "for other random numbers, and a resumed run would go on with others; unset it, or "
            "set it to 1"
        )
    with own_settings():
        yield


def _float32() -> contextlib.AbstractContextManager[Any]:
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(False)
    return _jax.experimental.disable_x64()  # before jax 0.8
