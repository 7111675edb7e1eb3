"""One evaluation from flags to results.json, table and report."""

import dataclasses
import importlib.util
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertflow_jax.data.embedding_cache import embed_cached
from bertflow_jax.data.sts import TASKS, StsTask, load_task
from bertflow_jax.errors import ConfigError, DataNotFoundError
from bertflow_jax.evaluation.metrics import mean_random_cosine
from bertflow_jax.evaluation.plot_data import plot_rows, training_curves
from bertflow_jax.evaluation.published import PUBLISHED
from bertflow_jax.evaluation.results import build_results, write_results
from bertflow_jax.evaluation.table import COLUMNS, format_table, task_columns
from bertflow_jax.evaluation.tasks import SentenceTable, evaluate
from bertflow_jax.paths import user_path
from bertflow_jax.workdir import prepare_output

if TYPE_CHECKING:
    from bertflow_jax.embed import SentenceEncoder

_ENCODER_ONLY = ("pooling", "max_length", "dtype")
_CURVES = {"fit": "bits_per_dim", "held out": "held_out_bits_per_dim"}


@dataclasses.dataclass(frozen=True)
class EvalOptions:
    """What to score and where to write; exactly one of `workdir` and `encoder` is given.

    Attributes:
      workdir: of a run of train.py: rows raw and flow.
      step: checkpoint of the workdir; None takes the newest good one.
      encoder: local folder, Hub id or `mini_bert`: row raw only.
      pooling: with encoder; None takes what its folder says, or `mean`.
      max_length: with encoder; None takes what its folder says.
      dtype: with encoder; compute type, None is `float32`.
      tasks: names; empty takes the seven STS tasks, or `everyday` without a data_dir.
      data_dir: folder with `STS/`, `STSBenchmark/`, `SICK/`.
      splits: of stsb and sickr; several are scored as one set.
      encoding: of the data files.
      output: folder; None takes `WORKDIR/eval`, or `runs/eval-<encoder>[-<pooling>]`.
      cache_dir: of embeddings; None takes the run's own, or the user's cache folder.
      seed: of random pairs in the report.
      report: whether to write report.html.
      figure: file of the picture of the effect (.png or .svg), or None.
      published: whether to print published scores below the table.
    """

    workdir: str | None = None
    step: int | None = None
    encoder: str | None = None
    pooling: str | None = None
    max_length: int | None = None
    dtype: str | None = None
    tasks: tuple[str, ...] = ()
    data_dir: str | None = None
    splits: tuple[str, ...] = ("test",)
    encoding: str = "utf-8"
    output: str | None = None
    cache_dir: str | None = None
    seed: int = 0
    report: bool = True
    figure: str | None = None
    published: bool = False


def run_evaluation(options: EvalOptions) -> dict[str, Any]:
    """Score, write results.json, print the table, then write report.html and the figure.

    Flags, data and output are checked before a model is loaded; results.json is written before
    anything is drawn.

    Returns:
      The content of results.json.

    Raises:
      BertFlowError: of the kind that fits; the text names the flag or file.
    """
    options = _expanded(options)
    _check_options(options)
    tasks = _load_tasks(options)
    output = prepare_output(_output_folder(options))
    model, tables, metrics_path = _embed(options, tasks)
    random_cosine = {
        name: mean_random_cosine(table.embeddings, seed=options.seed)
        for name, table in tables.items()
    }
    results = build_results(model, evaluate(tasks, tables), tasks, options.seed, random_cosine)
    write_results(output / "results.json", results)
    print(format_table(results, published=PUBLISHED if options.published else ()))
    print(f"\nscores: {output / 'results.json'}")
    _draw(options, output, results, tasks, tables, metrics_path)
    return results


def _expanded(options: EvalOptions) -> EvalOptions:
    """Expand `~`, which a shell leaves alone in --name=~/folder."""
    names = ("workdir", "data_dir", "output", "figure", "cache_dir")
    paths = {name: getattr(options, name) for name in names}
    # A blank one stays as it is, for the check of its own flag.
    expanded: dict[str, Any] = {
        name: str(user_path(path, f"--{name}")) for name, path in paths.items() if path
    }
    return dataclasses.replace(options, **expanded)


def _check_options(options: EvalOptions) -> None:
    if (options.workdir is None) == (options.encoder is None):
        raise ConfigError(
            "give either --workdir=DIR (a run of train.py) or --encoder=PATH_OR_HUB_ID (an encoder "
            "without a flow)"
        )
    if options.encoder is not None:
        if not options.encoder.strip():
            raise ConfigError("--encoder is blank; name a folder, a Hub id or mini_bert")
        if options.step is not None:
            raise ConfigError("--step is a checkpoint of a --workdir; an encoder has none")
    else:
        _check_workdir(options)
    if options.max_length is not None and options.max_length < 3:
        raise ConfigError(
            f"--max_length={options.max_length}: must be at least 3 ([CLS], one token, [SEP])"
        )
    if (options.report or options.figure) and importlib.util.find_spec("matplotlib") is None:
        raise ConfigError("the report needs matplotlib: pip install matplotlib, or give --noreport")
    if options.figure is not None:
        if not options.figure.strip():
            raise ConfigError("--figure is blank; name a .png or .svg file")
        from bertflow_jax.evaluation.plots import check_figure_path

        check_figure_path(Path(options.figure))
        prepare_output(str(Path(options.figure).absolute().parent), "the folder of --figure")


def _check_workdir(options: EvalOptions) -> None:
    for name in _ENCODER_ONLY:
        if getattr(options, name) is not None:
            raise ConfigError(
                f"--{name} goes with --encoder; a --workdir keeps the setting it was trained with"
            )
    assert options.workdir is not None
    if not os.path.isdir(options.workdir):
        raise DataNotFoundError(
            f"--workdir={options.workdir}: no such folder; train first, or check the path"
        )
    if not os.path.isdir(os.path.join(options.workdir, "checkpoints")):
        raise DataNotFoundError(
            f"--workdir={options.workdir} has no checkpoints/ and so no fitted flow; train first, "
            "or give --encoder to score an encoder without a flow"
        )


def _load_tasks(options: EvalOptions) -> list[StsTask]:
    names = options.tasks or (TASKS[:-1] if options.data_dir is not None else ("everyday",))
    if not all(name.strip() for name in names):
        raise ConfigError(
            f"--tasks={','.join(names)}: a name is blank; put one comma between two names, and "
            "none at the end"
        )
    unknown = [name for name in names if name not in TASKS]
    if unknown:
        raise ConfigError(f"--tasks: unknown {', '.join(unknown)}; known are {', '.join(TASKS)}")
    if len(set(names)) < len(names):
        raise ConfigError(f"--tasks={','.join(names)}: a task is named twice")
    need_data = [name for name in names if name != "everyday"]
    if need_data and options.data_dir is None:
        raise ConfigError(
            f"--tasks={','.join(need_data)} needs --data_dir=DIR, the folder that holds STS/, "
            "STSBenchmark/ and SICK/"
        )
    return [
        load_task(name, options.data_dir, options.splits, encoding=options.encoding)
        for name in names
    ]


def _output_folder(options: EvalOptions) -> str:
    if options.output is not None:
        return options.output
    if options.workdir is not None:
        return str(Path(options.workdir) / "eval")
    parts = [Path(options.encoder or "").name, options.pooling or ""]
    name = "-".join(re.sub(r"[^\w.]+", "-", part).strip("-") for part in parts if part)
    return f"runs/eval-{name}"


def _embed(
    options: EvalOptions, tasks: list[StsTask]
) -> tuple[dict[str, Any], dict[str, SentenceTable], Path | None]:
    """Return (model of results.json, row -> embeddings, metrics of the fit)."""
    # Imported here so that a wrong flag is reported without the seconds that loading JAX takes.
    if options.workdir is not None:
        from bertflow_jax.restore import load_run

        run = load_run(options.workdir, options.step)
        raw = _raw_table(options, tasks, run.encoder, run.identity, run.records.config["cache_dir"])
        model = {
            "workdir": options.workdir,
            "step": run.step,
            "encoder": {"path": run.records.config["encoder"]["path"], **run.records.encoder},
            "flow": run.records.config["flow"],
            "config": run.records.config,
            "text": run.records.manifest,
        }
        return model, {"raw": raw, "flow": raw.map(run.flow.transform)}, run.metrics_path
    encoder = _load_encoder(options)
    identity = encoder.identity()
    model = {"encoder": {"path": options.encoder, **identity}, "flow": None}
    return model, {"raw": _raw_table(options, tasks, encoder, identity, "")}, None


def _raw_table(
    options: EvalOptions,
    tasks: list[StsTask],
    encoder: "SentenceEncoder",
    identity: dict[str, Any],
    cache_dir: str,
) -> SentenceTable:
    """Embed every sentence of the tasks, or take the embeddings of an earlier evaluation."""
    folder = cache_dir if options.cache_dir is None else options.cache_dir
    return SentenceTable.build(
        tasks, lambda texts: embed_cached(encoder.encode, identity, texts, folder)
    )


def _load_encoder(options: EvalOptions) -> "SentenceEncoder":
    from bertflow_jax.embed import SentenceEncoder

    assert options.encoder is not None
    return SentenceEncoder.from_pretrained(
        options.encoder,
        pooling=options.pooling,
        max_length=options.max_length,
        dtype=options.dtype or "float32",
    )


def _draw(
    options: EvalOptions,
    output: Path,
    results: dict[str, Any],
    tasks: list[StsTask],
    tables: dict[str, SentenceTable],
    metrics_path: Path | None,
) -> None:
    if not options.report and options.figure is None:
        return
    from bertflow_jax.evaluation import plots, report

    shown = task_columns(results["rows"])[0]
    task = next(task for task in tasks if task.name == shown)
    rows = plot_rows(task, tables, results["rows"], options.seed)
    if options.report:
        curves = training_curves(metrics_path, _CURVES) if metrics_path is not None else {}
        report.write_report(output / "report.html", results, rows, shown, curves)
        print(f"report: {output / 'report.html'}")
    if options.figure is not None:
        plots.effect_figure(Path(options.figure), rows, f"Pairs of {COLUMNS[shown]}")
        print(f"figure: {options.figure}")
