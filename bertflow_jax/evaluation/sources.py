"""What an evaluation scores: the flow of a run, or an encoder with or without a post-processor."""

import dataclasses
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertflow_jax.checks import parse_step
from bertflow_jax.config import Config
from bertflow_jax.data.text import TextCorpus
from bertflow_jax.evaluation.captions import step_line
from bertflow_jax.evaluation.options import EvalOptions
from bertflow_jax.evaluation.own_text import own_text

if TYPE_CHECKING:
    from bertflow_jax.embed import SentenceEncoder
    from bertflow_jax.postprocess import PostProcessor

_log = logging.getLogger(__name__)
# Of a flow or a whitening of all directions: of other texts than those of the fit it was 0.42 at
# most, of another pooling of mini_bert 0.48 at least (docs/own-corpus.md).
_UNLIKE = 0.45


@dataclasses.dataclass(frozen=True)
class Source:
    """What is scored.

    Attributes:
      encoder: without a flow.
      identity: of the encoder.
      postprocess: the run's flow, or what --flow names; None without either.
      config: of the run; its `flow` and `train` sections shape the flows among the fitted rows.
      own_text: reads what the run was fitted on; None without a run.
      model: of results.json.
      metrics_path: metrics of the run.
    """

    encoder: "SentenceEncoder"
    identity: dict[str, Any]
    postprocess: "PostProcessor | None"
    config: Config
    own_text: Callable[[], TextCorpus] | None
    model: dict[str, Any]
    metrics_path: Path | None


def workdir_source(options: EvalOptions, scratch: Path) -> Source:
    """Restore --workdir and say which step that is.

    Args:
      options: with `workdir`.
      scratch: folder for the metrics of a workdir in a bucket.

    Raises:
      DataNotFoundError, CheckpointError: as `restore.load_run`.
    """
    # Imported here so that a wrong flag is reported without the seconds that loading JAX takes.
    from bertflow_jax.digests import tree_digest
    from bertflow_jax.restore import load_run

    assert options.workdir is not None
    run = load_run(options.workdir, parse_step(options.step), scratch)
    config = Config.from_dict(run.records.config)
    print(f"checkpoint: {step_line(run.step, config, run.records.manifest['examples'])}")
    model = {
        "workdir": options.workdir,
        "step": run.step,
        "encoder": {
            "path": config.encoder.path,
            **run.records.encoder,
            "pooling_name": config.encoder.pooling,
        },
        "flow": run.records.config["flow"],
        # A run is overwritten: this says which parameters were scored.
        "postprocess": {"name": run.flow.name, "sha256": tree_digest(run.flow.pure().params)},
        "config": run.records.config,
        "text": run.records.manifest,
    }
    return Source(
        run.encoder,
        run.identity,
        run.flow,
        options.config or config,
        own_text(config, run.records.manifest),
        model,
        run.metrics_path,
    )


def encoder_source(options: EvalOptions) -> Source:
    """Load --encoder, with --flow or what was saved with it.

    Raises:
      BertFlowError: as `SentenceEncoder.from_pretrained` and `postprocess.from_pretrained`; the
        encoder has a post-processor, and --flow names another one.
    """
    # The post-processor first: it is small, and a wrong path is told before the encoder is loaded.
    processor = None if options.flow is None else _load_postprocess(options.flow)
    encoder = _load_encoder(options)
    # An encoder that was saved with a post-processor has one; a second one is refused.
    both = encoder if processor is None else encoder.with_postprocess(processor)
    processor = both.processor
    if processor is not None:
        encoder = both.without_postprocess()
    identity = encoder.identity()
    named = {"pooling_name": options.pooling} if options.pooling else {}
    model = {"encoder": {"path": options.encoder, **identity, **named}, "flow": None}
    if processor is not None:
        after = both.describe()["postprocess"]
        model["flow"] = {"path": options.flow or options.encoder, **after}
    return Source(encoder, identity, processor, options.config or Config(), None, model, None)


def _load_postprocess(name: str) -> "PostProcessor":
    from bertflow_jax import postprocess

    return postprocess.from_pretrained(name)


def _load_encoder(options: EvalOptions) -> "SentenceEncoder":
    from bertflow_jax.embed import SentenceEncoder

    assert options.encoder is not None
    return SentenceEncoder.from_pretrained(
        options.encoder,
        pooling=options.pooling,
        max_length=options.max_length,
        dtype=options.dtype or "float32",
        revision=options.revision,
    )


def tell_unlike(processor: "PostProcessor | None", cosines: Mapping[str, float | None]) -> None:
    """Warn where latents share a direction, as those of another encoder's vectors do.

    Args:
      processor: what the row of its name went through.
      cosines: of random pairs, by row.
    """
    if processor is None or processor.latent_features != processor.features:
        return
    whitens = processor.name == "flow" or getattr(processor, "alpha", None) == 1
    cosine = cosines[processor.name]
    if whitens and cosine is not None and cosine > _UNLIKE:
        _log.warning(
            "the %s's vectors have a mean cosine of %.2f, which is near 0 where the texts are like "
            "those it was fitted on: is it of this encoder, and of this pooling?",
            processor.name,
            cosine,
        )
