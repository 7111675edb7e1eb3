"""Training of the encoder from config to saved encoder folder: what `train.py` runs."""

import dataclasses
import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from bertflow_jax import distributed, parallel
from bertflow_jax.checkpoint import CheckpointStore, Records
from bertflow_jax.compilation import use_compilation_cache
from bertflow_jax.config import Config
from bertflow_jax.data.supervision import LabelledPairs, load_dev_pairs, load_training_pairs
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.encoder.pretrained import Encoder
from bertflow_jax.errors import CheckpointError, DataNotFoundError
from bertflow_jax.jax_settings import run_settings
from bertflow_jax.remote.address import Address
from bertflow_jax.scores import Score
from bertflow_jax.training.fit import planned_steps
from bertflow_jax.training.processes import (
    check_same_input,
    first_holds,
    first_writes_metrics,
    shared_workdir,
)
from bertflow_jax.training.profile import Profiler
from bertflow_jax.training.resume import resume_check
from bertflow_jax.training.run import absolute_paths, load_encoder
from bertflow_jax.training.supervised_batches import PairBatches, choose_labelled
from bertflow_jax.training.supervised_dev import BestDev, DevSet
from bertflow_jax.training.supervised_loop import run_supervised
from bertflow_jax.training.supervised_state import (
    ENCODER_ITEM,
    Experiment,
    checkpoint_arrays,
    trained_shapes,
    with_trained,
    without_moments,
)
from bertflow_jax.training.supervised_steps import SupervisedState, supervised_part
from bertflow_jax.workdir import ENCODER_FOLDER, NEW_ENCODER, check_inputs_outside

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class SupervisedResult:
    """The end of a run.

    Attributes:
      step: steps made.
      saved_step: of the encoder that was written: the best dev evaluation, or the last step.
      best: the dev record, None without a dev set.
      encoder_folder: WORKDIR/encoder, for `--encoder` and `--config.encoder.path`, which want a
        folder of the machine: one in a bucket is copied first.
    """

    step: int
    saved_step: int
    best: BestDev | None
    encoder_folder: Path | Address

    def __str__(self) -> str:
        dev = ""
        if self.best is not None and self.best.value is not None:
            start = "" if self.best.start is None else f" ({self.best.start:.4f} at the start)"
            dev = f", dev {self.best.metric} {self.best.value:.4f}{start}"
        return f"step {self.step}: encoder of step {self.saved_step}{dev}: {self.encoder_folder}"


@run_settings(training=True)
def train_encoder(
    config: Config,
    workdir: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = False,
) -> SupervisedResult:
    """Train the encoder on labelled pairs; leave checkpoints, metrics and WORKDIR/encoder.

    Args:
      config: the experiment; its objective is `siamese`, `regression` or `joint`.
      workdir: folder of checkpoints/, metrics.jsonl, tensorboard/ and encoder/; may be
        gs://BUCKET/FOLDER.
      resume: go on from the newest good checkpoint.
      overwrite: delete what is in the workdir, once pairs and encoder are there.
      progress: show progress bars.

    Raises:
      BertFlowError: anything the caller can mend; see `bertflow_jax.errors`.
    """
    config = absolute_paths(config.validate())
    place = shared_workdir(workdir, resume=resume, overwrite=overwrite)
    if overwrite:
        named = {"encoder.path": config.encoder.path, "cache_dir": config.cache_dir}
        named["supervision.path"] = config.supervision.path
        named["supervision.dev_path"] = config.supervision.dev_path
        check_inputs_outside(place, named)
    loss = supervised_part(config)
    use_compilation_cache()
    pairs, (dev_pairs, metric), encoder = distributed.together(
        lambda: (
            load_training_pairs(config.supervision, loss),
            load_dev_pairs(config.supervision, loss),
            load_encoder(config),
        )
    )
    _warn_without_dev(config, dev_pairs)
    pairs, labelled = _labelled(config, pairs)
    batches = PairBatches(
        pairs,
        labelled,
        encoder.encoder.tokenizer,
        batch_size=config.train.batch_size,
        duplicate=config.supervision.duplicate,
        seed=config.seed,
    )
    identity = encoder.identity()
    manifest = _manifest(pairs, labelled, dev_pairs, metric)
    _log.info("%d labelled pairs, dev metric %s", int(labelled.sum()), metric)
    # WORKDIR/encoder is written from the best step.
    kept = config.checkpoint.keep, max(1, config.checkpoint.keep_best)
    with first_holds(place) as held, held.store(*kept) as store:
        check_same_input(config, identity, manifest)
        parallel.check_batch(batches.order.batch_size, config.train.accumulate)
        resume = held.begin(store, resume=resume)
        check = resume_check(store.place, config, identity, manifest)
        if resume:
            distributed.share(lambda: check(store.newest_good(store.records)))
        if overwrite:
            held.clear()
        experiment = Experiment(config, encoder, pairs, planned_steps(config.train, batches.order))
        best = None if dev_pairs is None else BestDev(metric)
        if resume:
            state, start, best = experiment.resume(store, check, best)
        else:
            state, start = experiment.start(batches)

        def save(state: SupervisedState, best: BestDev | None, value: float | None) -> None:
            record = experiment.record(state, start, best)
            records = Records(record, config.to_dict(), identity, manifest)
            score = None if best is None else Score(best.metric, value)
            store.save(checkpoint_arrays(state), records, score)

        make_batch, step, state = experiment.compile(state, start, batches)
        dev = None if dev_pairs is None else DevSet(config, encoder, dev_pairs, metric)

        def evaluate(state: SupervisedState) -> float | None:
            assert dev is not None
            host = parallel.to_host(without_moments(state))
            return distributed.share(lambda: dev(host))

        profiler = Profiler(config.profile_steps, held.folder / "tensorboard")
        with first_writes_metrics(config, held.folder, int(state.step)) as sink, profiler:
            result = run_supervised(
                config,
                batches.order,
                make_batch,
                step,
                state,
                evaluate=None if dev is None else evaluate,
                best=best,
                schedule=experiment.schedule,
                sink=sink,
                profiler=profiler,
                save=save,
                finish=store.finish,
                progress=progress and distributed.is_first(),
            )
        state = parallel.to_host(without_moments(result.state))
        saved = distributed.share(
            lambda: _finish(held.folder, store, encoder.encoder, state, result.best)
        )
        held.publish()
        written = place / ENCODER_FOLDER
        return SupervisedResult(int(state.step), saved, result.best, written)


def _warn_without_dev(config: Config, dev_pairs: LabelledPairs | None) -> None:
    rhythm = {
        "supervision.patience": config.supervision.patience,
        "train.eval_every": config.train.eval_every,
    }
    useless = [f"{name}={value}" for name, value in rhythm.items() if value]
    if dev_pairs is None and useless:
        _log.warning(
            "there is no dev set, so that %s does nothing and the last step counts as the best: "
            "set supervision.dev_path, or give the file a column `split`",
            " and ".join(useless),
        )


def _labelled(config: Config, pairs: LabelledPairs) -> tuple[LabelledPairs, np.ndarray]:
    """Choose the examples that keep their label; without a flow the others have no use."""
    labelled = choose_labelled(len(pairs), config.supervision.labelled, config.seed)
    if config.objective == "joint" or labelled.all():
        return pairs, labelled
    kept = np.flatnonzero(labelled)
    _log.warning(
        "objective=%s learns from labels alone: the %d examples without one are left out",
        config.objective,
        len(pairs) - len(kept),
    )
    return LabelledPairs(
        [pairs.sentences1[i] for i in kept],
        [pairs.sentences2[i] for i in kept],
        pairs.targets[kept],
        pairs.manifest,
    ), labelled[kept]


def _manifest(
    pairs: LabelledPairs, labelled: np.ndarray, dev: LabelledPairs | None, metric: str
) -> dict[str, Any]:
    return {
        **pairs.manifest,
        "examples": len(pairs),
        "labelled": int(labelled.sum()),
        "dev_metric": metric,
        "dev_pairs": 0 if dev is None else len(dev),
        "dev_sha256": None if dev is None else dev.manifest["sha256"],
    }


def _finish(
    folder: Path,
    store: CheckpointStore,
    encoder: Encoder,
    state: SupervisedState,
    best: BestDev | None,
) -> int:
    """Write WORKDIR/encoder: of the best dev evaluation, without one of the last step.

    Returns which step that is.
    """
    step = int(state.step)
    saved, trained = step, state.params["encoder"]
    if best is not None and best.step is not None and best.step != step:
        saved = best.step
        try:
            arrays, _ = store.restore(saved, lambda _: {ENCODER_ITEM: trained_shapes(encoder)})
            trained = arrays[ENCODER_ITEM]
        except (CheckpointError, DataNotFoundError) as error:
            _log.warning("%s; the encoder of the last step is written in place of the best", error)
            saved = step
    target, new = folder / ENCODER_FOLDER, folder / NEW_ENCODER
    # Written beside the old one and renamed: what lies at WORKDIR/encoder is always whole.
    shutil.rmtree(new, ignore_errors=True)
    SentenceEncoder(with_trained(encoder, trained)).save_pretrained(new)
    shutil.rmtree(target, ignore_errors=True)
    new.rename(target)
    return saved
