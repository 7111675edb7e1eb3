"""Scoring through a function. Each test names the bug it catches."""

import numpy as np
import pytest

from bertflow_jax.data.sts import ScoredPairs, StsTask
from bertflow_jax.errors import InputError
from bertflow_jax.evaluation.tasks import SentenceTable, evaluate, evaluate_task, task_average

SIMS = {"A": [0.9, 0.8, 0.7, 0.6], "B": [0.2, 0.3, 0.1]}
GOLD = {"A": [4, 3, 2, 1], "B": [5, 4.5, 4]}


def angle_task(name="sts12"):
    """Pairs "0" and "<cosine>", which `angle_embed` places at exactly that cosine."""
    subsets = {
        k: ScoredPairs(k, ["1"] * len(v), [str(s) for s in v], np.array(GOLD[k], float))
        for k, v in SIMS.items()
    }
    return StsTask(name, subsets)


def angle_embed(sentences):
    cosines = np.array([float(text) for text in sentences])
    return np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1)


def test_m01_known_scores_times_100():
    # Bug: fractions where x 100 is promised, or the aggregations mixed up.
    result = evaluate_task(angle_task(), angle_embed)
    assert result["wmean"]["spearman"] == pytest.approx(78.5714, abs=1e-4)
    assert result["mean"]["spearman"] == pytest.approx(75.0)
    assert result["all"]["spearman"] == pytest.approx(-43.2450, abs=1e-4)
    assert result["all"]["pearson"] == pytest.approx(-49.5285, abs=1e-4)
    assert result["subsets"]["B"]["spearman"] == pytest.approx(50.0)
    assert result["subsets"]["B"]["pairs"] == 3
    assert result["pairs"] == 7


def test_every_distinct_sentence_is_embedded_once_for_all_tasks_and_rows():
    # Bug: the encoder run again for each task and each row.
    calls = []

    def embed(sentences):
        calls.append(list(sentences))
        return angle_embed(sentences)

    tasks = [angle_task("sts12"), angle_task("sts13")]
    raw = SentenceTable.build(tasks, embed)
    rows = evaluate(tasks, {"raw": raw, "flow": raw.map(lambda x: x * [1.0, 2.0])})
    assert len(calls) == 1
    assert sorted(calls[0]) == sorted({"1", *map(str, SIMS["A"] + SIMS["B"])})
    assert list(rows) == ["raw", "flow"]


def test_rows_are_looked_up_by_sentence():
    # Bug: embeddings of distinct sentences paired by position.
    table = SentenceTable.build([angle_task()], angle_embed)
    np.testing.assert_array_equal(table(["0.3", "1", "0.3"]), angle_embed(["0.3", "1", "0.3"]))


def test_a_transform_changes_the_row_it_names_only():
    # Bug: raw scored with the flow's vectors (in-place transform), or the reverse.
    task = angle_task()
    raw = SentenceTable.build([task], angle_embed)
    rows = evaluate([task], {"raw": raw, "negated": raw.map(lambda x: x * [[1.0, 0.0]])})
    assert rows["raw"]["sts12"]["subsets"]["A"]["spearman"] == pytest.approx(100)
    assert rows["negated"]["sts12"]["subsets"]["A"] == {
        "spearman": None,
        "pearson": None,
        "reason": "all similarities are equal",
        "pairs": 4,
    }


def test_average_is_over_tasks_of_wmean():
    # Bug: average over pairs or subsets, or of another aggregation than stated.
    low = StsTask(
        "stsb", {"test": ScoredPairs("test", ["1"] * 2, ["0.1", "0.9"], np.array([5.0, 1]))}
    )
    rows = evaluate([angle_task(), low], {"raw": angle_embed})
    assert rows["raw"]["stsb"]["all"] == rows["raw"]["stsb"]["wmean"] == rows["raw"]["stsb"]["mean"]
    assert rows["raw"]["average"] == pytest.approx((78.5714 - 100) / 2, abs=1e-4)
    scored = {name: rows["raw"][name] for name in ("sts12", "stsb")}
    assert task_average(scored, "mean")[0] == pytest.approx((75 - 100) / 2)


def test_a_small_subset_never_stops_the_run():
    # Bug: one pair, or none, raises and loses the other scores.
    for count in (0, 1):
        task = angle_task()
        task.subsets["tiny"] = ScoredPairs("tiny", ["1"] * count, ["0.5"] * count, np.ones(count))
        row = evaluate([task], {"raw": angle_embed})["raw"]
        assert row["sts12"]["subsets"]["A"]["spearman"] == pytest.approx(100)
        tiny = row["sts12"]["subsets"]["tiny"]
        assert (tiny["spearman"], tiny["pairs"]) == (None, count)
        assert f"fewer than two scored pairs ({count})" in tiny["reason"]
        assert row["average"] is None
        assert row["reason"] == "no wmean score of sts12"
        assert row["sts12"]["all"]["spearman"] is not None


def test_embeddings_that_cannot_be_scored_are_refused():
    # Bug: a NaN embedding scored; rows lost by the embedding function.
    def broken(sentences):
        vectors = angle_embed(sentences)
        vectors[2] = np.nan
        return vectors

    with pytest.raises(InputError, match="row 2"):
        evaluate_task(angle_task(), broken)
    with pytest.raises(InputError, match=r"shape \(7, 2\) for 8 sentences"):
        evaluate_task(angle_task(), lambda sentences: angle_embed(sentences)[1:])


def test_what_is_no_function_of_sentences_is_refused():
    """Bug: AttributeError and TypeError of Python for two ways to mistake the arguments."""
    with pytest.raises(InputError, match=r"rows=.*must be a dict of name -> embed"):
        evaluate([angle_task()], angle_embed)
    with pytest.raises(InputError, match=r"embed=3: must be a function"):
        evaluate_task(angle_task(), 3)
