"""Compilation: XLA's options, and compiled programs kept between processes."""

import functools
import logging
import os

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bertflow_jax.errors import ConfigError
from bertflow_jax.paths import compilation_cache_dir, open_to_others

_log = logging.getLogger(__name__)


@functools.cache
def _accepted(kinds: str) -> dict[str, str]:
    """Return compiler options by which XLA for CPU hands only these kinds of operations to YNNPACK.

    By default (seen with jaxlib 0.10) it hands over every matmul. For the flow's 32 x 32 products
    that call costs more than the product: without it the same steps run 1.7 times as fast
    (`python -m benchmarks.fit_flow`). The encoder's large float32 products are faster in Eigen,
    and its reductions in YNNPACK: 1.13 to 1.17 times as fast in all (docs/benchmarks.md).
    Other backends, and a version that does not know the option, do without.
    """
    options = {"xla_cpu_experimental_ynn_fusion_type": kinds}
    on_cpu = NamedSharding(Mesh(np.asarray(jax.devices("cpu")[:1]), ("x",)), PartitionSpec())
    try:
        jax.jit(lambda x: x, in_shardings=on_cpu, compiler_options=options).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return {}
    return options


def flow_options(mesh: Mesh) -> dict[str, str]:
    """Return the compiler options of programs that run a flow alone; see `_accepted`."""
    return _accepted("") if _platform(mesh) == "cpu" else {}


def encoder_options(mesh: Mesh, float32: bool) -> dict[str, str]:
    """Return the compiler options of programs that run an encoder; see `_accepted`."""
    on_cpu = float32 and _platform(mesh) == "cpu"
    return _accepted("LIBRARY_FUSION_TYPE_REDUCE") if on_cpu else {}


def _platform(mesh: Mesh) -> str:
    # Of the mesh, not of this process: programs are also compiled for devices that are elsewhere.
    return mesh.devices.flat[0].platform


def use_compilation_cache() -> None:
    """Keep compiled programs between processes, in the user's cache folder.

    Does nothing where JAX has a cache folder already, or where the environment variable
    BERTFLOW_COMPILATION_CACHE is `off` (or 0, no, false); another value names the folder.
    """
    if getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    try:
        path = compilation_cache_dir()
    except ConfigError as error:
        if os.environ.get("BERTFLOW_COMPILATION_CACHE", "").strip():
            raise  # the user's own path is wrong
        _log.warning("compiled programs are not kept: %s", error)
        return
    if path is None:
        return
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        _log.warning("compiled programs are not kept: %s cannot be made (%s)", path, error)
        return
    if reason := open_to_others(path):
        _log.warning("compiled programs of %s are not used: %s", path, reason)
        return
    jax.config.update("jax_compilation_cache_dir", str(path))
    # A batch shape of a small encoder compiles in less than JAX's default minimum of a second.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
