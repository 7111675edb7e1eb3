"""results.json: the scores of one evaluation and where they come from."""

import datetime
import importlib.metadata
import json
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertflow_jax.data.glue import BinaryTask
from bertflow_jax.data.sts import StsTask
from bertflow_jax.evaluation.metrics import AGGREGATIONS
from bertflow_jax.evaluation.tasks import PAPER_AGGREGATION, task_average
from bertflow_jax.text_output import write_text
from bertflow_jax.version import __version__

_PACKAGES = ("jax", "flax", "optax", "distrax", "transformers", "numpy", "scipy")
_ROOT = Path(__file__).parents[2]


def build_results(
    model: Mapping[str, Any],
    rows: Mapping[str, Mapping[str, Any]],
    tasks: Sequence[StsTask],
    seed: int,
    random_cosine: Mapping[str, float | None],
    similarity: str = "cosine",
) -> dict[str, Any]:
    """Return the content of results.json.

    Args:
      model: JSON-safe identity of what was scored: encoder, and the flow's run and step or None.
      rows: from `tasks.evaluate`.
      tasks: the tasks that were scored, for their digests and notes.
      seed: of the random pairs.
      random_cosine: row -> mean cosine of random pairs of the tasks' distinct sentences.
      similarity: that the scores are of.

    Returns:
      {"model", "rows", "averages", "mean_random_cosine", "provenance"}: `averages` gives every
      row's task average under each aggregation; a row's own "average" is the one that the
      provenance names.
    """
    averages = {}
    for name, row in rows.items():
        scored = {task.name: row[task.name] for task in tasks}
        averages[name] = {how: task_average(scored, how)[0] for how in AGGREGATIONS}
    return {
        "model": dict(model),
        "rows": {name: dict(row) for name, row in rows.items()},
        "averages": averages,
        "mean_random_cosine": dict(random_cosine),
        "provenance": provenance(tasks, seed, similarity),
    }


def provenance(tasks: Sequence[StsTask], seed: int, similarity: str = "cosine") -> dict[str, Any]:
    """Return what it takes to repeat an evaluation: when, with what, on which data."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": list(sys.argv),
        "seed": seed,
        "average": (
            f"unweighted mean over the STS tasks of the {PAPER_AGGREGATION} Spearman; tasks scored "
            "by AUC are no part of it"
        ),
        "similarity": similarity,
        "scale": "correlations, AUC, accuracy and F1 x 100",
        "tasks": {
            task.name: {
                "sha256": task.sha256,
                "pairs": task.pairs,
                "notes": list(task.notes),
                **_threshold_source(task),
            }
            for task in tasks
        },
        "git_commit": git_commit(_ROOT),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {"bertflow_jax": __version__, **_versions()},
    }


def _threshold_source(task: StsTask) -> dict[str, Any]:
    """Say which pairs chose the thresholds: they decide accuracy and F1 as the scored ones do."""
    if not isinstance(task, BinaryTask):
        return {}
    pairs = task.threshold_pairs
    chosen = StsTask(task.name, {task.threshold_from: pairs})
    source = {"split": task.threshold_from, "sha256": chosen.sha256, "pairs": len(pairs)}
    return {"split": task.split, "thresholds": source}


def _versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return versions


def git_commit(root: Path) -> str | None:
    """Return the commit checked out at root, or None where root is no git checkout."""
    if not (root / ".git").exists():
        return None
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "--verify", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None


def source_version() -> str:
    """Return the version, and the commit where the code is a git checkout: `0.3.0 (1a2b3c4d5e)`."""
    commit = git_commit(_ROOT)
    return f"{__version__} ({commit[:10]})" if commit else __version__


def write_results(path: Path, results: Mapping[str, Any]) -> None:
    """Write results.json as a whole or not at all; NaN and infinity are refused, not written.

    Raises:
      WorkdirError: the file cannot be written.
    """
    write_text(path, json.dumps(results, indent=2, allow_nan=False, ensure_ascii=False) + "\n")
