"""One evaluation from flags to results.json, table and report."""

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bertflow_jax.config import Config
from bertflow_jax.data.embedding_cache import embed_cached
from bertflow_jax.data.sts import StsTask
from bertflow_jax.data.text import TextCorpus
from bertflow_jax.evaluation import sources
from bertflow_jax.evaluation.analyses import format_analyses, run_analyses
from bertflow_jax.evaluation.captions import FITTED_HERE
from bertflow_jax.evaluation.export_tables import write_tables
from bertflow_jax.evaluation.isotropy import isotropy
from bertflow_jax.evaluation.metrics import mean_random_cosine
from bertflow_jax.evaluation.options import (
    EvalOptions,
    check_options,
    expanded,
    output_folder,
)
from bertflow_jax.evaluation.plot_data import plot_rows, training_curves
from bertflow_jax.evaluation.published import PUBLISHED
from bertflow_jax.evaluation.results import build_results, write_results
from bertflow_jax.evaluation.sources import Source
from bertflow_jax.evaluation.table import COLUMNS, format_table, task_columns
from bertflow_jax.evaluation.task_loading import load_tasks
from bertflow_jax.evaluation.tasks import SentenceTable, evaluate
from bertflow_jax.remote.output import Output

if TYPE_CHECKING:
    from bertflow_jax.evaluation.fitted_rows import FitTexts

Tables = dict[str, SentenceTable]  # task -> the vectors of its sentences
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
    with Output(output_folder(options)) as output, tempfile.TemporaryDirectory() as scratch:
        return _evaluate(options, tasks, output, Path(scratch))


def _evaluate(
    options: EvalOptions, tasks: list[StsTask], output: Output, scratch: Path
) -> dict[str, Any]:
    # The text of the run's own fit is known with the run; any other is read before a model is.
    of_the_run = options.workdir is not None and options.fit in ("", "run")
    texts = None if of_the_run else _fit_texts(options, tasks)
    if options.workdir is not None:
        source = sources.workdir_source(options, scratch)
    else:
        source = sources.encoder_source(options)
    if of_the_run:
        texts = _fit_texts(options, tasks, source.own_text)
    raw = _raw_table(options, tasks, source, texts)
    scored = list(dict.fromkeys(text for task in tasks for text in task.sentences))
    shared = {"raw": raw.only(scored)}
    if source.postprocess is not None:
        shared[source.postprocess.name] = shared["raw"].map(source.postprocess.transform)
    rows = evaluate(tasks, shared, options.similarity)
    tables: dict[str, Tables] = {
        name: dict.fromkeys([task.name for task in tasks], table) for name, table in shared.items()
    }
    model = source.model
    if texts is not None:
        from bertflow_jax.evaluation.fitted_rows import score_rows

        fitted, fitted_tables = score_rows(options, source.config, raw, texts, tasks)
        # The workdir's own flow has the name already.
        names = {row: f"{row}{FITTED_HERE}" if row in rows else row for row in fitted}
        rows |= {names[row]: scores for row, scores in fitted.items()}
        tables |= {names[row]: found for row, found in fitted_tables.items()}
        model = {**model, "fitted": _fitted_record(options, source.config, texts)}
    random_cosine = {name: _random_cosine(found, options.seed) for name, found in tables.items()}
    sources.tell_unlike(source.postprocess, random_cosine)
    results = build_results(
        model, rows, tasks, options.seed, random_cosine, similarity=options.similarity
    )
    shown = next(task for task in tasks if task.name == task_columns(rows)[0])
    drawn = {name: found[shown.name] for name, found in tables.items()}
    if options.rows:  # a row fitted for each task has no common space of all tasks' sentences
        drawn = {name: table.only(shown.sentences) for name, table in drawn.items()}
    measured = [shown] if options.rows else tasks
    results["isotropy"] = isotropy(drawn, measured, options.seed)
    results["isotropy_tasks"] = [task.name for task in measured]
    output.drop("report.html", beside="results.json")  # of the evaluation that this one replaces
    write_results(output.folder / "results.json", results)
    write_tables(output.folder, results)
    output.publish()
    print(format_table(results, published=PUBLISHED if options.published else ()))
    _analyse(options, output, results, tasks, tables, source)
    print(f"\nscores: {output.place('results.json')}")
    _draw(options, output, results, shown, drawn, source.metrics_path)
    return results


def _fit_texts(
    options: EvalOptions, tasks: list[StsTask], own: Callable[[], TextCorpus] | None = None
) -> "FitTexts | None":
    if not options.rows:
        return None
    from bertflow_jax.evaluation.fitted_rows import check_rows, load_fit_texts

    check_rows(options.rows)
    names = [task.name for task in tasks]
    return load_fit_texts(options.fit, options.fit_splits, names, options.data_dir, own)


def _raw_table(
    options: EvalOptions, tasks: list[StsTask], source: Source, texts: "FitTexts | None"
) -> SentenceTable:
    """Embed every sentence of tasks and texts, or take the embeddings of an earlier evaluation."""
    own = source.config.cache_dir if options.workdir is not None else ""
    folder = own if options.cache_dir is None else options.cache_dir
    return SentenceTable.build(
        tasks,
        lambda sentences: embed_cached(source.encoder.encode, source.identity, sentences, folder),
        () if texts is None else texts.sentences,
    )


def _fitted_record(options: EvalOptions, config: Config, texts: "FitTexts") -> dict[str, Any]:
    """Return what the fitted rows are made of, for results.json."""
    return {
        "rows": list(options.rows),
        "seeds": [int(seed) for seed in options.seeds],
        "fit": texts.fit,
        "fit_splits": list(texts.splits),
        "whole_text": texts.whole_text,
        "flow": dataclasses.asdict(config.flow),
        "train": dataclasses.asdict(config.train),
        "text": texts.manifests,
    }


def _random_cosine(tables: Tables, seed: int) -> float | None:
    """Return the mean cosine of random pairs of a row: over the tasks, by their sentences."""
    different = list({id(table): table for table in tables.values()}.values())
    means = [mean_random_cosine(table.embeddings, seed=seed) for table in different]
    known = [mean for mean in means if mean is not None]
    if len(known) < len(means):
        return None
    return float(np.average(known, weights=[len(table.index) for table in different]))


def _analyse(
    options: EvalOptions,
    output: Output,
    results: dict[str, Any],
    tasks: list[StsTask],
    tables: dict[str, Tables],
    source: Source,
) -> None:
    """Add the analyses that were asked for to results.json and print their tables."""
    if not options.analyses:
        return
    found = run_analyses(
        options.analyses, tasks, tables, source.encoder, options.corpus, options.encoding
    )
    if found:
        results["analyses"] = found
        write_results(output.folder / "results.json", results)
    print("\n" + format_analyses(results, options.analyses))


def _draw(
    options: EvalOptions,
    output: Output,
    results: dict[str, Any],
    task: StsTask,
    tables: dict[str, SentenceTable],
    metrics_path: Path | None,
) -> None:
    """Write report and figure; they show the pairs of one task."""
    if not options.report and options.figure is None:
        return
    from bertflow_jax.evaluation import plots, report

    rows = plot_rows(task, tables, results["rows"], options.seed, options.similarity)
    if options.report:
        curves = training_curves(metrics_path, _CURVES) if metrics_path is not None else {}
        lexical = []
        if "edit_distance" in options.analyses:
            from bertflow_jax.evaluation.lexical_plot import lexical_plots

            lexical = lexical_plots(task, tables, options.seed)
        report.write_report(
            output.folder / "report.html", results, rows, task.name, curves, lexical
        )
        print(f"report: {output.place('report.html')}")
    if options.figure is not None:
        plots.effect_figure(Path(options.figure), rows, f"Pairs of {COLUMNS[task.name]}")
        print(f"figure: {options.figure}")
