"""All there is to know about one GPU in under eight minutes: right, and how fast.

    python -m benchmarks.gpu_check [--sections=machine,tests,cached,online,embed] [--tiny]

Every section runs in a process of its own, which is ended when its time is up; one that fails is
reported and does not stop the others. The end is a Markdown block for docs/benchmarks.md and a line
that says whether all sections passed or which failed; the exit code is 1 if any did. Needs pytest,
but no network. What a machine without a package index lacks is installed from wheels beforehand:
pip install --no-index --find-links=DIR -r requirements.txt -r requirements-dev.txt

  machine  card, driver, versions
  tests    pytest -m device on the card: encoder, flow and pooling against stored numbers, batches
           of any size, losses against those of a CPU
  cached   steps/s of fitting a flow on cached embeddings, D = 768 and 1024
  online   steps/s with BERT-base and BERT-large (random weights) and their dropout in the step
  embed    tokens/s of BERT-base and BERT-large, as in benchmarks.gpu

`--tiny` does all of it at toy sizes on a CPU, in about a minute.
"""

import argparse
import importlib.metadata
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIMITS = {"machine": 45, "tests": 180, "cached": 70, "online": 85, "embed": 85}  # s, 465 in all
PACKAGES = ("jax", "jaxlib", "flax", "optax", "distrax", "numpy", "torch")
TINY_TESTS = "tests/encoder/test_packing.py"  # the device tests among them


def machine(tiny: bool) -> None:
    """Print the card and the versions."""
    import jax

    device = jax.devices()[0]
    if device.platform == "cpu" and not tiny:
        raise SystemExit("no GPU: jax.devices() are CPUs")
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        card = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        card = device.device_kind
    versions = []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"no {name}")
    print(f"{card}; {jax.device_count()} device(s); Python {platform.python_version()}")
    print(", ".join(versions))


def rate(run: Any, steps: int, repeats: int = 3) -> float:
    """Return the median runs a second of run(steps), after one that compiles."""
    run(1)
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        run(steps)
        seconds.append(time.perf_counter() - started)
    return steps / statistics.median(seconds)


def cached(tiny: bool) -> None:
    """Print a row for every D and batch size."""
    import numpy as np

    from benchmarks.fit_flow import ROWS, our_timer

    print("| D | batch | steps/s | examples/s |\n|---|---|---|---|")
    for dims in (16,) if tiny else (768, 1024):
        embeddings = np.random.default_rng(0).normal(size=(ROWS, dims)).astype(np.float32)
        for batch in (8,) if tiny else (32, 1024):
            measure = our_timer(embeddings, batch)
            steps = statistics.median(measure() for _ in range(1 if tiny else 5))
            print(f"| {dims} | {batch} | {steps:,.0f} | {steps * batch:,.0f} |", flush=True)


def online_runner(name: str, dtype: str, batch: int, tokens: int) -> Any:
    """Return run(steps) of the step with BERT inside, ids already on the device."""
    import jax
    import numpy as np

    from benchmarks.gpu import model_config
    from bertflow_jax import compiled_steps, parallel
    from bertflow_jax.config import Config, FlowConfig, TrainConfig
    from bertflow_jax.encoder.bert import init_params
    from bertflow_jax.encoder.bert_config import COMPUTE_DTYPES
    from bertflow_jax.encoder.embedding import make_embed_fn
    from bertflow_jax.encoder.pooling import parse_pooling
    from bertflow_jax.training.fit import initial_state, prepare_data
    from bertflow_jax.training.online import make_online_step
    from bertflow_jax.training.optimizer import make_optimizer

    bert = model_config(name)
    flow = FlowConfig(levels=1, depth=1) if name == "tiny" else FlowConfig()
    config = Config(flow=flow, train=TrainConfig(batch_size=batch, mode="online"))
    rng = np.random.default_rng(0)
    some = rng.normal(size=(4 * batch, bert.hidden_size)).astype(np.float32)
    data = prepare_data(some, np.arange(len(some))[:, None], held_out=0.0, seed=0)
    spec = parse_pooling("first_last", bert.num_hidden_layers)
    embed = make_embed_fn(bert, spec, COMPUTE_DTYPES[dtype])
    step = make_online_step(config, embed, make_optimizer(config.train), bert.hidden_size, None)
    mesh = parallel.data_mesh(batch)
    compiled = compiled_steps.compile_online_step(step, mesh, dtype == "float32")
    params = parallel.replicate(jax.jit(lambda k: init_params(bert, k))(jax.random.key(0)), mesh)
    ids = rng.integers(5, bert.vocab_size, (batch, 1, tokens)).astype(np.int32)
    start = parallel.replicate(initial_state(config, data), mesh)

    def run(steps: int) -> None:
        state = start
        for _ in range(steps):
            state, metrics = compiled(state, params, ids, np.ones_like(ids))
        if not np.isfinite(np.asarray(metrics.bits_per_dim)):
            raise SystemExit(f"{name}, {dtype}: the loss is not finite")

    return run


def online(tiny: bool) -> None:
    """Print a row for every encoder and type."""
    batch, tokens = (4, 16) if tiny else (32, 64)
    print("| encoder | type | batch x tokens | steps/s | tokens/s |\n|---|---|---|---|---|")
    for name in ("tiny",) if tiny else ("base", "large"):
        for dtype in ("bfloat16", "float32"):
            steps = rate(online_runner(name, dtype, batch, tokens), 2 if tiny else 20)
            line = f"| {name} | {dtype} | {batch} x {tokens} | {steps:.4g} |"
            print(f"{line} {steps * batch * tokens:,.0f} |", flush=True)


def embed(tiny: bool) -> None:
    """Print what benchmarks.gpu prints."""
    from benchmarks import gpu

    sizes = ["--models=tiny", "--lengths=16,5-256", "--tokens=64", "--repeats=1"]
    sys.argv = ["gpu", *(sizes if tiny else ["--lengths=128,512,5-256", "--repeats=5"])]
    gpu.main()


BODIES = {"machine": machine, "cached": cached, "online": online, "embed": embed}


def command(section: str, tiny: bool) -> list[str]:
    """Return the command of a section's process."""
    if section == "tests":
        chosen = [TINY_TESTS] if tiny else ["tests/encoder", "tests/flow", "tests/training"]
        options = ["-m", "device", "-q", "-p", "no:cacheprovider", "--no-header"]
        return [sys.executable, "-m", "pytest", *options, *chosen]
    child = [sys.executable, "-m", "benchmarks.gpu_check", f"--body={section}"]
    return [*child, "--tiny"] if tiny else child


def run_section(section: str, tiny: bool, limit: float) -> tuple[bool, str, float]:
    """Run a section in a process; return whether it went well, its output and its seconds."""
    device = "cpu" if tiny else "cuda"
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu" if tiny else "cuda,cpu",
        "BERTFLOW_TEST_PLATFORM": device,
        "PYTHONPATH": str(ROOT),
    }
    # Of a test run that this is part of: the tests here remove the caches of their own.
    environment.pop("BERTFLOW_TEST_RUN", None)
    started = time.perf_counter()
    # A session of its own, so that what the section started ends with it.
    process = subprocess.Popen(
        command(section, tiny), cwd=ROOT, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT if section == "tests" else None,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=limit)
        failure = f"exit code {process.returncode}" if process.returncode else ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        failure = f"not done after {limit:.0f} s"
    seconds = time.perf_counter() - started
    if failure:
        output += f"\nFAILED: {failure}\n"
    return not failure, output.strip(), seconds


def main() -> None:
    """Run the sections, print the block."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sections", default=",".join(LIMITS), help="which to run; default: %(default)s"
    )
    parser.add_argument("--tiny", action="store_true", help="toy sizes on a CPU; default: off")
    parser.add_argument(
        "--limit_s",
        type=float,
        help="seconds of every section; default: "
        + ", ".join(f"{k} {v}" for k, v in LIMITS.items()),
    )
    parser.add_argument("--body", choices=BODIES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.body:
        BODIES[options.body](options.tiny)
        return
    chosen = options.sections.split(",")
    if unknown := set(chosen) - set(LIMITS):
        parser.error(f"--sections: no {', '.join(sorted(unknown))}; there are {', '.join(LIMITS)}")
    block, failed = [f"### One card, {time.strftime('%Y-%m-%d')}"], []
    for section in chosen:
        # A CPU may be slow, or busy.
        limit = options.limit_s or LIMITS[section] * (4 if options.tiny else 1)
        good, output, seconds = run_section(section, options.tiny, limit)
        if not good:
            failed.append(section)
        # Of pytest the last lines say it all; the failures themselves are printed above the block.
        print(output, flush=True)
        shown = output if section != "tests" else "\n".join(output.splitlines()[-3:])
        block.append(f"{section} ({seconds:.0f} s{'' if good else ', FAILED'}):\n\n{shown}")
    print("\n" + "=" * 80 + "\n" + "\n\n".join(block))
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall sections passed")
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
