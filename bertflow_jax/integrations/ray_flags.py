"""Embed Parquet files on a Ray cluster: python -m bertflow_jax.integrations.ray_data --input=... .

On all cores of this machine:
  python -m bertflow_jax.integrations.ray_data --encoder=mini_bert --input='corpus/*.parquet' \\
      --column=text --output=vectors
On a cluster, a worker a GPU, with the flow of a train.py run:
  python -m bertflow_jax.integrations.ray_data --address=auto --workdir=/shared/runs/mine \\
      --input=gs://BUCKET/corpus --output=gs://BUCKET/vectors --gpus_per_worker=1

Every input file gives one output file of its name with the same rows in the same order and a column
of vectors. Started again, an interrupted job goes on where it stopped.
"""

import re

from absl import flags

from bertflow_jax import model_flags
from bertflow_jax.errors import ConfigError
from bertflow_jax.integrations.ray_data import OVERFLOW, ROWS, Workers

FLAGS = flags.FLAGS

flags.DEFINE_string("input", None, "Parquet files: a folder, a glob or a file; also gs://, s3://.")
flags.DEFINE_string("output", None, "Folder, likewise: new, or of the job that is to go on.")
flags.DEFINE_string("column", "text", "Of the texts.")
flags.DEFINE_string("id_column", "", "The one column to keep beside the vectors; default: all.")
flags.DEFINE_string("output_column", "embedding", "Of the vectors.")
flags.DEFINE_integer("rows_per_batch", ROWS, "Rows a worker embeds in one go.", lower_bound=1)
flags.DEFINE_integer("batch_size", None, "Sentences of 16 tokens a device call.", lower_bound=1)
flags.DEFINE_bool("normalize", False, "Scale every vector to length 1.")
flags.DEFINE_enum("on_overflow", "warn", OVERFLOW, "Texts above max_length, which are cut.")
flags.DEFINE_string(
    "concurrency",
    "",
    "Workers: a number, or LEAST,MOST where it grows; default: as many as there is room for.",
)
flags.DEFINE_float("cpus_per_worker", 1, "CPUs, and threads, of a worker.", lower_bound=0)
flags.DEFINE_float("gpus_per_worker", 0, "GPUs of a worker; a part of 1 shares one.", 0)
flags.DEFINE_integer("tpus_per_worker", 0, "TPU chips of a worker: those of a host.", 0)
flags.DEFINE_string(
    "address", "", "Of a Ray cluster: auto or HOST:PORT; default: $RAY_ADDRESS, or Ray here."
)
flags.adopt_module_key_flags(model_flags)


def main() -> None:
    """Embed as the flags say."""
    for name in ("input", "output"):
        if not (FLAGS[name].value or "").strip():
            raise ConfigError(f"--{name} is missing")
    spec = model_flags.encoder_spec()
    tpus = {"TPU": float(FLAGS.tpus_per_worker)} if FLAGS.tpus_per_worker else None
    workers = Workers(
        _concurrency(FLAGS.concurrency), FLAGS.cpus_per_worker, FLAGS.gpus_per_worker, tpus
    )
    workers.check()
    # Imported here so that a wrong flag is reported without the seconds that loading Ray takes.
    from bertflow_jax.integrations.ray_job import RayJob, run_ray_job

    job = RayJob(
        FLAGS.input,
        FLAGS.output,
        spec,
        column=FLAGS.column,
        id_column=FLAGS.id_column,
        output_column=FLAGS.output_column,
        rows_per_batch=FLAGS.rows_per_batch,
        batch_size=FLAGS.batch_size,
        normalize=FLAGS.normalize,
        on_overflow=FLAGS.on_overflow,
        workers=workers,
        address=FLAGS.address,
    )
    done = run_ray_job(job, progress=True)
    print(f"{done.rows} rows in {done.files} files: {FLAGS.output} ({done.computed} computed now)")


def _concurrency(text: str) -> int | tuple[int, int] | None:
    """Return what --concurrency says.

    Raises:
      ConfigError: it is neither N nor LEAST,MOST.
    """
    if not text:
        return None
    found = re.fullmatch(r"(\d{1,6})(?:,(\d{1,6}))?", text, re.ASCII)
    if found is None:
        raise ConfigError(f"--concurrency={text}: must be a number, or LEAST,MOST as in 2,16")
    return int(found[1]) if found[2] is None else (int(found[1]), int(found[2]))
