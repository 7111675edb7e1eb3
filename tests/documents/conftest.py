"""A place to run the blocks of a page in, and a fast `python` for their commands."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from documents.fast_bash import Bash, fast_bash

from bertflow_jax.evaluation import load_task

ROOT = Path(__file__).resolve().parents[2]
# What a clone of the repository has at its top and the pages call.
CLONE = ("train.py", "evaluate.py", "configs", "bertflow_jax", "benchmarks")


@pytest.fixture(scope="session")
def bash() -> Iterator[Bash]:
    """Return run(script, folder), which runs a script as `bash -e` with the fast python."""
    with fast_bash() as run:
        yield run


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
