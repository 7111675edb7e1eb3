"""Devices, meshes and compilation: the only file that knows how many devices there are.

A training function is pure and says nothing of devices. `compile_run_steps` compiles it with jit
over a one-axis mesh: parameters and embeddings are replicated, the batch is split, and the mean
over the batch makes XLA insert the all-reduce. One device is the same path.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

DATA_AXIS = "data"


def data_mesh(batch_size: int) -> Mesh:
    """Return a one-axis mesh over the most local devices that divide the batch evenly."""
    devices = jax.local_devices()
    count = max(n for n in range(1, len(devices) + 1) if batch_size % n == 0)
    return Mesh(np.asarray(devices[:count]), (DATA_AXIS,))


@functools.cache
def _small_matmul_options() -> dict[str, str]:
    """Return compiler options for programs of many small matmuls, on this backend and version.

    XLA for CPU (seen with jaxlib 0.10) hands every matmul to a library whose call costs more than
    the flow's 32 x 32 products: without it the same steps run 1.7 times as fast
    (`python -m benchmarks.fit_flow`). A version that does not know the option does without.
    """
    options = {"xla_cpu_experimental_ynn_fusion_type": ""}
    if jax.default_backend() != "cpu":
        return {}
    try:
        jax.jit(lambda x: x, compiler_options=options).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return {}
    return options


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
        compiler_options=_small_matmul_options(),
    )


def replicate(tree: Any, mesh: Mesh) -> Any:
    """Put every array of a pytree on all devices of the mesh."""
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec()))
