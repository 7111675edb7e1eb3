"""Fit a post-processor to vectors: python -m bertflow_jax.postprocess fit --method=NAME ...

  python -m bertflow_jax.postprocess fit --method=whitening --k=256 --input=vectors.npy \\
      --output=whitening
  python -m bertflow_jax.postprocess fit --method=flow --epochs=2 --input=vectors.parquet \\
      --column=embedding --output=flow

The input is a .npy array [N, D], a .parquet file with a column of lists, or a folder of parts that
bertflow_jax.embed wrote. All methods but the flow read it once, in flat memory; the flow's fit
needs the whole table in memory.
"""

from absl import flags

from bertflow_jax.errors import ConfigError
from bertflow_jax.postprocess.fit_files import METHODS, FitOptions, run_fit_files

FLAGS = flags.FLAGS

flags.DEFINE_string("input", None, "Vectors: .npy, .parquet, or a folder of embed's parts.")
flags.DEFINE_string("column", "", "Of the vectors in .parquet; default: vector, or the only one.")
flags.DEFINE_string("output", None, "Folder that the fit is saved to.")
flags.DEFINE_enum("method", None, list(METHODS), "What is fitted.")
flags.DEFINE_integer(
    "k", None, "Directions that natsv removes; dimensions that whitening or reduce keeps.", 1
)
flags.DEFINE_float("alpha", None, "whitening: 1 whitens, 0 centres and rotates.", 0.0, 1.0)
flags.DEFINE_enum("kind", None, ["pca", "zca"], "whitening: zca rotates back.")
flags.DEFINE_enum("how", None, ["pca", "truncate", "block_mean"], "reduce: default pca.")
flags.DEFINE_integer("seed", None, "flow: of parameters and order; default 0.", 0)
flags.DEFINE_integer("levels", None, "flow: default 3.", 1)
flags.DEFINE_integer("depth", None, "flow: steps a level; default 3.", 1)
flags.DEFINE_integer("width", None, "flow: hidden units of a conditioner; default 32.", 1)
flags.DEFINE_enum("coupling", None, ["additive", "affine"], "flow: default additive.")
flags.DEFINE_enum("permutation", None, ["reverse", "plu"], "flow: default reverse.")
flags.DEFINE_enum("activation", None, ["relu", "gatu"], "flow: default relu.")
flags.DEFINE_float("dropout", None, "flow: default 0.", 0.0)
flags.DEFINE_enum("actnorm_init", None, ["data", "released", "identity"], "flow: default data.")
flags.DEFINE_integer("steps", None, "flow: optimiser steps; default: by --epochs.", 0)
flags.DEFINE_float("epochs", None, "flow: passes over the vectors; default 1.", 0.0)
flags.DEFINE_integer("batch_size", None, "flow: vectors a step; default 32.", 1)
flags.DEFINE_float("learning_rate", None, "flow: default 0.001.", 0.0)


def main() -> None:
    """Fit as the flags say."""
    for name in ("input", "output", "method"):
        if not (FLAGS[name].value or "").strip():
            choice = f": one of {', '.join(METHODS)}" if name == "method" else ""
            raise ConfigError(f"--{name} is missing{choice}")
    names = dict.fromkeys(name for settings in METHODS.values() for name in settings)
    settings = {name: FLAGS[name].value for name in names if FLAGS[name].value is not None}
    options = FitOptions(FLAGS.method, FLAGS.input, FLAGS.output, FLAGS.column, settings)
    fitted = run_fit_files(options, progress=True)
    print(
        f"fitted: {fitted.processor!r} on {fitted.rows} vectors of {fitted.features} dimensions in "
        f"{fitted.seconds:.1f} s"
    )
    print(
        f"mean cosine of random pairs: {fitted.cosine_before:.4f} before, "
        f"{fitted.cosine_after:.4f} after ({fitted.sampled} rows sampled)"
    )
    print(f"saved: {FLAGS.output}")
