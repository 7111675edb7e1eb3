"""Scores on a model card: a results.json of evaluate.py, shown to be of the model it stands by."""

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bertflow_jax.data.json_files import read_json_object
from bertflow_jax.errors import InputError
from bertflow_jax.integrations.card_facts import public
from bertflow_jax.paths import user_path

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

_log = logging.getLogger(__name__)
# Of an encoder's identity what its folder holds: dtype is chosen when it is loaded.
_OF_THE_FOLDER = ("weights_sha256", "tokenizer_sha256", "pooling", "max_length", "normalize")
Metrics = Mapping[str, Any] | str | os.PathLike[str]


def read_metrics(metrics: Metrics) -> dict[str, Any]:
    """Return the content of a results.json.

    Args:
      metrics: its path, or its content.

    Raises:
      InputError: it is no results.json of evaluate.py.
      DataNotFoundError, ConfigError: the file is not there, or not JSON.
    """
    if isinstance(metrics, Mapping):
        place, results = "metrics", dict(metrics)
    else:
        path = user_path(metrics, "metrics")
        place, results = f"metrics={metrics}", read_json_object(path)
    try:
        metrics_table(results)
        eval_results(results, next(iter(results["rows"])))
    except (
        LookupError,
        TypeError,
        AttributeError,
        ValueError,
        ArithmeticError,
        StopIteration,
    ) as error:
        raise InputError(
            f"{place} is no results.json of evaluate.py ({type(error).__name__}: {error})"
        ) from None
    return results


def check_same_model(
    results: Mapping[str, Any], identity: Mapping[str, Any], postprocess: Mapping[str, Any] | None
) -> str:
    """Return the row of a model's own scores, once the results are shown to be of it.

    Args:
      results: from `read_metrics`.
      identity: of the encoder.
      postprocess: {"name", "sha256"} of its post-processor, None without one.

    Raises:
      InputError: they are of another encoder or post-processor, or have no row of it.
    """
    model = results["model"]
    scored = model.get("encoder") or {}
    other = [name for name in _OF_THE_FOLDER if scored.get(name) != identity[name]]
    if other:
        raise InputError(
            f"metrics are of another encoder (its {', '.join(other)}): evaluate this one, with "
            "evaluate.py --workdir or --encoder"
        )
    row = "raw" if postprocess is None else str(postprocess["name"])
    if row not in results["rows"]:
        raise InputError(
            f"metrics have no row {row!r}, which this model's scores would be; they have "
            f"{', '.join(results['rows'])}"
        )
    if postprocess is not None:
        said = model.get("postprocess") or model.get("flow") or {}
        if "sha256" not in said:
            _log.warning("metrics do not say which %s was scored: taken for this one", row)
        elif said["sha256"] != postprocess["sha256"]:
            raise InputError(
                f"metrics are of another {row} (another fit or step): evaluate this one, with "
                "evaluate.py --workdir (--step) or --encoder"
            )
    return row


def metrics_table(results: Mapping[str, Any]) -> str:
    """Return all rows as a Markdown table with its caption, which names no folder."""
    from bertflow_jax.evaluation.export_tables import markdown_table

    return markdown_table(public(results))


def eval_results(results: Mapping[str, Any], row: str) -> "list[EvalResult]":
    """Return the scores of a row for a card's model-index.

    What is undefined is left out, and what is scored on other pairs than the published ones: a
    leaderboard that collects these reads no note. Another split of STS-B or SICK is named.
    """
    from huggingface_hub import EvalResult

    from bertflow_jax.data.published_sizes import differences, other_split
    from bertflow_jax.evaluation.comparable import scored_sizes
    from bertflow_jax.evaluation.similarities import TITLES
    from bertflow_jax.evaluation.table import COLUMNS, split_tasks, task_columns
    from bertflow_jax.evaluation.tasks import PAPER_AGGREGATION

    similarity = results["provenance"]["similarity"]
    scores = results["rows"][row]
    correlations, _ = split_tasks(task_columns({row: scores}))
    sizes = scored_sizes(scores)
    found = []
    for task in task_columns({row: scores}):
        split = results["provenance"].get("tasks", {}).get(task, {}).get("split")
        if task in sizes and differences(task, sizes[task]):
            continue
        if task in sizes and task in correlations:
            split = other_split(task, sizes[task])
        if task in correlations:
            kind, title = "semantic-similarity", "Semantic textual similarity"
            over = f", {PAPER_AGGREGATION} over subsets"
            values = {
                f"{name}_{similarity}": (
                    scores[task][PAPER_AGGREGATION][name],
                    f"{name.capitalize()} x 100 of the {TITLES[similarity]}{over}",
                )
                for name in ("spearman", "pearson")
            }
        else:
            kind, title = "pair-classification", "Classification of pairs"
            auc = f"AUC x 100 of the {TITLES[similarity]}"
            values = {f"auc_{similarity}": (scores[task]["auc"], auc)}
        for metric, (value, name) in values.items():
            if value is None:
                continue
            found.append(
                EvalResult(
                    task_type=kind,
                    task_name=title,
                    dataset_type=task,
                    dataset_name=COLUMNS[task],
                    dataset_split=split,
                    metric_type=metric,
                    metric_name=name,
                    metric_value=round(float(value), 2) + 0.0,  # no -0.0
                )
            )
    return found
