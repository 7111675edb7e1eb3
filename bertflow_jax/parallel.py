"""Devices, meshes and compilation: the only file that knows how many devices there are.

A training function is pure and says nothing of devices. It is compiled in one of three ways, which
give the same numbers:

    jit    over a one-axis mesh of all devices of all processes: the state is replicated, the batch
           is split, and the mean over the batch makes XLA insert the all-reduce
    fsdp   the same, with every large array of the state split over the devices too: each holds
           1/n of the parameters and of the optimiser's moments
    pmap   every device runs the step on its rows and averages (`batch_axis`)

One device is the same path.
"""

import logging
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bertflow_jax import batch_axis
from bertflow_jax.compilation import encoder_options, flow_options
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


def compile_run_steps(
    run_steps: Callable[..., Any], mesh: Mesh, mode: str = "jit"
) -> Callable[[Any, Any, Any, int], Any]:
    """Compile `bertflow_jax.training.steps.make_run_steps`'s function over a mesh.

    Arguments are (state, embeddings float32[U, D], rows int32[K, B, S], count); rows are split
    along B (`split_batch`), everything else is replicated (`place`), as is the result.
    """
    if mode == "pmap":
        return _pmapped(run_steps, mesh, (None, None, 1, None))
    replicated = NamedSharding(mesh, PartitionSpec())
    split = NamedSharding(mesh, PartitionSpec(None, DATA_AXIS, None))
    return jax.jit(
        run_steps,
        in_shardings=(replicated, replicated, split, replicated),
        out_shardings=replicated,
        compiler_options=flow_options(mesh),
    )


def compile_train_step(
    step: Callable[..., Any], mesh: Mesh, float32: bool, mode: str = "jit", state: Any = None
) -> Callable[[Any, Any], Any]:
    """Compile `training.supervised_steps.make_train_step`'s function over a mesh.

    Arguments are (state, batch): every array of the batch is split along its first axis
    (`split_batch`); the state is as `place` puts it, and its buffers are given to the new state.
    `float32` says that the encoder computes in float32. `fsdp` needs a `state`, or its shapes.
    """
    if mode == "pmap":
        return _pmapped(step, mesh, (None, 0))
    replicated = NamedSharding(mesh, PartitionSpec())
    split = NamedSharding(mesh, PartitionSpec(DATA_AXIS))
    of_state = _shardings(state, mesh) if mode == "fsdp" else replicated
    return jax.jit(
        step,
        in_shardings=(of_state, split),
        out_shardings=(of_state, replicated),
        donate_argnums=0,
        compiler_options=encoder_options(mesh, float32),
    )


def compile_online_step(
    step: Callable[..., Any], mesh: Mesh, float32: bool, mode: str = "jit"
) -> Callable[..., tuple[Any, Any]]:
    """Compile `training.online.make_online_step`'s function over a mesh.

    Arguments are (state, encoder parameters, ids, mask); the last two are split along their first
    axis (`split_batch`), the rest is replicated (`place`). Nothing is given away: on a loss
    that is not finite the loop still needs the state before. `float32` says that the encoder
    computes in float32.
    """
    if mode == "pmap":
        return _pmapped(step, mesh, (None, None, 0, 0))
    replicated = NamedSharding(mesh, PartitionSpec())
    split = NamedSharding(mesh, PartitionSpec(DATA_AXIS))
    return jax.jit(
        step,
        in_shardings=(replicated, replicated, split, split),
        out_shardings=replicated,
        compiler_options=encoder_options(mesh, float32),
    )


def _pmapped(
    step: Callable[..., Any], mesh: Mesh, in_axes: tuple[int | None, ...]
) -> Callable[..., Any]:
    """Return step compiled with pmap; what has an axis is split along it."""

    def on_one_device(*args: Any) -> Any:
        with batch_axis.split_over(DATA_AXIS):
            return step(*args)

    devices = list(mesh.devices.flat)
    return jax.pmap(
        on_one_device, axis_name=DATA_AXIS, in_axes=in_axes, out_axes=None, devices=devices
    )


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


def _shardings(state: Any, mesh: Mesh) -> Any:
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
    return jax.tree.map(_put, state, _shardings(state, mesh))


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


def compile_embed(embed: Callable[..., Any], mesh: Mesh, float32: bool) -> Callable[..., Any]:
    """Compile embed(params, input_ids, attention_mask, normalize) -> float32[R * S, E] over a mesh.

    Arguments are a pytree, int32[R, T], int32[R, T] and bool[].
    R is split over the mesh, everything else is replicated; no device waits for another. Nothing
    is donated: a call's own inputs are 8 bytes a token, and no result has their type, so that XLA
    reports them as not usable. `float32` says that the encoder computes in float32.
    """
    replicated = NamedSharding(mesh, PartitionSpec())
    split_rows = NamedSharding(mesh, PartitionSpec(DATA_AXIS))
    return jax.jit(
        embed,
        in_shardings=(replicated, split_rows, split_rows, replicated),
        out_shardings=split_rows,
        compiler_options=encoder_options(mesh, float32),
    )


def local_mesh() -> Mesh:
    """Return a one-axis mesh over all devices of this process."""
    return Mesh(np.asarray(jax.local_devices()), (DATA_AXIS,))


def default_batch_size() -> int:
    """Return the batch_size of embedding where nobody asks for one; see `data.batches`.

    64 on a CPU: a call of 1,024 tokens fills the caches of two cores, one of 4,096 is a fifth
    slower. 1,024 a device elsewhere.
    """
    return 64 if jax.default_backend() == "cpu" else 1024 * jax.local_device_count()
