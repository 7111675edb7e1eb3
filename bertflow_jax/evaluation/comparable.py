"""Which columns of a table stand for something else than their title says, and why."""

from collections.abc import Mapping
from typing import Any

from bertflow_jax.data.glue import BINARY_TASKS
from bertflow_jax.data.published_sizes import unlike_published

AVERAGE = "average"  # its key among the marked columns
MARK = "*"


def unlike_scores(row: Mapping[str, Any]) -> dict[str, str]:
    """Return why tasks of a results.json's row are not comparable with published scores.

    Decided by the subsets and sizes that stand beside the scores, so that it holds for a file that
    an older version wrote too. Tasks that are comparable, or of which nothing is known, are left
    out.
    """
    found = {task: unlike_published(task, sizes) for task, sizes in scored_sizes(row).items()}
    return {task: why for task, why in found.items() if why is not None}


def scored_sizes(row: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return task -> {subset -> scored pairs} of a results.json's row; {} of a task without any."""
    found = {}
    for task, scores in row.items():
        if not isinstance(scores, Mapping):
            continue
        if scores.get("subsets"):
            found[task] = {name: subset["pairs"] for name, subset in scores["subsets"].items()}
        elif "auc" in scores and "split" in scores:
            found[task] = {scores["split"]: scores["pairs"]}
    return found


def unlike_tasks(results: Mapping[str, Any]) -> dict[str, str]:
    """Return `unlike_scores` of a whole results.json: its rows are of the same data."""
    return {
        task: why for row in results["rows"].values() for task, why in unlike_scores(row).items()
    }


def whole_text(results: Mapping[str, Any]) -> list[str]:
    """Return the tasks whose rows were fitted on all their text although splits were asked for."""
    return list(results.get("model", {}).get("fitted", {}).get("whole_text", []))


def marked_columns(results: Mapping[str, Any]) -> list[str]:
    """Return the tasks whose titles get a mark, and `AVERAGE` where a score in it is unlike."""
    unlike = unlike_tasks(results)
    averaged = set(unlike) - set(BINARY_TASKS)  # an AUC is in no average
    return [*whole_text(results), *unlike, *([AVERAGE] if averaged else [])]
