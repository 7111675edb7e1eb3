"""One evaluation from flags to results.json, table and report."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertflow_jax.data.embedding_cache import embed_cached
from bertflow_jax.data.sts import StsTask
from bertflow_jax.evaluation.metrics import mean_random_cosine
from bertflow_jax.evaluation.options import (
    EvalOptions,
    check_options,
    expanded,
    load_tasks,
    output_folder,
)
from bertflow_jax.evaluation.plot_data import plot_rows, training_curves
from bertflow_jax.evaluation.published import PUBLISHED
from bertflow_jax.evaluation.results import build_results, write_results
from bertflow_jax.evaluation.table import COLUMNS, format_table, task_columns
from bertflow_jax.evaluation.tasks import SentenceTable, evaluate
from bertflow_jax.workdir import prepare_output

if TYPE_CHECKING:
    from bertflow_jax.embed import SentenceEncoder
    from bertflow_jax.postprocess.flow import Flow

_CURVES = {"fit": "bits_per_dim", "held out": "held_out_bits_per_dim"}


def run_evaluation(options: EvalOptions) -> dict[str, Any]:
    """Score, write results.json, print the table, then write report.html and the figure.

    Flags, data and output are checked before a model is loaded; results.json is written before
    anything is drawn.

    Returns:
      The content of results.json.

    Raises:
      BertFlowError: of the kind that fits; the text names the flag or file.
    """
    options = expanded(options)
    check_options(options)
    tasks = load_tasks(options)
    output = prepare_output(output_folder(options))
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
    flow = None if options.flow is None else _load_flow(options.flow)
    encoder = _load_encoder(options)
    identity = encoder.identity()
    model = {"encoder": {"path": options.encoder, **identity}, "flow": None}
    if flow is None:
        return model, {"raw": _raw_table(options, tasks, encoder, identity, "")}, None
    encoder.with_flow(flow)  # refuses a flow of other dimensions before anything is embedded
    raw = _raw_table(options, tasks, encoder, identity, "")
    model["flow"] = {"path": options.flow, **dataclasses.asdict(flow.config)}
    return model, {"raw": raw, "flow": raw.map(flow.transform)}, None


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


def _load_flow(folder: str) -> "Flow":
    from bertflow_jax.postprocess.flow import Flow

    return Flow.load(folder)


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
