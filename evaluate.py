"""Score sentence embeddings by the cosine similarity of pairs that people judged.

A fitted flow, raw embeddings beside it:
  python evaluate.py --workdir=runs/demo
An encoder without a flow, or with one that was imported or saved by itself (--flow=FOLDER):
  python evaluate.py --encoder=mini_bert --pooling=mean
On the STS tasks (DIR holds STS/, STSBenchmark/ and SICK/):
  python evaluate.py --workdir=runs/demo --data_dir=DIR --tasks=sts12,sts16,stsb

Writes results.json and report.html and prints a table.
"""

from typing import Any

from absl import flags

from bertflow_jax import cli
from bertflow_jax.data.sts import TASKS
from bertflow_jax.evaluation.options import EvalOptions
from bertflow_jax.evaluation.run import run_evaluation

flags.DEFINE_string("workdir", None, "Folder of a train.py run: scores raw and flow.")
flags.DEFINE_integer("step", None, "Checkpoint of the workdir; default: the newest good one.")
flags.DEFINE_string("encoder", None, "Folder, Hub id or mini_bert: scores it without a flow.")
flags.DEFINE_string("flow", None, "With --encoder: folder of a saved or imported flow.")
flags.DEFINE_string("pooling", None, "With --encoder; default: as its folder says, or mean.")
flags.DEFINE_integer("max_length", None, "With --encoder: tokens a sentence.")
flags.DEFINE_enum("dtype", None, ["float32", "bfloat16"], "With --encoder: compute type.")
flags.DEFINE_list(
    "tasks",
    [],
    f"Of {', '.join(TASKS)}; default: the seven STS tasks with --data_dir, else everyday (the "
    "pairs that come with the package).",
)
flags.DEFINE_string("data_dir", None, "Folder that holds STS/, STSBenchmark/ and SICK/.")
flags.DEFINE_list("splits", ["test"], "Of stsb and sickr: train, dev, test; several are joined.")
flags.DEFINE_string("encoding", "utf-8", "Of the data files.")
flags.DEFINE_string(
    "output", None, "Folder of results; default: WORKDIR/eval or runs/eval-ENCODER-POOLING."
)
flags.DEFINE_string(
    "cache_dir", None, "Of embeddings; default: the run's own, or the user's cache folder."
)
flags.DEFINE_integer("seed", 0, "Of the random sentence pairs in the report.", lower_bound=0)
flags.DEFINE_bool("report", True, "Write report.html.")
flags.DEFINE_string("figure", None, "Also write a picture of the effect: a .png or .svg file.")
flags.DEFINE_bool("published", False, "Print published scores below the table.")


def main() -> None:
    """Evaluate as the flags say."""
    values: dict[str, Any] = {
        name: flags.FLAGS[name].value for name in EvalOptions.__dataclass_fields__
    }
    values |= {name: tuple(values[name]) for name in ("tasks", "splits")}
    run_evaluation(EvalOptions(**values))


if __name__ == "__main__":
    cli.run(main)
