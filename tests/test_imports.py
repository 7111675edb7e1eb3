"""What importing the package loads: nothing that is optional, and nothing before it is needed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax import Flow, FlowConfig

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


def test_a_flow_that_is_first_used_inside_jit_leaves_no_tracers(tmp_path):
    """distrax imported while a function is traced: its constants would belong to that trace."""
    flow = Flow(FlowConfig(levels=1, depth=1, width=8))
    u = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    flow.fit(u)
    flow.save(tmp_path / "flow")
    np.save(tmp_path / "in.npy", u)
    program = """
import sys
import flax.traverse_util, jax, numpy, safetensors.numpy
from bertflow_jax import FlowConfig
from bertflow_jax.postprocess.flow import _forward, _log_prob
assert "distrax" not in sys.modules
config = FlowConfig(levels=1, depth=1, width=8)
u = numpy.load(sys.argv[1] + "/in.npy")
flat = safetensors.numpy.load_file(sys.argv[1] + "/flow/flow.safetensors")
variables = flax.traverse_util.unflatten_dict(flat, sep="/")
z = jax.jit(lambda v, x: _forward(config, v, x))(variables, u)
p = jax.jit(lambda v, x: _log_prob(config, v, x))(variables, u)
numpy.savez(sys.argv[1] + "/out.npz", z=z, p=p)
"""
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    out = np.load(tmp_path / "out.npz")
    np.testing.assert_allclose(out["z"], flow.transform(u), atol=1e-5)
    np.testing.assert_allclose(out["p"], flow.log_prob(u), rtol=1e-5)
