"""Reproduce a table of the BERT-flow paper, ours beside the published value.

  python -m bertflow_jax.reproduce --table=2 --data_dir=DIR --rows=base_first_last,base_flow_target
  python -m bertflow_jax.reproduce --table=3 --data_dir=DIR \\
      --nli=snli_1.0_train.jsonl,multinli_1.0_train.jsonl

Encoders come from the Hub or its cache, or --encoders=base=FOLDER,large=FOLDER. Cells that lack an
encoder or data are left out with the reason. Started again, it goes on where it stopped. Table 2
is STS without labels, 3 STS with NLI labels, 4 QNLI, 5 calibration baselines, 6 edit distance, 1
word frequency (with --corpus=FILE).
"""

# Before the imports, which take seconds: Ctrl-C is heeded without them.
from bertflow_jax.interrupt import end_at_once

if __name__ == "__main__":
    end_at_once()

from absl import flags

from bertflow_jax import cli
from bertflow_jax.errors import ConfigError

_TABLE = flags.DEFINE_integer("table", None, "Table of the paper, 1 to 6; needed.")
_ROWS = flags.DEFINE_list(
    "rows", [], "Rows of the table by name, as base_flow_target; default: all."
)
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "Folder that holds STS/, STSBenchmark/ and SICK/; for table 4, QNLI/."
)
_NLI = flags.DEFINE_list("nli", [], "Files of labelled NLI pairs, for tables 3 and 4.")
_ENCODERS = flags.DEFINE_list(
    "encoders",
    [],
    "NAME=PATH, names being base, large, base_nli, large_nli; default: the Hub's base and large.",
)
_CORPUS = flags.DEFINE_string("corpus", None, "Text whose words table 1 counts.")
_SET = flags.DEFINE_list("set", [], "FIELD=VALUE to change in the configs, as train.mode=cached.")
_OUTPUT = flags.DEFINE_string("output", "runs/paper", "Folder of runs and scores.")


def main() -> None:
    """Reproduce the table that the flags name."""
    if _TABLE.value is None:
        raise ConfigError("--table is missing: a number from 1 to 6")
    # Imported here so that --version and a wrong flag do not wait for JAX.
    from bertflow_jax.reproduce.options import Options
    from bertflow_jax.reproduce.run import reproduce

    reproduce(
        Options(
            table=_TABLE.value,
            rows=tuple(_ROWS.value),
            data_dir=_DATA_DIR.value,
            nli=",".join(_NLI.value),
            encoders=_pairs("encoders", _ENCODERS.value),
            corpus=_CORPUS.value,
            overrides=_pairs("set", _SET.value),
            output=_OUTPUT.value,
        )
    )


def _pairs(flag: str, given: list[str]) -> dict[str, str]:
    split = [item.partition("=") for item in given]
    for name, equals, value in split:
        if not (name and equals and value):
            raise ConfigError(f"--{flag}={name}{equals}{value}: must be NAME=VALUE")
    return {name: value for name, _, value in split}


if __name__ == "__main__":
    cli.run(main)
