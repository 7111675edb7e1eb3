"""The typed configuration of an experiment.

A file in configs/ returns one `Config`; `--config.a.b=value` overrides a field. `Config.validate`
checks every value and names the field in its message.
"""

import dataclasses
from typing import Any

from bertflow_jax.checks import check_choice, check_least, check_types, parse_profile_steps, require
from bertflow_jax.config_fields import field_names as field_names
from bertflow_jax.config_fields import from_dict
from bertflow_jax.model_config import EncoderConfig as EncoderConfig
from bertflow_jax.model_config import FlowConfig as FlowConfig
from bertflow_jax.supervision_config import OBJECTIVES
from bertflow_jax.supervision_config import SupervisionConfig as SupervisionConfig

_MAX_EPOCHS = 1e6
PARALLEL = ("jit", "pmap", "fsdp")  # see `bertflow_jax.parallel`


@dataclasses.dataclass
class DataConfig:
    """The unlabelled text a flow is fitted on.

    Attributes:
      path: `everyday` (the bundled corpus), a text file (one sentence a line), a .tsv/.csv file,
        or a folder of STS data (`STS/`, `STSBenchmark/`, `SICK/` side by side, or one of them;
        `tfds:DIR` where prepared with TFDS).
      format: `auto` (by the file's name), `text`, `tsv`, `csv`, `sts`, or `pairs`: files of NLI or
        other labelled pairs, separated by commas, whose labels are dropped (`data.pair_files`).
      columns: for tsv/csv: one or two column names (or 0-based numbers, for a file without a
        header), separated by a comma.
      task: for such a folder: `stsb`, `sickr`, `sts12` ... `sts16`, `qnli`, `mrpc`, `qqp`.
      splits: for an STS folder: splits separated by commas.
      encoding: text encoding of the files.
      held_out: share of the examples kept out of the fit, for the held-out bits/dim; in [0, 0.5].
    """

    path: str = "everyday"
    format: str = "auto"
    columns: str = ""
    task: str = "stsb"
    splits: str = "train,dev,test"
    encoding: str = "utf-8"
    held_out: float = 0.0

    def validate(self, prefix: str = "data.") -> None:
        """Raise ConfigError for an impossible value."""
        check_types(self, prefix)
        what = "must name a text, as --config.data.path=sentences.txt"
        require(bool(self.path.strip()), prefix + "path", self.path, what)
        check_choice(prefix + "format", self.format, ("auto", "text", "tsv", "csv", "sts", "pairs"))
        require(
            0.0 <= self.held_out <= 0.5, prefix + "held_out", self.held_out, "must be in [0, 0.5]"
        )


@dataclasses.dataclass
class TrainConfig:
    """The fit. The defaults are the released ones.

    Attributes:
      steps: optimiser steps; 0 takes `epochs` passes over the examples.
      epochs: passes over the examples (may be a fraction), used when steps is 0.
      batch_size: examples a step; an example is one sentence, or a pair whose two losses add up.
      accumulate: pieces that a step's batch is worked through in, one after the other: memory of
        the piece, gradient of the whole. Must divide batch_size.
      learning_rate: constant step size.
      optimizer: `released` (Adam without bias correction, decoupled decay) or `adamw` (optax).
      weight_decay: decoupled decay on every trainable variable.
      clip_norm: global-norm clip of the gradient.
      init_rows: sentences the data-dependent ActNorm initialisation looks at; 0 takes one batch.
      mode: `cached` (every sentence embedded once, the encoder deterministic) or `online` (as
        released: BERT runs inside the step with its dropout on, so that an embedding is another one
        every time).
      log_every: steps between two lines of metrics.
      eval_every: steps between two held-out evaluations; 0 evaluates at saves and at the end. A
        flow fit with `checkpoint.keep_best` evaluates at its saves in any case.
      tensorboard: also write a TensorBoard event file.
    """

    steps: int = 0
    epochs: float = 1.0
    batch_size: int = 32
    accumulate: int = 1
    learning_rate: float = 1e-3
    optimizer: str = "released"
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    init_rows: int = 0
    mode: str = "cached"
    log_every: int = 10
    eval_every: int = 0
    tensorboard: bool = True

    def validate(self, prefix: str = "train.") -> None:
        """Raise ConfigError for an impossible value."""
        check_types(self, prefix)
        check_least(
            self,
            prefix,
            steps=0,
            batch_size=1,
            accumulate=1,
            weight_decay=0,
            log_every=1,
            eval_every=0,
        )
        require(
            self.batch_size % max(self.accumulate, 1) == 0,
            prefix + "accumulate",
            self.accumulate,
            f"must divide {prefix}batch_size={self.batch_size}",
        )
        require(
            self.steps > 0 or 0 < self.epochs <= _MAX_EPOCHS,
            prefix + "epochs",
            self.epochs,
            f"must be > 0 and at most {_MAX_EPOCHS:g}",
        )
        require(self.learning_rate > 0, prefix + "learning_rate", self.learning_rate, "must be > 0")
        check_choice(prefix + "optimizer", self.optimizer, ("released", "adamw"))
        check_choice(prefix + "mode", self.mode, ("cached", "online"))
        require(self.clip_norm > 0, prefix + "clip_norm", self.clip_norm, "must be > 0")
        require(
            self.init_rows == 0 or self.init_rows >= 2,
            prefix + "init_rows",
            self.init_rows,
            "must be 0 (one batch) or at least 2",
        )


@dataclasses.dataclass
class CheckpointConfig:
    """How often the fit is saved.

    Attributes:
      every: steps between two checkpoints (the last step is always saved).
      keep: how many of the newest checkpoints stay.
      keep_best: how many of those with the best scores stay besides: lowest held-out bits/dim of a
        flow fit, best dev metric of a supervised run, which always keeps at least that one.
    """

    every: int = 500
    keep: int = 3
    keep_best: int = 1

    def validate(self, prefix: str = "checkpoint.") -> None:
        """Raise ConfigError for an impossible value."""
        check_types(self, prefix)
        check_least(self, prefix, every=1, keep=1, keep_best=0)


@dataclasses.dataclass
class Config:
    """One experiment: everything `train.py` needs besides the workdir.

    Attributes:
      seed: of the parameters, the order of the examples and dropout.
      objective: `flow` (fit a flow on frozen embeddings), `siamese` or `regression` (fine-tune the
        encoder on labelled pairs), `joint` (both at once) or `none` (an encoder that is scored as
        it is: there is nothing to train).
      encoder: which BERT and pooling.
      flow: shape of the flow.
      data: the text.
      train: the fit.
      checkpoint: the saves.
      supervision: labelled pairs, for every objective but `flow`.
      parallel: how a step runs on several devices, with the same numbers: `jit` (over a mesh of
        all devices of all processes), `pmap`, or `fsdp`: as jit, and where an encoder is trained
        its parameters and moments are split over the devices.
      profile_steps: `START:STOP` traces the steps between for TensorBoard; "" traces none.
      cache_dir: folder of cached embeddings; "" takes `bertflow_jax` in the user's cache folder.
    """

    seed: int = 0
    objective: str = "flow"
    encoder: EncoderConfig = dataclasses.field(default_factory=EncoderConfig)
    flow: FlowConfig = dataclasses.field(default_factory=FlowConfig)
    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    train: TrainConfig = dataclasses.field(default_factory=TrainConfig)
    checkpoint: CheckpointConfig = dataclasses.field(default_factory=CheckpointConfig)
    supervision: SupervisionConfig = dataclasses.field(default_factory=SupervisionConfig)
    parallel: str = "jit"
    profile_steps: str = ""
    cache_dir: str = ""

    def validate(self) -> "Config":
        """Return self, or raise ConfigError naming the field."""
        check_types(self)
        check_least(self, "", seed=0)
        check_choice("objective", self.objective, OBJECTIVES)
        check_choice("parallel", self.parallel, PARALLEL)
        parse_profile_steps(self.profile_steps, "profile_steps")
        given = not self.cache_dir or bool(self.cache_dir.strip())
        require(given, "cache_dir", self.cache_dir, "must not be blank")
        for part in (self.encoder, self.flow, self.data, self.train, self.checkpoint):
            part.validate()
        self.supervision.validate()
        require(
            self.objective in ("flow", "none") or bool(self.supervision.path.strip()),
            "supervision.path",
            self.supervision.path,
            f"objective={self.objective} needs labelled pairs: name files, or a folder",
        )
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as nested plain dicts (JSON-safe)."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Config":
        """Rebuild a config saved by `to_dict`; an unknown field is a ConfigError."""
        return from_dict(cls, fields, "")
