"""Runs experiments on however many devices and processes its environment gives it.

python run_on_devices.py '[[config, workdir], ...]' [coordinator num_processes process_id]
"""

import json
import sys

import jax

from bertflow_jax import distributed
from bertflow_jax.config import Config
from bertflow_jax.training.run import train
from bertflow_jax.training.supervised_run import train_encoder


def main() -> None:
    if sys.argv[2:]:
        distributed.initialize(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    assert jax.device_count() == 8
    jax.config.update("jax_default_matmul_precision", "highest")
    for fields, workdir in json.loads(sys.argv[1]):
        config = Config.from_dict(fields)
        run = train if config.objective == "flow" else train_encoder
        run(config, workdir, resume=bool(distributed.share(lambda w=workdir: _has_run(w))))


def _has_run(workdir: str) -> bool:
    from pathlib import Path

    return (Path(workdir) / "checkpoints").is_dir()


if __name__ == "__main__":
    main()
