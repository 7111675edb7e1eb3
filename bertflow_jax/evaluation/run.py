"""One evaluation from flags to results.json, table and report."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertflow_jax.data.embedding_cache import embed_cached
from bertflow_jax.data.sts import StsTask
from bertflow_jax.evaluation.analyses import format_analyses, run_analyses
from bertflow_jax.evaluation.export_tables import write_tables
from bertflow_jax.evaluation.isotropy import isotropy
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
    from bertflow_jax.encoder.pretrained import Encoder

_CURVES = {"fit": "bits_per_dim", "held out": "held_out_bits_per_dim"}


def run_evaluation(options: EvalOptions) -> dict[str, Any]:
    """Score, write results.json, print the table, then analyse and write report and figure.

    Flags, data and output are checked before a model is loaded; results.json is written before
    anything is drawn, and again after the analyses that were asked for.

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
    results["isotropy"] = isotropy(tables, tasks, options.seed)
    write_results(output / "results.json", results)
    write_tables(output, results)
    print(format_table(results, published=PUBLISHED if options.published else ()))
    _analyse(options, output, results, tasks, tables)
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


def _analyse(
    options: EvalOptions,
    output: Path,
    results: dict[str, Any],
    tasks: list[StsTask],
    tables: dict[str, SentenceTable],
) -> None:
    """Add the analyses that were asked for to results.json and print their tables."""
    if not options.analyses:
        return

    def encoder() -> "Encoder":
        if options.workdir is None:
            return _load_encoder(options).encoder
        from bertflow_jax.restore import load_run

        return load_run(options.workdir, options.step).encoder.encoder

    found = run_analyses(options.analyses, tasks, tables, encoder, options.corpus, options.encoding)
    if found:
        results["analyses"] = found
        write_results(output / "results.json", results)
    print("\n" + format_analyses(results, options.analyses))


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
        lexical = []
        if "edit_distance" in options.analyses:
            from bertflow_jax.evaluation.lexical_plot import lexical_plots

            lexical = lexical_plots(task, tables, options.seed)
        report.write_report(output / "report.html", results, rows, shown, curves, lexical)
        print(f"report: {output / 'report.html'}")
    if options.figure is not None:
        plots.effect_figure(Path(options.figure), rows, f"Pairs of {COLUMNS[shown]}")
        print(f"figure: {options.figure}")
