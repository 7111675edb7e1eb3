"""Steps per second of cached flow fitting by D and batch size, and what ten times the text costs.

    python -m benchmarks.step_time [--dims=384,768,1024] [--batches=32,256,1024,4096] [--repeats=3]

The released flow and optimiser on random embeddings, ours and the PyTorch port's Glow in turn in
one process: medians and their ratio as rows of a Markdown table. The number of steps of a
measurement is what takes `--seconds`, at least one. Without PyTorch only our own figures are.

`--text=N` (0: none) then fits N and 10 N examples for one epoch each, preparation of the data
included and compilation not: in proportion to the text, the ratio of both times is 10.
"""

import argparse
import importlib.util
import platform
import statistics
import time
from collections.abc import Callable

import jax
import numpy as np

from benchmarks.counting import alternate
from benchmarks.fit_flow import PORT_STEPS, ROWS, our_timer, port_timer
from bertflow_jax.config import Config, TrainConfig
from bertflow_jax.training.fit import initial_state, prepare_data
from bertflow_jax.training.loop import CHUNK_STEPS, run_fit

Timer = Callable[[int], float]


def medians(
    timers: dict[str, Timer], most: dict[str, int], seconds: float, repeats: int
) -> dict[str, float]:
    """Return the median steps/s of every timer, all of them measured in turn."""
    steps = {}
    for name, measure in timers.items():
        measure(1)
        steps[name] = int(np.clip(measure(1) * seconds, 1, most[name]))
    seen: dict[str, list[float]] = {name: [] for name in timers}
    for _ in range(repeats):
        for name, measure in timers.items():
            seen[name].append(measure(steps[name]))
    return {name: statistics.median(rates) for name, rates in seen.items()}


def fit_once(examples: int, dims: int) -> Callable[[], object]:
    """Return a function that fits a flow on so many embeddings float32[N, D], one epoch."""
    embeddings = np.random.default_rng(0).normal(size=(examples, dims)).astype(np.float32)
    config = Config(train=TrainConfig(epochs=1.0, log_every=10**6))

    def fit() -> object:
        data = prepare_data(embeddings, np.arange(examples)[:, None], held_out=0.0, seed=0)
        return jax.block_until_ready(run_fit(config, data, initial_state(config, data)).state)

    fit()  # compiles
    return fit


def print_table(options: argparse.Namespace) -> None:
    """Print one row for every D and batch size."""
    with_port = importlib.util.find_spec("torch") is not None
    print("| D | batch | ours, steps/s | ours, examples/s | PyTorch port, steps/s | ratio |")
    print("|---|---|---|---|---|---|", flush=True)
    for dims in map(int, options.dims.split(",")):
        embeddings = np.random.default_rng(0).normal(size=(ROWS, dims)).astype(np.float32)
        for batch in map(int, options.batches.split(",")):
            timers: dict[str, Timer] = {"ours": our_timer(embeddings, batch)}
            if with_port:
                timers["port"] = port_timer(embeddings, batch)
            most = {"ours": CHUNK_STEPS, "port": PORT_STEPS}
            rates = medians(timers, most, options.seconds, options.repeats)
            theirs = "- | -"
            if with_port:
                theirs = f"{rates['port']:.3g} | {rates['ours'] / rates['port']:.1f}"
            print(
                f"| {dims} | {batch} | {rates['ours']:.4g} | {rates['ours'] * batch:,.0f} | "
                f"{theirs} |",
                flush=True,
            )


def print_text(examples: int, dims: int, repeats: int) -> None:
    """Print the seconds of N and 10 N examples."""
    runs = {"one": fit_once(examples, dims), "ten": fit_once(10 * examples, dims)}
    seconds = {name: statistics.median(s) for name, s in alternate(runs, repeats).items()}
    print(
        f"D = {dims}, batch 32, one epoch: {examples:,} examples {seconds['one']:.2f} s, "
        f"{10 * examples:,} examples {seconds['ten']:.2f} s: {seconds['ten'] / seconds['one']:.1f} "
        "times as long"
    )


def main() -> None:
    """Print the table, and what ten times the text costs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--dims",
        default="384,768,1024",
        help="dimensions D of the embeddings; default: %(default)s",
    )
    parser.add_argument(
        "--batches",
        default="32,256,1024,4096",
        help="examples of a step; none: no table; default: %(default)s",
    )
    parser.add_argument(
        "--repeats", type=int, default=3, help="measurements of each; default: %(default)s"
    )
    parser.add_argument(
        "--seconds", type=float, default=0.5, help="of one measurement, about; default: %(default)s"
    )
    parser.add_argument(
        "--text",
        type=int,
        default=8192,
        help="examples N of the short fit; 0: none; default: %(default)s",
    )
    options = parser.parse_args()
    kind = jax.devices()[0].device_kind
    print(
        f"{time.strftime('%Y-%m-%d')}, {kind} ({jax.default_backend()}), jax {jax.__version__}, "
        f"Python {platform.python_version()}\n"
    )
    if options.batches:
        print_table(options)
        print()
    if options.text:
        print_text(options.text, int(options.dims.split(",")[0]), options.repeats)


if __name__ == "__main__":
    main()
