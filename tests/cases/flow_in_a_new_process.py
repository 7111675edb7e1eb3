"""A flow in a process of its own that has eight devices: `flow_in_a_new_process.py FOLDER`.

`observe` is what the test does in its own process too, on one device.
"""

import sys
from pathlib import Path

import jax
import numpy as np

from bertflow_jax import parallel
from bertflow_jax.config import Config, FlowConfig, TrainConfig
from bertflow_jax.flow import glow
from bertflow_jax.postprocess import Flow
from bertflow_jax.training.fit import initial_state, prepare_data
from bertflow_jax.training.loop import run_fit

FLOW = FlowConfig(levels=2, depth=2, width=8)
LEARNING_RATE = 1e-3


def rows(offset: float = 0.0) -> np.ndarray:
    """Rows sorted by norm, so that the shards of a batch differ strongly."""
    rng = np.random.default_rng(0)
    made = rng.normal(size=(64, 8)) * np.linspace(0.1, 30, 64)[:, None] + 1.0
    return (made[np.argsort(np.linalg.norm(made, axis=1))] + offset).astype(np.float32)


def config(steps: int, batch_size: int = 64) -> Config:
    train = TrainConfig(
        steps=steps, batch_size=batch_size, init_rows=64, learning_rate=LEARNING_RATE
    )
    return Config(flow=FLOW, train=train)


def fit_data(offset: float = 0.0):
    return prepare_data(rows(offset), np.arange(64)[:, None], held_out=0.0, seed=0)


def log_dets(variables, batch: np.ndarray) -> np.ndarray:
    """float32[N]: the log-det of every row, the rows spread over all devices."""
    mesh = parallel.data_mesh(len(batch))
    forward = jax.jit(lambda v, x: glow.bijector(FLOW, v, x.shape[-1]).forward_and_log_det(x)[1])
    return np.asarray(
        forward(parallel.replicate(variables, mesh), parallel.split_batch(batch, mesh))
    )


def observe(folder: Path) -> dict[str, np.ndarray]:
    """What the saved flow gives, what a fit starts from, and one more step of the saved flow."""
    saved = Flow.load(folder / "flow")
    start = initial_state(config(1), fit_data())
    far = fit_data(100.0)
    going_on = initial_state(config(1), far).replace(variables=saved.variables)
    after = run_fit(config(1), far, going_on).state
    flat = jax.flatten_util.ravel_pytree
    return {
        "latents": saved.transform(rows(100.0)),
        "log_dets": log_dets(start.variables, rows()),
        "start": np.asarray(flat(start.variables)[0]),
        "after": np.asarray(flat(after.variables)[0]),
        "again": saved.transform(rows(100.0)),
    }


def main() -> None:
    """Write what is observed into the folder."""
    assert jax.device_count() == 8
    folder = Path(sys.argv[1])
    np.savez(folder / "observed.npz", **observe(folder))


if __name__ == "__main__":
    main()
