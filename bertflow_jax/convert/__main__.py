"""Import a flow or an encoder that another implementation saved.

A flow of the PyTorch port (its glow.bin, or the folder of its save_pretrained):
  python -m bertflow_jax.convert --flow=glow.bin --output=imported
A TensorFlow 1 checkpoint, of BERT-flow (encoder and flow) or of Google's BERT (encoder):
  python -m bertflow_jax.convert --checkpoint=model.ckpt-269 --bert_config=bert_config.json \\
      --vocab=vocab.txt --do_lower_case --pooling=first_last --output=imported

Writes OUTPUT/flow (Flow.load, evaluate.py --flow) and OUTPUT/encoder (--encoder), whichever the
source holds. Every tensor of the source is used or left out for a stated reason; anything else is
an error. TensorFlow is not needed; PyTorch is, for the port's file.
"""

# Before the imports, which take seconds: Ctrl-C is heeded without them.
from bertflow_jax.interrupt import end_at_once

if __name__ == "__main__":
    end_at_once()

from typing import Any

from absl import flags

from bertflow_jax import cli

flags.DEFINE_string("flow", None, "State dict of the PyTorch port, or a folder with its glow.bin.")
flags.DEFINE_string("checkpoint", None, "TensorFlow 1 checkpoint: prefix, file or folder.")
flags.DEFINE_string("output", None, "Folder to write to; must not hold an import yet.")
flags.DEFINE_enum(
    "kind",
    "auto",
    ["auto", "port", "tf1"],
    "What the source is: a flow of the PyTorch port or a TensorFlow 1 checkpoint; auto: "
    "as the flag says.",
)
flags.DEFINE_string(
    "bert_config", None, "The encoder's bert_config.json; default: the one beside the checkpoint."
)
flags.DEFINE_string(
    "vocab", None, "The encoder's vocab.txt; default: the one beside the checkpoint."
)
flags.DEFINE_bool(
    "do_lower_case",
    None,
    "Whether the vocabulary is of an uncased model; needed unless its folder's name says so.",
)
flags.DEFINE_string(
    "pooling",
    None,
    "With --checkpoint: pooling that OUTPUT/encoder names as its own; default: mean.",
)
flags.DEFINE_integer("levels", None, "The flow must have so many levels.", lower_bound=1)
flags.DEFINE_integer("depth", None, "The flow must have so many steps a level.", lower_bound=1)
flags.DEFINE_integer("width", None, "The conditioner must have this width.", lower_bound=1)
flags.DEFINE_enum("coupling", None, ["additive", "affine"], "The flow must have this coupling.")
flags.DEFINE_enum("permutation", None, ["reverse", "plu"], "The flow must have this permutation.")
flags.DEFINE_enum("activation", None, ["relu", "gatu"], "The conditioner must have this one.")


def main() -> None:
    """Import as the flags say."""
    # Imported here so that a wrong flag is reported without the seconds that loading JAX takes.
    from bertflow_jax.convert.run import ConvertOptions, run_convert

    values: dict[str, Any] = {
        name: flags.FLAGS[name].value for name in ConvertOptions.__dataclass_fields__
    }
    run_convert(ConvertOptions(**values))


if __name__ == "__main__":
    cli.run(main)
