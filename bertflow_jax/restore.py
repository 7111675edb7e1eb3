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
      encoder: the frozen encoder, without the flow.
      identity: of the encoder, the checkpoint's too but for where its files lie.
      flow: the fitted flow.
      step: of the checkpoint.
      records: config, encoder identity, text manifest and state of the checkpoint.
      metrics_path: the run's metrics.jsonl, None when it is not there.
    """

    encoder: SentenceEncoder
    identity: dict[str, Any]
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

    def abstract(records: Records) -> dict[str, Any]:
        config, features = Config.from_dict(records.config), records.state["features"]
        return {"flow": jax.eval_shape(lambda: init_variables(config.flow, features, 0))}

    arrays, records = store.newest_good(lambda found: store.restore(found, abstract), step)
    config = Config.from_dict(records.config)
    encoder = load_encoder(config)
    identity = encoder.identity()
    found = records.state["step"]
    check_same("encoder", records.encoder, identity, store.folder / str(found))
    flow = Flow.from_variables(config.flow, arrays["flow"], records.state["features"], config.seed)
    metrics = folder / METRICS_FILE
    return Run(encoder, identity, flow, found, records, metrics if metrics.is_file() else None)
