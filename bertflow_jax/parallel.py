"""Devices, meshes and compilation: the only file that knows how many devices there are.

A training function is pure and says nothing of devices. `compile_run_steps` compiles it with jit
over a one-axis mesh: parameters and embeddings are replicated, the batch is split, and the mean
over the batch makes XLA insert the all-reduce. One device is the same path.
"""

import functools
import logging
import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bertflow_jax.errors import ConfigError
from bertflow_jax.paths import default_cache_dir, user_path

_log = logging.getLogger(__name__)
DATA_AXIS = "data"


def data_mesh(batch_size: int) -> Mesh:
    """Return a one-axis mesh over the most local devices that divide the batch evenly."""
    devices = jax.local_devices()
    count = max(n for n in range(1, len(devices) + 1) if batch_size % n == 0)
    return Mesh(np.asarray(devices[:count]), (DATA_AXIS,))


@functools.cache
def _library_options(kinds: str) -> dict[str, str]:
    """Return compiler options by which XLA for CPU hands only these kinds of operations to YNNPACK.

    By default (seen with jaxlib 0.10) it hands over every matmul. For the flow's 32 x 32 products
    that call costs more than the product: without it the same steps run 1.7 times as fast
    (`python -m benchmarks.fit_flow`). The encoder's large float32 products are faster in Eigen,
    and its reductions in YNNPACK: 1.13 to 1.17 times as fast in all (docs/benchmarks.md).
    Other backends, and a version that does not know the option, do without.
    """
    options = {"xla_cpu_experimental_ynn_fusion_type": kinds}
    if jax.default_backend() != "cpu":
        return {}
    try:
        jax.jit(lambda x: x, compiler_options=options).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return {}
    return options


def _encoder_options(float32: bool) -> dict[str, str]:
    """Return the compiler options of programs that run an encoder; see `_library_options`."""
    return _library_options("LIBRARY_FUSION_TYPE_REDUCE") if float32 else {}


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
        compiler_options=_library_options(""),
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
        compiler_options=_encoder_options(float32),
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
        compiler_options=_encoder_options(float32),
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
        compiler_options=_encoder_options(float32),
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


def use_compilation_cache() -> None:
    """Keep compiled programs between processes, in the user's cache folder.

    Does nothing where JAX has a cache folder already, or where the environment variable
    BERTFLOW_COMPILATION_CACHE is `off` (or 0, no, false); another value names the folder.
    """
    folder = os.environ.get("BERTFLOW_COMPILATION_CACHE", "").strip()
    if folder.lower() in ("off", "0", "no", "false") or getattr(
        jax.config, "jax_compilation_cache_dir", None
    ):
        return
    if folder:
        path = user_path(folder, "BERTFLOW_COMPILATION_CACHE")
    else:
        try:
            path = default_cache_dir() / "xla"
        except ConfigError as error:
            _log.warning("compiled programs are not kept: %s", error)
            return
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        _log.warning("compiled programs are not kept: %s cannot be made (%s)", path, error)
        return
    jax.config.update("jax_compilation_cache_dir", str(path))
    # A batch shape of a small encoder compiles in less than JAX's default minimum of a second.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
