"""A finished run, restored for evaluation and embedding."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import jax

from bertflow_jax.checkpoint import CheckpointStore, Records
from bertflow_jax.config import Config
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.errors import DataNotFoundError
from bertflow_jax.flow.glow import init_variables
from bertflow_jax.paths import user_path
from bertflow_jax.postprocess.flow import Flow
from bertflow_jax.training.metrics import METRICS_FILE
from bertflow_jax.training.run import check_same, load_encoder


@dataclasses.dataclass(frozen=True)
class Run:
    """What a workdir holds.

    Attributes:
      encoder: the frozen encoder, without the flow; its identity is that of the checkpoint.
      flow: the fitted flow.
      step: of the checkpoint.
      records: config, encoder identity, text manifest and state of the checkpoint.
      metrics_path: the run's metrics.jsonl, None when it is not there.
    """

    encoder: SentenceEncoder
    flow: Flow
    step: int
    records: Records
    metrics_path: Path | None


def load_run(workdir: str | os.PathLike[str], step: int | None = None) -> Run:
    """Restore the newest good checkpoint of a workdir, or the step asked for; parameters only.

    Raises:
      DataNotFoundError: no such workdir, no checkpoint in it, or not that step.
      CheckpointError: the step asked for (or every step) is damaged, or the encoder's files are no
        longer those the flow was fitted on.
    """
    folder = user_path(workdir, "--workdir").absolute()
    if not folder.is_dir():
        raise DataNotFoundError(f"--workdir {folder} not found: name the folder train.py wrote")
    store = CheckpointStore(folder)

    def load(candidate: int) -> tuple[int, Records, dict[str, Any]]:
        records = store.records(candidate)
        flow_config = Config.from_dict(records.config).flow
        abstract = jax.eval_shape(lambda: init_variables(flow_config, records.state["features"], 0))
        return candidate, records, store.arrays(candidate, {"flow": abstract})["flow"]

    found, records, variables = store.newest_good(load, step)
    config = Config.from_dict(records.config)
    encoder = load_encoder(config)
    check_same("encoder", records.encoder, encoder.identity(), store.folder / str(found))
    flow = Flow.from_variables(config.flow, variables, records.state["features"], config.seed)
    metrics = folder / METRICS_FILE
    return Run(encoder, flow, found, records, metrics if metrics.is_file() else None)
