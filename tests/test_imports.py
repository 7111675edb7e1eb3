"""What importing the package loads: nothing that is optional, and nothing before it is needed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OPTIONAL = ("torch", "tensorflow", "ray", "mteb", "sklearn", "sentence_transformers", "pyarrow")
SLOW = (
    "huggingface_hub",
    "distrax",
    "tensorflow_probability",
    "orbax",
    "optax",
    "transformers",
    "matplotlib",
)
NAMES = "from bertflow_jax import SentenceEncoder, Flow, Standardize, NATSV, Whitening, FlowConfig"


def loaded_by(statement: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has after a statement."""
    program = f"{statement}\nimport json, sys\nprint(json.dumps([*sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import bertflow_jax", (*OPTIONAL, *SLOW, "jax", "numpy", "flax", "absl")),
        ("import bertflow_jax.cli, bertflow_jax.config", (*OPTIONAL, *SLOW, "jax", "flax")),
        (NAMES, (*OPTIONAL, *SLOW, "tensorflow_datasets")),
    ],
)
def test_an_import_loads_only_what_it_needs(statement, absent):
    """An adapter's package imported by the core: an ImportError, or seconds, for who lacks it."""
    loaded = loaded_by(statement)
    assert "bertflow_jax" in loaded
    assert loaded.isdisjoint(absent), sorted(loaded.intersection(absent))
