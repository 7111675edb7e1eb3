"""One experiment from config to checkpoint: what `train.py` runs."""

import dataclasses
import functools
import logging
import os
from collections.abc import Callable
from pathlib import Path

import jax

from bertflow_jax import distributed, parallel
from bertflow_jax.checkpoint import CheckpointStore, Records
from bertflow_jax.config import Config
from bertflow_jax.data.embedding_cache import embed_cached
from bertflow_jax.data.text import TextCorpus, load_text
from bertflow_jax.data.texts import alike
from bertflow_jax.data.tfds_builders import PREFIX, tfds_folder
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.encoder.hub import MINI_BERT
from bertflow_jax.errors import ConfigError
from bertflow_jax.flow.glow import check_features
from bertflow_jax.jax_settings import run_settings
from bertflow_jax.paths import user_path
from bertflow_jax.scores import HELD_OUT, Score
from bertflow_jax.supervision_config import comma_separated
from bertflow_jax.training.fit import (
    FitData,
    blank_state,
    init_sentences,
    initial_state,
    prepare_data,
)
from bertflow_jax.training.loop import FitResult, run_fit
from bertflow_jax.training.online import OnlineText, online_runner
from bertflow_jax.training.processes import (
    best_shared,
    check_same_input,
    first_holds,
    first_writes_metrics,
    restore_shared,
    shared_workdir,
)
from bertflow_jax.training.profile import Profiler
from bertflow_jax.training.resume import resume_check
from bertflow_jax.training.split import fitted_count
from bertflow_jax.training.steps import FitState
from bertflow_jax.training.supervised_flow import FlowStart
from bertflow_jax.workdir import check_inputs_outside

_log = logging.getLogger(__name__)
# Fewer, and a flow scored below the raw embeddings after twenty epochs.
_FEW_SENTENCES = 500


@run_settings(training=True)
def train(
    config: Config,
    workdir: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = False,
) -> FitResult:
    """Fit a flow on the text of a config and leave checkpoints and metrics in a workdir.

    Args:
      config: the experiment.
      workdir: folder of checkpoints/, metrics.jsonl and tensorboard/; may be gs://BUCKET/FOLDER.
      resume: go on from the newest good checkpoint.
      overwrite: delete what is in the workdir, once text and encoder are there.
      progress: show progress bars.

    Raises:
      BertFlowError: anything the caller can mend; see `bertflow_jax.errors`.
    """
    config = absolute_paths(config.validate())
    if config.objective != "flow":
        raise ConfigError(
            f"objective={config.objective!r} trains the encoder: call "
            "bertflow_jax.training.supervised_run.train_encoder"
        )
    if config.parallel == "fsdp":
        _log.warning("parallel=fsdp: a flow is small and is not split; as jit")
    place = shared_workdir(workdir, resume=resume, overwrite=overwrite)
    if overwrite:
        check_inputs_outside(
            place,
            {
                "data.path": config.data.path.removeprefix(PREFIX),
                "encoder.path": config.encoder.path,
                "cache_dir": config.cache_dir,
            },
        )
    corpus, encoder = distributed.together(lambda: (load_text(config.data), load_encoder(config)))
    check_features(encoder.dimension, config.flow)  # before the text is embedded
    _tell_text(config, corpus)
    identity = encoder.identity()
    sentences, rows = corpus.numbered()
    kept = config.checkpoint.keep, config.checkpoint.keep_best
    with first_holds(place) as held, held.store(*kept) as store:
        check_same_input(config, identity, corpus.manifest)
        kinds = alike(sentences) if config.data.held_out else None
        fitted = fitted_count(rows, config.data.held_out, kinds)
        parallel.check_batch(min(config.train.batch_size, fitted), config.train.accumulate)
        resume = held.begin(store, resume=resume)
        check = resume_check(store.place, config, identity, corpus.manifest)
        if resume:
            distributed.share(lambda: check(store.newest_good(store.records)))
        text = None
        if config.train.mode == "online":
            text = OnlineText.build(config, encoder, sentences, rows)
            data = text.data
        else:
            embeddings = embed_cached(
                lambda texts: encoder.encode(
                    list(texts),
                    batch_size=config.encoder.batch_size or None,
                    show_progress=progress,
                ),
                identity,
                sentences,
                config.cache_dir,
            )
            held_out = config.data.held_out
            data = prepare_data(embeddings, rows, held_out=held_out, seed=config.seed, alike=kinds)
        if overwrite:
            held.clear()
        if resume:
            state, start = _resume(config, data, store, check)
        elif text is not None:
            state, start = text.start(config)
        else:
            state, start = _start(config, data)
        state = distributed.share_arrays(state)
        start = start.shared(config)
        make_runner = None
        if text is not None:
            data = text.with_noise(config, start)
            make_runner = functools.partial(online_runner, config, text, start)

        def save(state: FitState, held_out: float | None) -> None:
            state_record = {
                "step": int(state.step),
                "features": data.features,
                **start.to_record(config),
            }
            records = Records(state_record, config.to_dict(), identity, corpus.manifest)
            score = None if held_out is None else Score(HELD_OUT, held_out)
            store.save({"flow": state.variables, "optimizer": state.opt_state}, records, score)

        profiler = Profiler(config.profile_steps, held.folder / "tensorboard")
        with first_writes_metrics(config, held.folder, int(state.step)) as sink, profiler:
            result = run_fit(
                config,
                data,
                state,
                sink=sink,
                profiler=profiler,
                save=save,
                finish=store.finish,
                best=best_shared(store) if resume else None,
                progress=progress and distributed.is_first(),
                make_runner=make_runner,
            )
        held.publish()
        return result


def _tell_text(config: Config, corpus: TextCorpus) -> None:
    """Say what a flow is fitted to, and where that is little."""
    count = corpus.manifest["unique_sentences"]
    _log.info("text: %d distinct sentences of %s", count, config.data.path)
    if count < _FEW_SENTENCES:
        _log.warning(
            "%d distinct sentences are few: a flow soon knows them by heart; compare its scores "
            "with those of a Whitening of the same text",
            count,
        )


def absolute_paths(config: Config) -> Config:
    """Return the config with local paths absolute: a run goes on and is restored from anywhere."""
    encoder = config.encoder
    folder = user_path(encoder.path, "encoder.path")
    if encoder.path != MINI_BERT and os.path.isdir(folder):
        encoder = dataclasses.replace(encoder, path=str(folder.absolute()))
    data = config.data
    text = user_path(data.path, "data.path")
    if (prepared := tfds_folder(data.path, "data.path")) is not None:
        data = dataclasses.replace(data, path=f"{PREFIX}{prepared.absolute()}")
    elif data.format == "pairs":
        data = dataclasses.replace(data, path=_absolute_list(data.path))
    elif data.path != "everyday" and os.path.exists(text):
        data = dataclasses.replace(data, path=str(text.absolute()))
    cache = config.cache_dir and str(
        user_path(config.cache_dir, "cache_dir", reading=False).absolute()
    )
    pairs = config.supervision
    pairs = dataclasses.replace(
        pairs, path=_absolute_list(pairs.path), dev_path=_absolute_list(pairs.dev_path)
    )
    return dataclasses.replace(
        config, encoder=encoder, data=data, supervision=pairs, cache_dir=cache
    )


def _absolute_list(paths: str) -> str:
    """Return paths separated by commas, absolute where there is such a file or folder."""
    found = [user_path(path, "supervision.path") for path in comma_separated(paths)]
    return ",".join(str(path.absolute()) if os.path.exists(path) else str(path) for path in found)


def load_encoder(config: Config) -> SentenceEncoder:
    """Return the frozen encoder a config names, without post-processor and default prompt."""
    encoder = SentenceEncoder.from_pretrained(
        config.encoder.path,
        pooling=config.encoder.pooling or None,
        max_length=config.encoder.max_length or None,
        dtype=config.encoder.dtype,
        revision=config.encoder.revision or None,
    )
    usage = encoder.encoder.usage
    prompt, encoder = usage.default_prompt_name, encoder.without_postprocess()
    if prompt is None:
        return encoder
    # A fit inside the step and the training of an encoder start from token ids of bare texts.
    _log.warning(
        "encoder.path=%s: its default prompt %r is not applied; put it before your texts",
        config.encoder.path,
        prompt,
    )
    bare = dataclasses.replace(usage, default_prompt_name=None)
    return SentenceEncoder(dataclasses.replace(encoder.encoder, usage=bare))


def _start(config: Config, data: FitData) -> tuple[FitState, FlowStart]:
    """Return a new state and how it was initialised."""
    first = init_sentences(config, data) if config.flow.actnorm_init == "data" else None
    start = FlowStart(0 if first is None else len(first), data.constant_dims)
    return initial_state(config, data, first), start


def _resume(
    config: Config, data: FitData, store: CheckpointStore, check: Callable[[Records], None]
) -> tuple[FitState, FlowStart]:
    """Return the newest good state and how its flow was initialised."""
    blank = jax.eval_shape(lambda: blank_state(config, data.features))
    wanted = {"flow": blank.variables, "optimizer": blank.opt_state}
    arrays, record = restore_shared(store, wanted, check)
    step = jax.numpy.asarray(record["step"], jax.numpy.int32)
    _log.info("resumed from step %d", step)
    return FitState(step, arrays["flow"], arrays["optimizer"]), FlowStart.from_record(record)
