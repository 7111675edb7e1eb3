"""The paper's analyses on request: which there are, their part of results.json and their tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bertflow_jax.data.sts import StsTask
from bertflow_jax.evaluation.edit_distance import SMALL, lexical_analysis
from bertflow_jax.evaluation.isotropy import MEASURES
from bertflow_jax.evaluation.table import COLUMNS, UNDEFINED, aligned, task_columns
from bertflow_jax.evaluation.tasks import SentenceTable
from bertflow_jax.evaluation.word_frequency import (
    rank_by_corpus,
    rank_by_vocabulary,
    word_frequency,
)

if TYPE_CHECKING:
    from bertflow_jax.embed import SentenceEncoder

Lines = list[list[str]]

# Measure -> (title, value of perfectly isotropic or normal embeddings).
ISOTROPY_TITLES = {
    "mean_cosine": ("mean cosine of random pairs", "0"),
    "log_partition": ("ln I(W)", "0"),
    "partition_unit": ("I(W) of unit vectors", "1"),
    "isoscore": ("IsoScore", "1"),
    "uniformity": ("uniformity", "-4"),
    "alignment": ("alignment", "0"),
    "skewness": ("mean |skewness|", "0"),
    "excess_kurtosis": ("mean |excess kurtosis|", "0"),
    "ks_distance": ("mean KS distance to N(0, 1)", "0"),
}
_LEXICAL_COLUMNS = ("distance", "normalized", "small_distance")


def run_analyses(
    names: Sequence[str],
    tasks: Sequence[StsTask],
    tables: Mapping[str, Mapping[str, SentenceTable]],
    sentence_encoder: "SentenceEncoder",
    corpus: str | None = None,
    encoding: str = "utf-8",
) -> dict[str, Any]:
    """Return what goes under "analyses" in results.json.

    Args:
      names: of `edit_distance`, `word_frequency`; others (`isotropy` is in every results.json) are
        ignored.
      tasks: of the edit distance.
      tables: row -> task -> embeddings of its sentences.
      sentence_encoder: its word embeddings are what word_frequency measures.
      corpus: file whose words are counted, or None for the order of the vocabulary.
      encoding: of the corpus.

    Returns:
      analysis -> its result, JSON-safe; `edit_distance` is task -> `lexical_analysis`.
    """
    found: dict[str, Any] = {}
    if "edit_distance" in names:
        found["edit_distance"] = {
            task.name: lexical_analysis(task, {row: of[task.name] for row, of in tables.items()})
            for task in tasks
        }
    if "word_frequency" in names:
        encoder = sentence_encoder.encoder
        ranking = (
            rank_by_vocabulary(encoder.tokenizer)
            if corpus is None
            else rank_by_corpus(Path(corpus), encoder.tokenizer, encoding)
        )
        table = np.asarray(encoder.params["embeddings"]["word"], np.float32)
        found["word_frequency"] = word_frequency(table, ranking, encoder.tokenizer.word_ids())
    return found


def format_analyses(results: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the tables of the named analyses as text, one below the other."""
    found = results.get("analyses", {})
    parts: list[tuple[str, Lines]] = []
    if "isotropy" in names:
        title = f"Isotropy of the sentences of {measured(results)}"
        parts.append((title, isotropy_lines(results["isotropy"])))
    for task, lexical in found.get("edit_distance", {}).items():
        title = f"Edit distance against similarity, Spearman x 100, {COLUMNS[task]}"
        parts.append((title, lexical_lines(lexical)))
    if "word_frequency" in found:
        words = found["word_frequency"]
        title = f"Word embeddings by frequency rank ({origin(words)})"
        parts.append((title, word_lines(words)))
    return "\n\n".join("\n".join([title, *aligned(lines)]) for title, lines in parts)


def measured(results: Mapping[str, Any]) -> str:
    """Return the titles of the tasks whose sentences the isotropy is of."""
    tasks = results.get("isotropy_tasks") or task_columns(results["rows"])
    return ", ".join(COLUMNS[task] for task in tasks)


def isotropy_lines(isotropy: Mapping[str, Mapping[str, Any]]) -> Lines:
    """Return header and lines of the table, one line a measure."""
    lines = [["", *isotropy, "isotropic"]]
    for measure in MEASURES:
        title, ideal = ISOTROPY_TITLES[measure]
        lines.append([title, *(cell(row[measure], 3) for row in isotropy.values()), ideal])
    return lines


def isotropy_reasons(isotropy: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return why measures are undefined, one sentence a row and measure."""
    return [
        f"{ISOTROPY_TITLES[measure][0]}, {name}: {reason}."
        for name, row in isotropy.items()
        for measure, reason in row.get("reasons", {}).items()
    ]


def lexical_lines(lexical: Mapping[str, Mapping[str, Any]]) -> Lines:
    """Return header and lines of the table, one line a row of the results, gold first."""
    header, rows = [""], list(next(iter(lexical.values()))["rows"])
    for unit, found in lexical.items():
        header += [unit, f"{unit} / longer", f"{unit} <= {SMALL} ({found['small_pairs']})"]
    return [
        header,
        *(
            [
                name,
                *(
                    cell(found["rows"][name][column]["spearman"], 2)
                    for found in lexical.values()
                    for column in _LEXICAL_COLUMNS
                ),
            ]
            for name in rows
        ),
    ]


def origin(words: Mapping[str, Any]) -> str:
    """Say in a few words where the ranks of `word_frequency` come from."""
    if words["order"] == "vocabulary":
        return "order of the vocabulary, no counts"
    return f"{words['tokens']:,} tokens of {words['corpus']}"


def word_lines(words: Mapping[str, Any]) -> Lines:
    """Return header and lines of the table, one line a measure, one column a bin."""
    bins = words["bins"]
    lines = [["rank", *bins], ["words", *(str(found["words"]) for found in bins.values())]]
    lines.append(["mean l2 norm", *(cell(found["norm"], 2) for found in bins.values())])
    for name, title in (("distance", "mean l2 distance"), ("dot", "mean dot product")):
        for k in next(iter(bins.values()))["neighbours"]:
            values = (cell(found["neighbours"][k][name], 2) for found in bins.values())
            lines.append([f"{title}, k={k}", *values])
    return lines


def cell(value: float | None, decimals: int) -> str:
    """Return a number, or the mark of an undefined one, as text."""
    # z: a tiny value that is rounded to 0 has no sign.
    return UNDEFINED if value is None else f"{value:z.{decimals}f}"
