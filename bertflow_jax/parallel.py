"""Devices, meshes and compilation: the only file that knows how many devices there are.

A training function is pure and says nothing of devices. `compile_run_steps` compiles it with jit
over a one-axis mesh: parameters and embeddings are replicated, the batch is split, and the mean
over the batch makes XLA insert the all-reduce. One device is the same path.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bertflow_jax.compilation import encoder_options, flow_options

DATA_AXIS = "data"


def data_mesh(batch_size: int) -> Mesh:
    """Return a one-axis mesh over the most local devices that divide the batch evenly."""
    devices = jax.local_devices()
    count = max(n for n in range(1, len(devices) + 1) if batch_size % n == 0)
    return Mesh(np.asarray(devices[:count]), (DATA_AXIS,))


def compile_run_steps(
    run_steps: Callable[..., Any], mesh: Mesh
) -> Callable[[Any, Any, Any, int], Any]:
    """Compile `bertflow_jax.training.steps.make_run_steps`'s function over a mesh.

    Arguments are (state, embeddings float32[U, D], rows int32[K, B, S], count); rows are split
    along B, everything else is replicated. The result is replicated.
    """
    replicated = NamedSharding(mesh, PartitionSpec())
    split_batch = NamedSharding(mesh, PartitionSpec(None, DATA_AXIS, None))
    return jax.jit(
        run_steps,
        in_shardings=(replicated, replicated, split_batch, replicated),
        out_shardings=replicated,
        compiler_options=flow_options(mesh),
    )


def compile_train_step(
    step: Callable[..., Any], mesh: Mesh, float32: bool
) -> Callable[[Any, Any], Any]:
    """Compile `training.supervised_steps.make_train_step`'s function over a mesh.

    Arguments are (state, batch): every array of the batch is split along its first axis, the state
    is replicated. The state's buffers are given to the new state. `float32` says that the encoder
    computes in float32.
    """
    replicated = NamedSharding(mesh, PartitionSpec())
    return jax.jit(
        step,
        in_shardings=(replicated, NamedSharding(mesh, PartitionSpec(DATA_AXIS))),
        out_shardings=replicated,
        donate_argnums=0,
        compiler_options=encoder_options(mesh, float32),
    )


def compile_online_step(
    step: Callable[..., Any], mesh: Mesh, float32: bool
) -> Callable[..., tuple[Any, Any]]:
    """Compile `training.online.make_online_step`'s function over a mesh.

    Arguments are (state, encoder parameters, ids, mask); the last two are split along their first
    axis, the rest is replicated. Nothing is given away: on a loss that is not finite the loop
    still needs the state before. `float32` says that the encoder computes in float32.
    """
    replicated = NamedSharding(mesh, PartitionSpec())
    split = NamedSharding(mesh, PartitionSpec(DATA_AXIS))
    return jax.jit(
        step,
        in_shardings=(replicated, replicated, split, split),
        out_shardings=replicated,
        compiler_options=encoder_options(mesh, float32),
    )


def replicate(tree: Any, mesh: Mesh) -> Any:
    """Put every array of a pytree on all devices of the mesh."""
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec()))


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


def to_host(tree: Any) -> Any:
    """Return a pytree's arrays as numpy arrays that nobody else writes to.

    Copies: on a CPU a plain conversion is a view of the device's buffer, which a step may be given.
    """
    return jax.tree.map(lambda leaf: np.array(leaf, copy=True), tree)
