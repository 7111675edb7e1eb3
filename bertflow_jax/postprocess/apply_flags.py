"""Apply a saved post-processor: python -m bertflow_jax.postprocess apply --model=FOLDER ...

  python -m bertflow_jax.postprocess apply --model=whitening --input=vectors.npy \\
      --output=white.npy
  python -m bertflow_jax.postprocess apply --model=whitening --input=white.npy --output=back.npy \\
      --inverse
  python -m bertflow_jax.postprocess apply --model=whitening --input=vectors.npy \\
      --output=unit.npy --normalize

--inverse undoes apply without --normalize: lengths that were scaled away do not come back. The
model is a folder that `fit`, or `save` of any post-processor, wrote. A .parquet output
keeps the other columns of a .parquet input. Memory is flat for any number of rows, and the output
appears when it is complete.
"""

from absl import flags

from bertflow_jax.errors import ConfigError
from bertflow_jax.postprocess.apply_files import ApplyOptions, run_apply

FLAGS = flags.FLAGS

flags.DEFINE_string("model", None, "Folder of a saved post-processor.")
flags.DEFINE_string("input", None, "Vectors: .npy, .parquet, or a folder of embed's parts.")
flags.DEFINE_string("column", "", "Of the vectors in .parquet; default: vector, or the only one.")
flags.DEFINE_string("output", None, "A .npy or .parquet file.")
flags.DEFINE_bool("inverse", False, "Apply the inverse: latents to embeddings.")
flags.DEFINE_bool("normalize", False, "Scale every vector to length 1 afterwards.")


def main() -> None:
    """Apply as the flags say."""
    for name in ("model", "input", "output"):
        if not (FLAGS[name].value or "").strip():
            raise ConfigError(f"--{name} is missing")
    options = ApplyOptions(
        FLAGS.model, FLAGS.input, FLAGS.output, FLAGS.column, FLAGS.inverse, FLAGS.normalize
    )
    rows, features = run_apply(options, progress=True)
    print(f"{rows} vectors of {features} dimensions: {FLAGS.output}")
