"""Embed the rows of a file: python -m bertflow_jax.embed --input=FILE --output=FILE.npy.

A fitted flow on its encoder, from a train.py run:
  python -m bertflow_jax.embed --workdir=runs/demo --input=texts.txt --output=vectors.npy
An encoder without a flow, or with --flow=FOLDER of one that was imported or saved by itself:
  python -m bertflow_jax.embed --encoder=mini_bert --pooling=mean --input=texts.tsv --column=text \\
      --output=vectors.parquet --id_column=id

Every row of the input gives one row of the output, in order. Started again, an interrupted job goes
on where it stopped.
"""

import re
from pathlib import Path

from absl import flags

from bertflow_jax import distributed_flags, model_flags
from bertflow_jax.data.rows import FORMATS, open_rows
from bertflow_jax.data.tokens import OVERFLOW
from bertflow_jax.embed_job import EmbedJob, run_job
from bertflow_jax.errors import ConfigError

FLAGS = flags.FLAGS

flags.DEFINE_string("input", None, "File of texts: .txt, .jsonl, .tsv, .csv (or .gz), .parquet.")
flags.DEFINE_string("output", None, "A .npy or .parquet file, or a folder of .npy parts.")
flags.DEFINE_enum(
    "format", "auto", ["auto", *FORMATS], "Format of the input; auto goes by the file's name."
)
flags.DEFINE_string(
    "column", "", "Column that holds the texts: a name, or for tsv and csv a number from 0."
)
flags.DEFINE_string(
    "id_column", "", "Column of the ids that .parquet output repeats; default: row numbers."
)
flags.DEFINE_string("encoding", "utf-8", "Text encoding of the input file.")
flags.DEFINE_integer(
    "batch_size",
    None,
    "Sentences of 16 tokens in one device call, fewer of longer ones; default: by the device.",
    lower_bound=1,
)
flags.DEFINE_bool("normalize", False, "Scale every vector to length 1.")
flags.DEFINE_enum(
    "on_overflow",
    "warn",
    OVERFLOW,
    "Texts above max_length are cut: warn says how many, error stops, ignore is silent.",
)
flags.DEFINE_integer(
    "shard_rows", 0, "Rows in each part of an output folder; 0: one part a process.", 0
)
flags.DEFINE_string(
    "shard",
    None,
    "I/N with I from 0: embed part I of N and leave the others to processes that need not know of "
    "each other. The output is a folder, shared or copied together afterwards.",
)
flags.adopt_module_key_flags(model_flags)
flags.adopt_module_key_flags(distributed_flags)


def main() -> None:
    """Embed as the flags say."""
    for name in ("input", "output"):
        if not (FLAGS[name].value or "").strip():
            raise ConfigError(f"--{name} is missing")
    spec = model_flags.encoder_spec()
    rows = open_rows(
        FLAGS.input,
        FLAGS.format,
        FLAGS.column,
        FLAGS.id_column,
        FLAGS.encoding,
    )
    process, processes = _part()
    job = EmbedJob(
        rows,
        FLAGS.output,
        batch_size=FLAGS.batch_size,
        normalize=FLAGS.normalize,
        on_overflow=FLAGS.on_overflow,
        shard_rows=FLAGS.shard_rows,
        process=process,
        processes=processes,
    )
    job.check()
    count = run_job(spec.load(), job, progress=True)
    print(f"{count} rows: {Path(FLAGS.output)}")


def _part() -> tuple[int, int]:
    """Return which part of how many is this process's, counted from 0; (0, 1) is the whole.

    Raises:
      ConfigError: --shard has another form than I/N, I is not below N, or other processes are asked
        for too.
    """
    if FLAGS.shard is None:
        if not distributed_flags.join(apart=True):
            return 0, 1
        import jax

        return jax.process_index(), jax.process_count()
    if distributed_flags.named():
        raise ConfigError("--shard and --distributed both share the rows: leave one of them out")
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", FLAGS.shard, re.ASCII)
    if found is None or int(found[1]) >= int(found[2]):
        raise ConfigError(
            f"--shard={FLAGS.shard}: must be I/N with I from 0 to N - 1; the first of four is 0/4"
        )
    return int(found[1]), int(found[2])
