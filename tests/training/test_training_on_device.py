"""A fit on whatever device there is makes the losses that a CPU makes.

    python tests/training/test_training_on_device.py OUTPUT.npz

writes them; the test runs that in a process of its own, on a CPU.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
import numpy as np
import pytest

from bertflow_jax.config import Config, DataConfig, EncoderConfig, FlowConfig, TrainConfig
from bertflow_jax.flow import glow
from bertflow_jax.training.fit import initial_state, prepare_data
from bertflow_jax.training.loop import run_fit
from bertflow_jax.training.run import train

ROOT = Path(__file__).resolve().parents[2]
STEPS = {"cached": 20, "online": 3}


class _Losses:
    """A sink that keeps bits/dim."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def write(self, step: int, values: dict[str, float]) -> None:
        self.values.append(values["bits_per_dim"])


def cached() -> list[float]:
    """Losses of 20 steps on embeddings, with learned permutations and affine couplings."""
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(400, 32)) @ rng.normal(size=(32, 32)) * 0.2
    config = Config(
        flow=FlowConfig(levels=1, depth=1, coupling="affine", permutation="plu", width=16),
        train=TrainConfig(steps=20, batch_size=32, log_every=1),
    )
    data = prepare_data(
        mixed.astype(np.float32), np.arange(400, dtype=np.int32)[:, None], held_out=0.0, seed=0
    )
    sink = _Losses()
    run_fit(config, data, initial_state(config, data), sink=sink)
    return sink.values


def online(folder: Path) -> list[float]:
    """Losses of 3 steps with BERT and its dropout inside."""
    text = folder / "text.txt"
    text.write_text("".join(f"line {i} {'of words ' * (i % 4)}\n" for i in range(64)))
    config = Config(
        encoder=EncoderConfig(path="mini_bert", pooling="first_last"),
        flow=FlowConfig(levels=1, depth=1, width=8),
        data=DataConfig(path=str(text)),
        train=TrainConfig(steps=3, batch_size=16, log_every=1, mode="online", tensorboard=False),
        cache_dir=str(folder / "cache"),
    )
    train(config, folder / "run")
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["bits_per_dim"] for line in lines]


def losses() -> dict[str, list[float]]:
    """Return both, with JAX's own precision of products, as users have it."""
    with jax.default_matmul_precision("default"), tempfile.TemporaryDirectory() as folder:
        return {"cached": cached(), "online": online(Path(folder))}


@pytest.mark.device
def test_losses_are_those_of_a_cpu(tmp_path):
    """Catches rounded products, other random numbers for dropout, a scan that is compiled wrong."""
    output = tmp_path / "cpu.npz"
    fast = "--xla_backend_optimization_level=0"  # to compile, as in the rest of the suite
    environment = {
        **os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT), "XLA_FLAGS": fast
    }  # fmt: skip
    subprocess.run(
        [sys.executable, __file__, str(output)], env=environment, check=True, timeout=300
    )
    ours, reference = losses(), np.load(output)
    for name, steps in STEPS.items():
        assert len(ours[name]) == steps
        np.testing.assert_allclose(ours[name], reference[name], atol=1e-4)
        assert np.ptp(ours[name]) > 0.01  # it trains


@pytest.mark.device
def test_round_trip_with_the_default_precision():
    """inverse(forward(x)) with products in fewer bits is off by more than 1e-3."""
    config = FlowConfig(levels=1, depth=1, coupling="affine", permutation="plu")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 256)).astype(np.float32)
    with jax.default_matmul_precision("default"):
        variables = glow.fit_variables(config, glow.init_variables(config, 256, 0), x)
        moved = jax.tree.map(
            lambda leaf: leaf + rng.normal(0, 0.01, leaf.shape).astype(np.float32),
            variables["params"],
        )
        flow = glow.bijector(config, {**variables, "params": moved}, 256)
        there, back = jax.jit(flow.forward), jax.jit(flow.inverse)
        np.testing.assert_allclose(back(there(x)), x, atol=1e-4)


if __name__ == "__main__":
    np.savez(sys.argv[1], **losses())
