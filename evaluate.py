"""Score sentence embeddings by the similarity (cosine) of pairs that people judged.

A fitted flow, raw embeddings beside it:
  python evaluate.py --workdir=runs/demo
An encoder without a flow, or with one imported or saved by itself (--flow=PATH_OR_HUB_ID):
  python evaluate.py --encoder=mini_bert --pooling=mean
Baselines and flows fitted on each task's own text, one row each:
  python evaluate.py --encoder=mini_bert --data_dir=DIR --rows=standardize,whitening,flow
On the STS tasks (DIR holds STS/, STSBenchmark/ and SICK/):
  python evaluate.py --workdir=runs/demo --data_dir=DIR --tasks=sts12,sts16,stsb
On labelled pairs of GLUE (DIR holds QNLI/, MRPC/ and QQP/), as AUC:
  python evaluate.py --workdir=runs/demo --data_dir=DIR --tasks=qnli,mrpc,qqp

The paper's analyses beside the scores:
  python evaluate.py --workdir=runs/demo --analyses=edit_distance,word_frequency

Writes results.json, table.md, table.tex and report.html and prints a table.
"""

# Before the imports, which take seconds: Ctrl-C is heeded without them.
from bertflow_jax.interrupt import end_at_once

if __name__ == "__main__":
    end_at_once()

from typing import Any

from absl import flags
from ml_collections import config_flags

from bertflow_jax import cli, model_flags
from bertflow_jax.config import Config
from bertflow_jax.errors import ConfigError
from bertflow_jax.evaluation.options import ALL_TASKS, ANALYSES, EvalOptions
from bertflow_jax.evaluation.similarities import SIMILARITIES

flags.adopt_module_key_flags(model_flags)
flags.DEFINE_list(
    "rows",
    [],
    "Post-processors to fit and score besides: center, standardize, natsv:K, "
    "whitening[:K[:ALPHA]] (K may be all), zca, block_mean:K, truncate:K, pca:K, flow, and a+b for "
    "one after the other.",
)
flags.DEFINE_string(
    "fit",
    "",
    "What --rows are fitted on: target (each task's own text), run (the workdir's), a task such as "
    "stsb, or a text file; default: run with --workdir, else target.",
)
flags.DEFINE_list(
    "fit_splits",
    [],
    "Splits of stsb and sickr in the text of --fit: train, dev, test; default: all.",
)
flags.DEFINE_list(
    "seeds", ["0"], "Random seeds of the flows among --rows; several give mean and spread."
)
config_flags.DEFINE_config_file(
    "config", None, "Shapes the flows among --rows (its flow and train sections)."
)
flags.DEFINE_list(
    "tasks",
    [],
    f"What to score on, some of {', '.join(ALL_TASKS)}; default: the seven STS tasks "
    "with --data_dir, else everyday (the "
    "pairs that come with the package).",
)
flags.DEFINE_string(
    "data_dir",
    None,
    "Folder that holds STS/, STSBenchmark/ and SICK/, and QNLI/, MRPC/ and QQP/ in GLUE's layout; "
    "or tfds:DIR, prepared TFDS data (docs/tfds.md).",
)
flags.DEFINE_list(
    "splits",
    None,
    "Splits of stsb, sickr, qnli, mrpc, qqp: train, dev, test; several are joined. Default: "
    "test; dev where GLUE holds back the test labels.",
)
flags.DEFINE_enum(
    "similarity",
    "cosine",
    list(SIMILARITIES),
    "Similarity of two embeddings; distances count negatively.",
)
flags.DEFINE_string("encoding", "utf-8", "Text encoding of the data files.")
flags.DEFINE_string(
    "output",
    None,
    "Folder (or gs://) of results; default: WORKDIR/eval or runs/eval-ENCODER-POOLING.",
)
flags.DEFINE_string(
    "cache_dir",
    None,
    "Folder of embeddings computed before; default: the run's own, or the user's cache folder.",
)
flags.DEFINE_integer(
    "seed",
    0,
    "Random seed of the sentence pairs whose mean cosine is in the report.",
    lower_bound=0,
)
flags.DEFINE_bool("report", True, "Write report.html.")
flags.DEFINE_string("figure", None, "Also write a picture of the effect: a .png or .svg file.")
flags.DEFINE_bool("published", False, "Print published scores below the table.")
flags.DEFINE_list(
    "analyses",
    [],
    f"Some of {', '.join(ANALYSES)}: printed below the scores and shown in the "
    "report. isotropy is in results.json and the report in any case; the others are computed on "
    "request.",
)
flags.DEFINE_string(
    "corpus",
    None,
    "With --analyses=word_frequency: text file (.gz too) whose words are counted; default: the "
    "order of the vocabulary, which is by frequency in parts only.",
)


def main() -> None:
    """Evaluate as the flags say."""
    # Imported here so that --version and a wrong flag do not wait for JAX.
    from bertflow_jax.evaluation.run import run_evaluation

    values: dict[str, Any] = {
        name: flags.FLAGS[name].value for name in EvalOptions.__dataclass_fields__
    }
    lists = ("tasks", "rows", "fit_splits", "seeds", "analyses")
    values |= {name: tuple(values[name]) for name in lists}
    values["splits"] = None if values["splits"] is None else tuple(values["splits"])
    if values["config"] is not None:
        if not isinstance(values["config"], Config):
            raise ConfigError("--config: get_config() must return a bertflow_jax.config.Config")
        values["config"].validate()
    run_evaluation(EvalOptions(**values))


if __name__ == "__main__":
    cli.run(main)
