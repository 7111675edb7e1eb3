"""A place to run the blocks of a page in, and a fast `python` for their commands."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from documents.command_server import SHIM

from bertflow_jax.evaluation import load_task

ROOT = Path(__file__).resolve().parents[2]
# What a clone of the repository has at its top and the pages call.
CLONE = ("train.py", "evaluate.py", "configs", "bertflow_jax", "benchmarks")

Bash = Callable[[str, Path], subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def bash() -> Iterator[Bash]:
    """Return run(script, folder), which runs a script as `bash -e` with the fast python."""
    with tempfile.TemporaryDirectory(prefix="bertflow-") as folder:
        address = str(Path(folder, "python.socket"))
        shims = Path(folder, "bin")
        shims.mkdir()
        (shims / "python").write_text(SHIM.format(python=sys.executable, address=address))
        (shims / "python").chmod(0o755)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        environment["PATH"] = f"{shims}:{os.environ['PATH']}"
        program = [sys.executable, str(Path(__file__).with_name("command_server.py")), address]
        server = subprocess.Popen(program, env=environment)
        while not Path(address).exists():
            assert server.poll() is None, "the server of commands ended"
            time.sleep(0.02)

        def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", script],
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                text=True,
                errors="replace",
            )

        yield run
        server.terminate()
        server.wait()


def prepare(folder: Path) -> None:
    """Put into a folder what a clone has, and the files of the user that pages speak of."""
    for name in CLONE:
        (folder / name).symlink_to(ROOT / name)
    texts = load_task("everyday").sentences[:200]
    (folder / "sentences.txt").write_text("\n".join(texts) + "\n", "utf-8")
    (folder / "texts.txt").write_text("\n".join(texts[:20]) + "\n", "utf-8")
    rows = [json.dumps({"id": row, "text": text}) + "\n" for row, text in enumerate(texts[:20])]
    (folder / "texts.jsonl").write_text("".join(rows), "utf-8")
    vectors = np.random.default_rng(0).normal(size=(1000, 320)) * np.linspace(0.1, 2, 320)
    np.save(folder / "vectors.npy", (vectors + 1).astype(np.float32))


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory: pytest.TempPathFactory, bash: Bash) -> Path:
    """A run such as that of `make demo`, with fewer steps."""
    folder = tmp_path_factory.mktemp("demo")
    prepare(folder)
    done = bash(
        "python train.py --config=configs/demo.py --workdir=runs/demo --config.train.steps=60",
        folder,
    )
    assert done.returncode == 0, done.stdout
    return folder / "runs" / "demo"


@pytest.fixture
def clone(tmp_path: Path, demo_run: Path) -> Path:
    """A folder in which the blocks of one page run, with `runs/demo` in it."""
    prepare(tmp_path)
    shutil.copytree(demo_run, tmp_path / "runs" / "demo")
    return tmp_path
