"""Switches of Python itself: -OO, which a flow cannot bear, and warnings as errors."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]


def run(line, cwd, **environment):
    return subprocess.run(
        [sys.executable, *line.split()],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )


@pytest.fixture
def place(tmp_path):
    for name in ("train.py", "configs"):
        (tmp_path / name).symlink_to(ROOT / name)
    rows = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    np.save(tmp_path / "given.npy", rows)
    return tmp_path


FIT = "-m bertflow_jax.postprocess fit --input=given.npy --output=fitted --method="


@pytest.mark.parametrize(
    "line",
    [
        f"{FIT}flow",
        f"-OO {FIT}flow",
        "train.py --config=configs/demo.py --workdir=run",
    ],
)
def test_a_flow_without_docstrings_is_one_line(line, place):
    """A traceback of tensorflow_probability: None + str."""
    done = run(line, place, **({} if "-OO" in line else {"PYTHONOPTIMIZE": "2"}))
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "python -OO (PYTHONOPTIMIZE=2)" in done.stderr
    assert sorted(os.listdir(place)) == ["configs", "given.npy", "train.py"]


def test_what_has_no_flow_needs_no_docstrings(place):
    """A refusal of all, for what one kind needs."""
    done = run(f"{FIT}whitening", place, PYTHONOPTIMIZE="2")
    assert done.returncode == 0, done.stderr
    assert (place / "fitted").is_dir()


def test_the_doctor_sees_that_docstrings_are_left_out(place):
    done = run("-m bertflow_jax.doctor --timeout=1", place, PYTHONOPTIMIZE="2")
    assert done.returncode == 2
    assert "  - python -OO (PYTHONOPTIMIZE=2) leaves out docstrings" in done.stderr


def test_warnings_of_others_end_no_command(place):
    """A DeprecationWarning of ml_collections or tensorflow_probability ended a fit."""
    flags = (
        " --config.train.steps=2 --config.flow.levels=1 --config.flow.depth=1"
        " --config.train.tensorboard=False --config.cache_dir=cache"
    )
    line = f"train.py --config=configs/demo.py --workdir=run{flags}"
    done = run(line, place, PYTHONWARNINGS="error")
    assert done.returncode == 0, done.stderr
    assert "step 2: run" in done.stdout


def test_a_deprecation_of_the_users_own_code_is_still_an_error(place):
    """A filter that takes the switch away from everybody."""
    (place / "own.py").write_text(
        "import warnings\nfrom bertflow_jax import cli\n"
        "cli.run(lambda: warnings.warn('old', DeprecationWarning))\n"
    )
    done = run("-W error own.py", place)
    assert done.returncode == 1
    assert "DeprecationWarning: old" in done.stderr
