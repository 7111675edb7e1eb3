"""What an evaluation is asked for: the flags, and what can be wrong with them."""

import dataclasses
import importlib.util
import os
import re
from pathlib import Path
from typing import Any

from bertflow_jax.checks import ENCODER_SETTINGS, check_encoder_settings, parse_step
from bertflow_jax.config import Config
from bertflow_jax.data.file_names import require_text_file
from bertflow_jax.data.glue import BINARY_TASKS
from bertflow_jax.data.sts import TASKS
from bertflow_jax.errors import ConfigError, DataNotFoundError
from bertflow_jax.evaluation.similarities import SIMILARITIES
from bertflow_jax.output_places import check_output_file
from bertflow_jax.paths import user_path
from bertflow_jax.remote.address import remote_address

ALL_TASKS = (*TASKS, *BINARY_TASKS)
ANALYSES = ("isotropy", "edit_distance", "word_frequency")


@dataclasses.dataclass(frozen=True)
class EvalOptions:
    """What to score and where to write; exactly one of `workdir` and `encoder` is given.

    Attributes:
      workdir: of a run of train.py: rows raw and flow.
      step: checkpoint of the workdir; None takes the newest good one.
      encoder: local folder, Hub id or `mini_bert`: row raw, and one of the post-processor saved
        with it, if any.
      revision: with encoder; branch, tag or commit of a Hub id, None is its main branch.
      flow: with encoder; folder of a saved or imported flow, or of another post-processor, which
        gets a row of its kind's name.
      pooling: with encoder; None takes what its folder says, or `mean`.
      max_length: with encoder; None takes what its folder says.
      dtype: with encoder; compute type, None is `float32`.
      rows: post-processors to fit and score besides, see `bertflow_jax.postprocess.spec`.
      fit: what those rows are fitted on, see `evaluation.fitted_rows`; "" takes `run` with a
        workdir, else `target`.
      fit_splits: splits of stsb and sickr in that text; empty takes all.
      seeds: of the flows among the rows; several give means and spreads.
      config: its `flow` and `train` sections shape the flows among the rows; None takes the
        workdir's, or the released ones.
      tasks: names; empty takes the seven STS tasks, or `everyday` without a data_dir.
      data_dir: folder with `STS/`, `STSBenchmark/`, `SICK/`, and `QNLI/`, `MRPC/`, `QQP/` in
        GLUE's layout; or `tfds:DIR`, prepared TFDS data (see `data.sts`).
      splits: of stsb, sickr, qnli, mrpc, qqp; several are scored as one set. None takes test of
        STS tasks, and what `glue.load_glue_task` says of the others.
      similarity: a key of `similarities.SIMILARITIES`, that every task is scored with.
      encoding: of the data files.
      output: folder; None takes `WORKDIR/eval`, or `runs/eval-<encoder>[-<pooling>]`.
      cache_dir: of embeddings; None takes the run's own, or the user's cache folder.
      seed: of random pairs in the report.
      report: whether to write report.html.
      figure: file of the picture of the effect (.png or .svg), or None.
      published: whether to print published scores below the table.
      analyses: of `ANALYSES`, computed (isotropy always is) and printed.
      corpus: with word_frequency: text file whose words are counted; None takes the vocabulary's
        order.
    """

    workdir: str | None = None
    step: int | str | None = None
    encoder: str | None = None
    revision: str | None = None
    flow: str | None = None
    pooling: str | None = None
    max_length: int | None = None
    dtype: str | None = None
    rows: tuple[str, ...] = ()
    fit: str = ""
    fit_splits: tuple[str, ...] = ()
    seeds: tuple[str, ...] = ("0",)
    config: Config | None = None
    tasks: tuple[str, ...] = ()
    data_dir: str | None = None
    splits: tuple[str, ...] | None = None
    similarity: str = "cosine"
    encoding: str = "utf-8"
    output: str | None = None
    cache_dir: str | None = None
    seed: int = 0
    report: bool = True
    figure: str | None = None
    published: bool = False
    analyses: tuple[str, ...] = ()
    corpus: str | None = None


def expanded(options: EvalOptions) -> EvalOptions:
    """Expand `~`, which a shell leaves alone in --name=~/folder."""
    read = ("workdir", "data_dir", "corpus")
    paths = {name: getattr(options, name) for name in (*read, "output", "figure", "cache_dir")}
    # A blank one stays as it is, for the check of its own flag; so does an address.
    expanded: dict[str, Any] = {
        name: str(user_path(path, f"--{name}", reading=name in read))
        for name, path in paths.items()
        if path and "://" not in path
    }
    return dataclasses.replace(options, **expanded)


def check_options(options: EvalOptions) -> None:
    """Raise ConfigError or DataNotFoundError, naming the flag, before anything is loaded."""
    if (options.workdir is None) == (options.encoder is None):
        raise ConfigError(
            "give either --workdir=DIR (a run of train.py) or --encoder=PATH_OR_HUB_ID (an encoder "
            "without a flow)"
        )
    parse_step(options.step)
    if options.encoder is not None:
        if not options.encoder.strip():
            raise ConfigError("--encoder is blank; name a folder, a Hub id or mini_bert")
        if options.step is not None:
            raise ConfigError("--step is a checkpoint of a --workdir; an encoder has none")
        if options.flow is not None and not options.flow.strip():
            raise ConfigError("--flow is blank; name the folder or Hub id of a saved flow")
    else:
        _check_workdir(options)
    _check_rows(options)
    if options.similarity not in SIMILARITIES:
        raise ConfigError(
            f"--similarity={options.similarity}: must be one of {', '.join(SIMILARITIES)}"
        )
    if options.max_length is not None and options.max_length < 3:
        raise ConfigError(
            f"--max_length={options.max_length}: must be at least 3 ([CLS], one token, [SEP])"
        )
    _check_analyses(options)
    if options.cache_dir is not None and not options.cache_dir.strip():
        raise ConfigError("--cache_dir is blank; name a folder, or leave it out")
    if (options.report or options.figure) and importlib.util.find_spec("matplotlib") is None:
        raise ConfigError("the report needs matplotlib: pip install matplotlib, or give --noreport")
    if options.figure is not None:
        if not options.figure.strip():
            raise ConfigError("--figure is blank; name a .png or .svg file")
        if "://" in options.figure:
            raise ConfigError(f"--figure={options.figure}: name a file of this machine")
        from bertflow_jax.evaluation.plots import check_figure_path

        check_figure_path(Path(options.figure))
        check_output_file(Path(options.figure), "--figure")


def _check_rows(options: EvalOptions) -> None:
    if not options.rows and (options.fit or options.fit_splits):
        raise ConfigError("--fit and --fit_splits say what --rows are fitted on: give --rows too")
    if len(set(options.rows)) < len(options.rows) or not all(row.strip() for row in options.rows):
        raise ConfigError(f"--rows={','.join(options.rows)}: a row is blank or named twice")
    if not options.seeds or not all(seed.isdecimal() for seed in options.seeds):
        raise ConfigError(f"--seeds={','.join(options.seeds)}: integers >= 0, separated by commas")
    if len({int(seed) for seed in options.seeds}) < len(options.seeds):
        raise ConfigError(f"--seeds={','.join(options.seeds)}: a seed is named twice")


def _check_analyses(options: EvalOptions) -> None:
    unknown = [name for name in options.analyses if name not in ANALYSES]
    if unknown:
        raise ConfigError(
            f"--analyses={','.join(options.analyses)}: unknown {', '.join(map(repr, unknown))}; "
            f"known are {', '.join(ANALYSES)}"
        )
    if options.corpus is None:
        return
    if "word_frequency" not in options.analyses:
        raise ConfigError(
            "--corpus is the text that --analyses=word_frequency counts words in: give both or "
            "neither"
        )
    require_text_file(options.corpus, "--corpus")


def _check_workdir(options: EvalOptions) -> None:
    check_encoder_settings({name: getattr(options, name) for name in ENCODER_SETTINGS})
    assert options.workdir is not None
    if (address := remote_address(options.workdir, "--workdir")) is not None:
        from bertflow_jax.remote.workdir import require_run

        require_run(address)
        return
    if not os.path.isdir(options.workdir):
        raise DataNotFoundError(
            f"--workdir={options.workdir}: no such folder; train first, or check the path"
        )
    if not os.path.isdir(os.path.join(options.workdir, "checkpoints")):
        raise DataNotFoundError(
            f"--workdir={options.workdir} has no checkpoints/ and so no fitted flow; train first, "
            "or give --encoder to score an encoder without a flow"
        )


def output_folder(options: EvalOptions) -> str:
    """Return the folder that the results go to."""
    if options.output is not None:
        return options.output
    if options.workdir is not None:
        address = remote_address(options.workdir, "--workdir")
        return str((address or Path(options.workdir)) / "eval")
    encoder = Path(options.encoder or "")
    # Many encoders lie in a folder called "model": the one above tells them apart.
    above = encoder.absolute().parent.name if encoder.is_dir() else ""
    flow = Path(options.flow).name if options.flow else ""
    parts = [above, encoder.name, options.pooling or "", flow]
    name = "-".join(re.sub(r"[^\w.]+", "-", part).strip("-") for part in parts if part)
    return f"runs/eval-{name}"
