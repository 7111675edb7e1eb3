"""What a reader must know to use the scores of an evaluation, in plain sentences."""

from collections.abc import Mapping
from typing import Any

from bertflow_jax.config import Config
from bertflow_jax.evaluation.similarities import TITLES
from bertflow_jax.evaluation.table import COLUMNS, PLUS_MINUS, mark_notes, split_tasks, task_columns
from bertflow_jax.supervision_config import comma_separated

OWN_FLOW = "flow"  # the row of the run that is evaluated
FITTED_HERE = ", fitted here"  # of a fitted row whose name the run's own flow has already


def caption(results: Mapping[str, Any], aggregation: str) -> str:
    """Return what the numbers are, of which encoder, fitted on what, over which seeds."""
    correlations, binary = split_tasks(task_columns(results["rows"]))
    title = TITLES[results["provenance"]["similarity"]]
    numbers = []
    if correlations:
        numbers.append(
            f"Spearman's correlation x 100 of {title} and gold score, {aggregation} over the "
            "subsets of a task"
        )
    if binary:
        names = f" ({', '.join(COLUMNS[task] for task in binary)})" if correlations else ""
        numbers.append(f"AUC x 100 of the {title}{names}")
    sentences = [
        "; ".join(numbers),
        *_encoder(results["model"]),
        *fitted_on(results),
        *mark_notes(results),
    ]
    seeds = {len(row["seeds"]) for row in results["rows"].values() if "seeds" in row}
    if seeds:
        counts = " or ".join(str(count) for count in sorted(seeds))
        sentences.append(
            f"{PLUS_MINUS}: mean and standard deviation (n - 1) over {counts} seeds of the fit"
        )
    return " ".join(f"{sentence}." for sentence in sentences)


def pooling_name(encoder: Mapping[str, Any]) -> str:
    """Return the pooling by the name it was asked for with, else by its canonical one."""
    return str(encoder.get("pooling_name") or encoder["pooling"])


def fitted_on(results: Mapping[str, Any]) -> list[str]:
    """Return on which text the rows were fitted, one sentence (without full stop) a text."""
    model = results["model"]
    found = []
    if "text" in model:
        found.append(f"{OWN_FLOW}: step {model['step']}, fitted on {_text(model['text'])}")
    fitted = model.get("fitted")
    if fitted:
        names = [
            f"{row}{FITTED_HERE}" if f"{row}{FITTED_HERE}" in results["rows"] else row
            for row in fitted["rows"]
        ]
        found.append(f"{', '.join(names)}: fitted on {_fit(fitted)}")
    return found


def compared_rows(averages: Mapping[str, float | None]) -> tuple[str, str]:
    """Return the two rows of the first sentence, whatever their order in the table.

    `raw` is compared with the run's own flow; else with the best row that has a flow; else with the
    best row.
    """
    first = "raw" if "raw" in averages else next(iter(averages))
    others = [name for name in averages if name != first]
    flows = [name for name in others if OWN_FLOW in name.removesuffix(FITTED_HERE).split("+")]
    if not others:
        return first, first
    if OWN_FLOW in others:
        return first, OWN_FLOW

    def rank(name: str) -> tuple[bool, float, str]:
        score = averages[name]
        return score is not None, score if score is not None else 0.0, name

    return first, max(flows or others, key=rank)


def step_line(step: int, config: Config, examples: int) -> str:
    """Return `step N`, with `of M planned` where the config tells: a fit may have been cut off.

    Args:
      step: of the checkpoint.
      config: of the run.
      examples: of its text, held-out ones included. How many could be held out is not recorded:
        with some, M is the least that can have been planned.
    """
    if config.objective != "flow":
        return f"step {step}"  # the best one, not the last
    if config.train.steps:
        return f"step {step} of {config.train.steps} planned"
    from bertflow_jax.training.order import ExampleOrder

    held_out = round(config.data.held_out * examples)
    fitted = examples - held_out
    order = ExampleOrder(fitted, min(config.train.batch_size, fitted), config.seed)
    planned = order.steps_for(config.train.epochs)
    if held_out:
        return f"step {step} of {planned} planned, or a few more (data.held_out)"
    return f"step {step} of {planned} planned"


def _encoder(model: Mapping[str, Any]) -> list[str]:
    encoder = model.get("encoder", {})
    if "path" not in encoder:
        return []
    pooling = f", pooling {pooling_name(encoder)}" if "pooling" in encoder else ""
    return [f"Encoder: path {encoder['path']}{pooling}"]


def _fit(fitted: Mapping[str, Any]) -> str:
    if fitted["fit"] == "target":
        splits = f", splits {', '.join(fitted['fit_splits'])}" if fitted["fit_splits"] else ""
        return f"each task's own text{splits}"
    return _text(next(iter(fitted["text"].values())))


def _text(manifest: Mapping[str, Any]) -> str:
    if manifest["path"] == "everyday":
        return "the bundled corpus"
    # A file of labelled pairs has the config's task and splits beside it, without effect.
    if manifest.get("format", "sts") not in ("sts", "tfds") or not manifest.get("task"):
        return str(manifest["path"])
    tasks = [COLUMNS.get(task, task) for task in comma_separated(manifest["task"])]
    return f"the text of {', '.join(tasks)} ({', '.join(manifest['splits'])})"
