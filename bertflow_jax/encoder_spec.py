"""Which encoder a command or a worker loads; JAX is imported when it is loaded, not before."""

import dataclasses
import os
from typing import TYPE_CHECKING, Any

from bertflow_jax.checks import ENCODER_SETTINGS, check_encoder_settings, parse_step
from bertflow_jax.errors import ConfigError
from bertflow_jax.paths import user_path
from bertflow_jax.remote.address import remote_address

if TYPE_CHECKING:
    from bertflow_jax.embed import SentenceEncoder


@dataclasses.dataclass(frozen=True)
class EncoderSpec:
    """An encoder, with or without a post-processor; `encoder` or `workdir` is given, not both.

    Attributes:
      encoder: folder, Hub id or `mini_bert`: an encoder without a flow.
      workdir: of a train.py run (a folder or gs://): encoder and flow.
      step: with workdir: of the checkpoint; `best`, or None for the newest good one.
      revision: with encoder: branch, tag or commit of a Hub id; None takes the main branch.
      flow: with encoder: folder or Hub id of a saved flow, Whitening, ...
      pooling: with encoder; None takes the folder's own.
      max_length: with encoder: tokens a text; None takes the folder's.
      dtype: with encoder: compute type; None is float32.
    """

    encoder: str | None = None
    workdir: str | None = None
    step: int | str | None = None
    revision: str | None = None
    flow: str | None = None
    pooling: str | None = None
    max_length: int | None = None
    dtype: str | None = None

    def check(self) -> None:
        """Raise ConfigError for settings that exclude each other; nothing is looked up."""
        if (self.workdir is None) == (self.encoder is None):
            raise ConfigError("give either --workdir=DIR (a run of train.py) or --encoder=PATH")
        for name in ("workdir", "encoder", "revision", "flow", "pooling", "dtype"):
            value = getattr(self, name)
            if value is not None and not str(value).strip():
                raise ConfigError(f"--{name} is blank; give it a value, or leave it out")
        if self.workdir is not None:
            check_encoder_settings({name: getattr(self, name) for name in ENCODER_SETTINGS})
        elif self.step is not None:
            raise ConfigError("--step goes with --workdir; an encoder has no checkpoints")
        parse_step(self.step)

    def absolute(self) -> "EncoderSpec":
        """Return the same with absolute paths, for processes with a current folder of their own."""
        paths: dict[str, Any] = {
            name: _absolute(value, name)
            for name in ("encoder", "workdir", "flow")
            if (value := getattr(self, name)) is not None
        }
        return dataclasses.replace(self, **paths)

    def load(self) -> "SentenceEncoder":
        """Load it; raises a BertFlowError that names what is missing or damaged."""
        from bertflow_jax.embed import SentenceEncoder
        from bertflow_jax.postprocess import from_pretrained

        self.check()
        if self.workdir is not None:
            return SentenceEncoder.from_checkpoint(self.workdir, parse_step(self.step))
        assert self.encoder is not None
        # First, so that a wrong path is told before the seconds that loading an encoder takes.
        processor = None if self.flow is None else from_pretrained(self.flow)
        encoder = SentenceEncoder.from_pretrained(
            self.encoder,
            self.pooling,
            self.max_length,
            self.dtype or "float32",
            revision=self.revision,
        )
        return encoder if processor is None else encoder.with_postprocess(processor)


def _absolute(value: str, name: str) -> str:
    """Return a path that is there as an absolute one; anything else (a Hub id) as it is."""
    if remote_address(value, name) is not None:
        return value
    path = user_path(value, name)
    return str(path.absolute()) if os.path.exists(path) else value
