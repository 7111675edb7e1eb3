"""A finished run, restored for evaluation and embedding."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import jax

from bertflow_jax.checkpoint import CheckpointStore, Records
from bertflow_jax.checkpoint_records import check_flow_records, stored_config
from bertflow_jax.checks import check_count
from bertflow_jax.config import Config
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.encoder.origin import encoder_origin
from bertflow_jax.errors import CheckpointError, DataNotFoundError, InputError, shown
from bertflow_jax.flow.glow import init_variables
from bertflow_jax.jax_settings import run_settings
from bertflow_jax.paths import file_kind, user_path
from bertflow_jax.postprocess.flow import Flow
from bertflow_jax.remote.address import remote_address
from bertflow_jax.training.resume import check_same
from bertflow_jax.training.run import load_encoder
from bertflow_jax.training.supervised_state import ENCODER_ITEM, trained_shapes, with_trained
from bertflow_jax.workdir import CHECKPOINTS, METRICS_FILE


@dataclasses.dataclass(frozen=True)
class Run:
    """What a workdir holds.

    Attributes:
      encoder: without the flow: the frozen one, or the one that `joint` trained.
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


@run_settings()
def load_run(
    workdir: str | os.PathLike[str], step: int | str | None = None, scratch: Path | None = None
) -> Run:
    """Restore the newest good checkpoint of a workdir, or the step asked for; parameters only.

    `best` asks for the step with the best score (`checkpoint.keep_best`).

    Of a run with the objective `joint` that is the checkpoint with the best dev metric, and the
    encoder has the parameters that were trained.

    Args:
      workdir: of the run; may be gs://BUCKET/FOLDER.
      step: asked for.
      scratch: folder for the metrics of a workdir in a bucket; without it they are not fetched.

    Raises:
      DataNotFoundError: no such workdir, no checkpoint in it, or not that step.
      CheckpointError: the step asked for (or every step) is damaged, or the encoder's files are no
        longer those the flow was fitted on; the run trained an encoder without a flow.
      WorkdirError: a bucket that cannot be read.
    """
    if not isinstance(step, str | None):
        step = check_count(step, "step", 0)
    elif step not in (None, "best"):
        raise InputError(f"step={shown(step)}: must be the number of a step, or 'best'")
    if isinstance(workdir, str) and not workdir.strip():
        raise DataNotFoundError("--workdir is blank: name the folder train.py wrote")
    address = remote_address(workdir, "--workdir")
    if address is not None:
        from bertflow_jax.remote.workdir import ReadWorkdir

        with ReadWorkdir(address) as remote:
            store = CheckpointStore(remote.folder, steps=remote.steps)
            metrics = None if scratch is None else remote.metrics(scratch)
            return _load(store, str(address), step, metrics)
    folder = user_path(workdir, "--workdir").absolute()
    if file_kind(folder) != "folder":
        raise DataNotFoundError(f"--workdir {folder} not found: name the folder train.py wrote")
    if not (folder / CHECKPOINTS).is_dir() and (folder / "config.json").is_file():
        raise DataNotFoundError(
            f"--workdir {folder} is the folder of an encoder, not of a run: give it as --encoder, "
            "in Python to SentenceEncoder.from_pretrained"
        )
    metrics = folder / METRICS_FILE
    return _load(CheckpointStore(folder), str(folder), step, metrics if metrics.is_file() else None)


def _load(store: CheckpointStore, place: str, step: int | str | None, metrics: Path | None) -> Run:
    config, wanted, best = _objective(store, place, step)
    encoder = load_encoder(config)

    def abstract(records: Records) -> dict[str, Any]:
        nonlocal config, encoder
        # Its own: where the newest step is damaged, an older one may be of another run.
        own = _flow_config(records, place)
        if own.encoder != config.encoder:
            encoder = load_encoder(own)
        config = own
        features = records.state["features"]
        wanted = {"flow": jax.eval_shape(lambda: init_variables(config.flow, features, 0))}
        if config.objective == "joint":
            wanted[ENCODER_ITEM] = trained_shapes(encoder.encoder)
        return wanted

    def restore(found: int) -> tuple[dict[str, Any], Records]:
        return store.restore(found, abstract)

    arrays, records = store.newest_good(restore, wanted, best)
    identity = encoder.identity()
    found = records.state["step"]
    check_same("encoder", records.encoder, identity, f"{store.place}/{found}")
    if config.objective == "joint":
        encoder = SentenceEncoder(with_trained(encoder.encoder, arrays[ENCODER_ITEM]))
        identity = encoder.identity()
        records = dataclasses.replace(records, encoder=identity)
    features, origin = records.state["features"], encoder_origin(encoder.encoder)
    flow = Flow.from_variables(config.flow, arrays["flow"], features, config.seed, origin)
    return Run(encoder, identity, flow, found, records, metrics)


def _objective(
    store: CheckpointStore, place: str, asked: int | str | None
) -> tuple[Config, int | None, int | None]:
    """Return the config of a run, the step to restore (None: the newest good one) and the best."""
    step = _best_step(store) if asked == "best" else asked
    assert not isinstance(step, str)  # `load_run` has looked
    records = store.newest_good(store.records, step)
    config = _flow_config(records, place)
    return config, step, (records.state.get("best") or {}).get("step")


def _flow_config(records: Records, place: str) -> Config:
    """Return the config of a step; raises CheckpointError where it has no flow."""
    where = f"{place}/{CHECKPOINTS}/{records.state['step']}"
    config = stored_config(records, where)
    if config.objective not in ("flow", "joint"):
        raise CheckpointError(
            f"--workdir={place} trained an encoder without a flow (objective="
            f"{config.objective}): use --encoder={place}/encoder, or fit a flow on it with "
            f"--config.encoder.path={place}/encoder"
        )
    check_flow_records(records, where)
    return config


def _best_step(store: CheckpointStore) -> int:
    found = store.best()
    if found is None:
        raise DataNotFoundError(
            f"no checkpoint in {store.place} has a score: fit with data.held_out (a flow) or "
            "a dev set, or name a step"
        )
    return found[0]
