"""What a process of batch embedding costs: seconds to its first vectors, and peak memory.

    python -m benchmarks.process --encoder=FOLDER [--rows=100000,1000000]

Start: three processes, the first with an empty compilation cache. Each prints the seconds of
importing the package, of loading the encoder and of the first batch of 64 sentences.

Memory: `python -m bertflow_jax.embed` over a file of generated sentences of 3 to 12 words, for each
number of rows in a process of its own; prints its peak resident memory.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

_START = """
import sys, time
started = time.perf_counter()
from bertflow_jax import SentenceEncoder
SentenceEncoder.from_pretrained
imported = time.perf_counter()
encoder = SentenceEncoder.from_pretrained(sys.argv[1])
loaded = time.perf_counter()
encoder.encode(["the weather was fine and they went out for a walk"] * 64)
done = time.perf_counter()
print(f"import {imported - started:.2f} s, then load {loaded - imported:.2f} s, first batch "
      f"{done - loaded:.2f} s: {done - imported:.2f} s after import")
"""


def start(encoder: str, cache: Path) -> None:
    """Print the start of three processes."""
    environment = {**os.environ, "BERTFLOW_COMPILATION_CACHE": str(cache)}
    for name in ("empty cache", "second process", "third process"):
        command = [sys.executable, "-c", _START, encoder]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        print(f"{name}: {done.stdout.strip()}", flush=True)


def write_sentences(path: Path, rows: int) -> None:
    """Write generated sentences, the same ones for the same number of rows."""
    rng = np.random.default_rng(0)
    words = [f"{a}{b}" for a in ("ka", "lo", "mi", "ne", "su") for b in ("ra", "to", "vi", "we")]
    with path.open("w", encoding="utf-8") as file:
        for size in rng.integers(3, 13, rows):
            file.write(" ".join(words[i] for i in rng.integers(len(words), size=size)) + "\n")


def peak_memory(encoder: str, path: Path, cache: Path) -> tuple[float, float]:
    """Return peak resident MB and seconds of embedding a file."""
    environment = {**os.environ, "BERTFLOW_COMPILATION_CACHE": str(cache)}
    output = path.with_suffix(".npy")
    command = [sys.executable, "-m", "bertflow_jax.embed"]
    command += [f"--encoder={encoder}", f"--input={path}", f"--output={output}"]
    started = time.perf_counter()
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    output.unlink()
    return usage.ru_maxrss / 1024, time.perf_counter() - started


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--encoder", required=True, help="folder, Hub id or mini_bert")
    parser.add_argument(
        "--rows", default="", help="numbers of rows; default: none, no memory is measured"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bertflow-process-") as folder:
        cache = Path(folder) / "cache"
        start(options.encoder, cache)
        for rows in (int(number) for number in options.rows.split(",") if number):
            path = Path(folder) / f"{rows}.txt"
            write_sentences(path, rows)
            megabytes, seconds = peak_memory(options.encoder, path, cache)
            print(f"{rows} rows: peak {megabytes:.0f} MB, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
