"""Devices: which take part, and where arrays lie on them; `compiled_steps` compiles for them.

A training function is pure and says nothing of devices: these two files alone know how many there
are. One device is the same path as many.
"""

import logging
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bertflow_jax.errors import ConfigError

_log = logging.getLogger(__name__)
DATA_AXIS = "data"

_SPLIT_FROM = 1 << 14  # elements: a smaller array is not worth its messages


def check_batch(batch_size: int, accumulate: int) -> None:
    """Raise ConfigError where pieces or processes do not divide a batch; before any long work."""
    if batch_size % accumulate:
        raise ConfigError(
            f"train.accumulate={accumulate} must divide the batch of {batch_size} examples"
        )
    if (batch_size // accumulate) % jax.process_count():
        raise ConfigError(
            f"train.batch_size={batch_size} (in {accumulate} piece(s)) must be a multiple of the "
            f"{jax.process_count()} processes"
        )


def data_mesh(batch_size: int, accumulate: int = 1) -> Mesh:
    """Return a one-axis mesh over the most devices that divide the batch evenly.

    Every process takes part with equally many devices. With `accumulate` each piece of the batch
    is divided.

    Raises:
      ConfigError: as `check_batch`.
    """
    check_batch(batch_size, accumulate)
    piece, processes = batch_size // accumulate, jax.process_count()
    own = jax.local_device_count()
    count = max(n for n in range(1, own + 1) if piece % (n * processes) == 0)
    taken: dict[int, int] = {}
    devices = []
    for device in sorted(jax.devices(), key=lambda d: (d.process_index, d.id)):
        taken[device.process_index] = taken.get(device.process_index, 0) + 1
        if taken[device.process_index] <= count:
            devices.append(device)
    if len(jax.devices()) > 1:
        _log.info(
            "a batch of %d is split over %d of %d devices",
            batch_size,
            len(devices),
            len(jax.devices()),
        )
    return Mesh(np.asarray(devices), (DATA_AXIS,))


def local_batch(batch_size: int) -> slice:
    """Return which rows of a batch this process makes."""
    size = batch_size // jax.process_count()
    return slice(jax.process_index() * size, (jax.process_index() + 1) * size)


def split_batch(batch: Any, mesh: Mesh, mode: str = "jit", axis: int = 0) -> Any:
    """Return a batch as the compiled step of the mode takes it.

    Args:
      batch: tree of arrays; each process gives its rows (`local_batch`).
      mesh: of `data_mesh`.
      mode: of `config.PARALLEL`.
      axis: of the rows.
    """
    if mode == "pmap":
        own = sum(d.process_index == jax.process_index() for d in mesh.devices.flat)

        def split(x: Any) -> Any:
            shape = x.shape
            return x.reshape(*shape[:axis], own, shape[axis] // own, *shape[axis + 1 :])

        return jax.tree.map(split, batch)
    if jax.process_count() == 1:
        return batch
    sharding = NamedSharding(mesh, PartitionSpec(*[None] * axis, DATA_AXIS))
    return jax.tree.map(
        lambda rows: jax.make_array_from_process_local_data(sharding, np.asarray(rows)), batch
    )


def state_shardings(state: Any, mesh: Mesh) -> Any:
    """Return how `fsdp` splits every array of a state: along its longest axis that divides."""

    def of(leaf: Any) -> NamedSharding:
        count = mesh.devices.size
        axes = [a for a in range(len(leaf.shape)) if leaf.shape[a] % count == 0]
        if not axes or np.prod(leaf.shape) < _SPLIT_FROM:
            return NamedSharding(mesh, PartitionSpec())
        axis = max(axes, key=lambda a: (leaf.shape[a], a))
        return NamedSharding(mesh, PartitionSpec(*[None] * axis, DATA_AXIS))

    return jax.tree.map(of, state)


def gather_over(mesh: Mesh) -> Callable[[Any], Any]:
    """Return a function that makes parameters split by `fsdp` whole on every device.

    Without it XLA may move the batch in place of the parameters.
    """
    whole = NamedSharding(mesh, PartitionSpec())
    return lambda tree: jax.tree.map(
        lambda leaf: jax.lax.with_sharding_constraint(leaf, whole), tree
    )


def place(state: Any, mesh: Mesh, mode: str = "jit") -> Any:
    """Put a state on the devices, as the compiled step of the mode takes it."""
    if mode == "pmap":
        return state
    if mode == "jit":
        return replicate(state, mesh)
    return jax.tree.map(_put, state, state_shardings(state, mesh))


def replicate(tree: Any, mesh: Mesh) -> Any:
    """Put every array of a pytree on all devices of the mesh; each process has the same values."""
    sharding = NamedSharding(mesh, PartitionSpec())
    return jax.tree.map(lambda leaf: _put(leaf, sharding), tree)


def _put(leaf: Any, sharding: NamedSharding) -> jax.Array:
    if isinstance(leaf, jax.Array) and leaf.sharding == sharding:
        return leaf
    if sharding.is_fully_addressable:
        return jax.device_put(leaf, sharding)
    host = np.asarray(leaf)
    return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])


def to_host(tree: Any) -> Any:
    """Return copies of arrays on any devices of any process, as numpy; all processes must call it.

    Copies: numpy's view of a CPU buffer would change when a step is given the buffer.
    """

    def copy(leaf: Any) -> np.ndarray:
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            if leaf.is_fully_replicated:
                leaf = leaf.addressable_data(0)
            else:
                leaf = multihost_utils.process_allgather(leaf, tiled=True)
        return np.array(leaf, copy=True)

    return jax.tree.map(copy, tree)


def local_mesh() -> Mesh:
    """Return a one-axis mesh over all devices of this process."""
    return Mesh(np.asarray(jax.local_devices()), (DATA_AXIS,))


def default_batch_size() -> int:
    """Return the batch_size of embedding where nobody asks for one; see `data.batches`.

    64 on a CPU: a call of 1,024 tokens fills the caches of two cores, one of 4,096 is a fifth
    slower. 1,024 a device elsewhere.
    """
    return 64 if jax.default_backend() == "cpu" else 1024 * jax.local_device_count()
