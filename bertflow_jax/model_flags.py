"""The flags that say which encoder a command uses, with or without a post-processor."""

import dataclasses

from absl import flags

from bertflow_jax.encoder_spec import EncoderSpec

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
    "flow",
    None,
    "With --encoder: folder or Hub id of a saved or imported flow, or of a saved Whitening, ...",
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


def encoder_spec() -> EncoderSpec:
    """Return what the flags name.

    Raises:
      ConfigError: they contradict each other or have no effect.
    """
    fields = dataclasses.fields(EncoderSpec)
    spec = EncoderSpec(**{field.name: FLAGS[field.name].value for field in fields})
    spec.check()
    return spec
