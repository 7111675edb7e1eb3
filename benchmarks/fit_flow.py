"""Steps per second of fitting the flow from cached embeddings, against the PyTorch port's Glow.

    python -m benchmarks.fit_flow [--dims=384,768] [--batch=32] [--repeats=7]

Both run the released flow (3 levels, depth 3, width 32, additive) and optimiser on the same random
embeddings, alternately in one process; medians and their ratio are printed. Without PyTorch only
our own figures are.
"""

import argparse
import importlib.util
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

from bertflow_jax import compiled_steps, parallel
from bertflow_jax.config import Config, TrainConfig
from bertflow_jax.training.fit import example_order, initial_state, prepare_data
from bertflow_jax.training.loop import CHUNK_STEPS
from bertflow_jax.training.optimizer import make_optimizer
from bertflow_jax.training.steps import make_run_steps

ROWS = 8192
PORT_STEPS = 20  # of one measurement, at most


def our_timer(embeddings: np.ndarray, batch: int):
    """Return a function that makes steps, at most CHUNK_STEPS, and returns steps/s."""
    config = Config(train=TrainConfig(batch_size=batch))
    data = prepare_data(embeddings, np.arange(ROWS)[:, None], held_out=0.0, seed=0)
    order = example_order(config.train, data, 0)
    mesh = parallel.data_mesh(batch)
    state = parallel.replicate(initial_state(config, data), mesh)
    table = parallel.replicate(data.embeddings, mesh)
    rows = data.rows[order.batches(0, CHUNK_STEPS)]
    run = compiled_steps.compile_run_steps(
        make_run_steps(config.flow, make_optimizer(config.train), data.features, 0), mesh
    )
    jax.block_until_ready(run(state, table, rows, jnp.int32(1)))

    def measure(steps: int = CHUNK_STEPS) -> float:
        started = time.perf_counter()
        jax.block_until_ready(run(state, table, rows, jnp.int32(steps)))
        return steps / (time.perf_counter() - started)

    return measure


def port_rows(step: int, batch: int) -> np.ndarray:
    """Return the rows int[B] of a step: a stream of shuffled epochs that are all the same."""
    order = np.random.default_rng(0).permutation(ROWS)
    return order[np.arange(step * batch, (step + 1) * batch) % ROWS]


def port_timer(embeddings: np.ndarray, batch: int):
    """Return a function that makes some steps of the port and returns steps/s."""
    import torch

    from benchmarks.port_glow import Glow, ReleasedAdam

    flow = Glow(embeddings.shape[1])
    optimizer = ReleasedAdam(flow.parameters())
    table = torch.from_numpy(embeddings)
    order = [torch.from_numpy(port_rows(step, batch)) for step in range(PORT_STEPS)]

    def measure(steps: int = PORT_STEPS) -> float:
        started = time.perf_counter()
        for rows in order[:steps]:
            optimizer.zero_grad()
            flow(table[rows]).backward()
            torch.nn.utils.clip_grad_norm_(flow.parameters(), 1.0)
            optimizer.step()
        return steps / (time.perf_counter() - started)

    measure(1)  # the first one sets the ActNorms
    return measure


def main() -> None:
    """Print one line a dimension."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--dims", default="384,768", help="dimensions D of the embeddings; default: %(default)s"
    )
    parser.add_argument(
        "--batch", type=int, default=32, help="examples of a step; default: %(default)s"
    )
    parser.add_argument(
        "--repeats", type=int, default=7, help="measurements of each; default: %(default)s"
    )
    options = parser.parse_args()
    with_port = importlib.util.find_spec("torch") is not None
    for dims in map(int, options.dims.split(",")):
        embeddings = np.random.default_rng(0).normal(size=(ROWS, dims)).astype(np.float32)
        timers = {"ours": our_timer(embeddings, options.batch)}
        if with_port:
            timers["port"] = port_timer(embeddings, options.batch)
        seen = {name: [] for name in timers}
        for _ in range(options.repeats):
            for name, measure in timers.items():
                seen[name].append(measure())
        medians = {name: statistics.median(rates) for name, rates in seen.items()}
        line = ", ".join(f"{name} {rate:.1f} steps/s" for name, rate in medians.items())
        ratio = f", ratio {medians['ours'] / medians['port']:.1f}" if with_port else ""
        print(f"D={dims} batch={options.batch}: {line}{ratio}", flush=True)


if __name__ == "__main__":
    main()
