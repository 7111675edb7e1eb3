"""How long importing takes, and of what: python -m benchmarks.imports.

Processor seconds of fresh interpreters, the least of some; what imports most, by itself.
"""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

_STATEMENTS = (
    "pass",
    "import jax",
    "import bertflow_jax",
    "from bertflow_jax import SentenceEncoder, Flow",
    "from bertflow_jax.flow import glow",
    "from bertflow_jax.training import run",
)
_REPEATS = 5
_ROOT = Path(__file__).resolve().parents[1]


def seconds(statement: str) -> float:
    """Return the processor seconds of a statement in a fresh interpreter, the least of some."""
    return min(_once(statement) for _ in range(_REPEATS))


def _once(statement: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement], env=_environment(), check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def largest(statement: str, count: int = 8) -> list[tuple[str, float]]:
    """Return the packages that a statement spends most on, with their seconds."""
    command = [sys.executable, "-X", "importtime", "-c", statement]
    text = subprocess.run(command, env=_environment(), capture_output=True, text=True).stderr
    total: dict[str, float] = {}
    for micro, name in re.findall(r"^import time: +(\d+) \| +\d+ \| +(\w+)", text, re.MULTILINE):
        total[name] = total.get(name, 0.0) + int(micro) / 1e6
    return sorted(total.items(), key=lambda item: -item[1])[:count]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(_ROOT)}


def main() -> None:
    """Print a line a statement, then the packages of the one that users write."""
    for statement in _STATEMENTS:
        print(f"{seconds(statement):6.2f} s  {statement}", flush=True)
    for name, spent in largest(_STATEMENTS[3]):
        print(f"{spent:6.2f} s  {name}")


if __name__ == "__main__":
    main()
