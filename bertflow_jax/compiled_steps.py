"""What is compiled for the devices of a run.

A training function is pure and says nothing of devices. It is compiled in one of three ways, which
give the same numbers:

    jit    over a one-axis mesh of all devices of all processes: the state is replicated, the batch
           is split, and the mean over the batch makes XLA insert the all-reduce
    fsdp   the same, with every large array of the state split over the devices too: each holds
           1/n of the parameters and of the optimiser's moments
    pmap   every device runs the step on its rows and averages (`batch_axis`)

"""

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bertflow_jax import batch_axis
from bertflow_jax.compilation import encoder_options, flow_options
from bertflow_jax.parallel import DATA_AXIS, state_shardings


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
    of_state = state_shardings(state, mesh) if mode == "fsdp" else replicated
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
