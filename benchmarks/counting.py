"""What the embedding benchmarks count and compare with: operations, plain matmuls, medians."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from bertflow_jax.config import FlowConfig
from bertflow_jax.encoder.bert_config import BertConfig
from bertflow_jax.flow.coupling import split_sizes


def flops(config: BertConfig, rows: int, tokens: int) -> float:
    """Return the floating-point operations of the matmuls of one batch [rows, tokens]."""
    width, inner = config.hidden_size, config.intermediate_size
    a_token = 2 * (4 * width * width + 2 * width * inner) + 4 * tokens * width
    return float(rows * tokens * config.num_hidden_layers * a_token)


def flow_flops(config: FlowConfig, features: int, sentences: int) -> float:
    """Return the operations of the matmuls of one pass of embeddings through a flow.

    Those of the conditioners of an additive flow with relu and a fixed permutation, as released.
    """
    total, width = 0, config.width
    for level in range(config.levels):
        kept, changed = split_sizes(features >> level)
        total += config.depth * 2 * (kept * width + width * width + width * changed)
    return float(sentences * total)


def matmul_rate(rows: int, width: int, inner: int, dtype: Any = jnp.float32) -> float:
    """Return the GFLOP/s of a plain matmul [rows, width] x [width, inner], median of 20."""
    x, w = jnp.ones((rows, width), dtype), jnp.ones((width, inner), dtype)
    precision = "highest" if dtype == jnp.float32 else None
    multiply = jax.jit(lambda x, w: jnp.dot(x, w, precision=precision))
    multiply(x, w).block_until_ready()
    seconds = alternate({"matmul": lambda: multiply(x, w).block_until_ready()}, 20)["matmul"]
    return 2 * rows * width * inner / statistics.median(seconds) / 1e9


def alternate(runs: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Return the seconds of every run, all of them in turn `repeats` times."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    return seconds
