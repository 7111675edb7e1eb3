"""The flags that say which encoder a command uses, with or without a post-processor."""

from typing import TYPE_CHECKING

from absl import flags

from bertflow_jax.checks import ENCODER_SETTINGS, check_encoder_settings, parse_step
from bertflow_jax.errors import ConfigError

if TYPE_CHECKING:
    from bertflow_jax.embed import SentenceEncoder

FLAGS = flags.FLAGS

flags.DEFINE_string("workdir", None, "Folder (or gs://) of a train.py run: encoder and flow.")
flags.DEFINE_string(
    "step",
    None,
    "Checkpoint of the workdir: a step, or best (held-out loss or dev metric); default: the "
    "newest good one.",
)
flags.DEFINE_string("encoder", None, "Folder, Hub id or mini_bert: an encoder without a flow.")
flags.DEFINE_string(
    "revision", None, "With --encoder: branch, tag or commit of a Hub id; default: its main branch."
)
flags.DEFINE_string(
    "flow", None, "With --encoder: folder of a saved or imported flow, or of a saved Whitening, ..."
)
flags.DEFINE_string(
    "pooling",
    None,
    "With --encoder: how token vectors become one, as mean, cls or first_last; default: as its "
    "folder says, or mean.",
)
flags.DEFINE_integer(
    "max_length", None, "With --encoder: most tokens of a text; default: the encoder's own limit."
)
flags.DEFINE_enum("dtype", None, ["float32", "bfloat16"], "With --encoder: compute type.")


def check() -> None:
    """Refuse flags that contradict each other or have no effect.

    Raises:
      ConfigError: naming them.
    """
    if (FLAGS.workdir is None) == (FLAGS.encoder is None):
        raise ConfigError("give either --workdir=DIR (a run of train.py) or --encoder=PATH")
    if FLAGS.workdir is not None:
        check_encoder_settings({name: FLAGS[name].value for name in ENCODER_SETTINGS})
    elif FLAGS.step is not None:
        raise ConfigError("--step goes with --workdir; an encoder has no checkpoints")
    for name in ("workdir", "encoder", "revision", "flow", "pooling"):
        value = FLAGS[name].value
        if value is not None and not value.strip():
            raise ConfigError(f"--{name} is blank; give it a value, or leave it out")


def load_encoder() -> "SentenceEncoder":
    """Load what the flags name; raises a BertFlowError where that cannot be had."""
    # Imported here so that a wrong flag is reported without the seconds that loading JAX takes.
    from bertflow_jax.embed import SentenceEncoder
    from bertflow_jax.postprocess import load

    if FLAGS.workdir is None:
        # First, so that a wrong path is told before the seconds that loading an encoder takes.
        processor = None if FLAGS.flow is None else load(FLAGS.flow)
        encoder = SentenceEncoder.from_pretrained(
            FLAGS.encoder,
            FLAGS.pooling,
            FLAGS.max_length,
            FLAGS.dtype or "float32",
            revision=FLAGS.revision,
        )
        return encoder if processor is None else encoder.with_postprocess(processor)
    return SentenceEncoder.from_checkpoint(FLAGS.workdir, parse_step(FLAGS.step))
