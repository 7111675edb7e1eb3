"""Scores that other tools mixed up or made of nothing. Each test names the bug it catches."""

import json

import numpy as np
import pytest

from bertflow_jax.data.glue import BinaryTask
from bertflow_jax.data.sts import ScoredPairs, StsTask
from bertflow_jax.errors import InputError
from bertflow_jax.evaluation.metrics import aggregate, correlation, cosine_similarity
from bertflow_jax.evaluation.results import build_results, write_results
from bertflow_jax.evaluation.similarities import SIMILARITIES
from bertflow_jax.evaluation.tasks import SentenceTable, evaluate, evaluate_task

A = ([0.9, 0.8, 0.7, 0.6], [4, 3, 2, 1])
B = ([0.2, 0.3, 0.1], [5, 4.5, 4])


def test_m01_three_aggregations_of_one_task():
    """Bug: pooled and per-subset scores taken for each other; they differ by 118 points here."""
    total, subsets = aggregate({"A": A, "B": B})
    assert subsets["A"].spearman == pytest.approx(1.0, abs=1e-12)
    assert subsets["B"].spearman == pytest.approx(0.5, abs=1e-12)
    assert total["mean"].spearman == pytest.approx(0.75, abs=1e-12)
    assert total["wmean"].spearman == pytest.approx(0.785714, abs=1e-6)
    assert total["all"].spearman == pytest.approx(-0.432450, abs=1e-6)
    assert total["all"].pearson == pytest.approx(-0.495285, abs=1e-6)
    assert type(total["all"].spearman) is float
    assert type(total["wmean"].pearson) is float


@pytest.mark.parametrize(
    ("sims", "gold", "reason"),
    [
        ([], [], "fewer than two scored pairs (0)"),
        ([0.5], [3], "fewer than two scored pairs (1)"),
        ([0.5, 0.5, 0.5], [1, 2, 3], "all similarities are equal"),
        ([0.1, 0.2, 0.3], [2, 2, 2], "all gold scores are equal"),
    ],
)
def test_m02_undefined_is_none_with_a_reason(sims, gold, reason):
    """Bug: NaN that poisons an average, or 0 that looks like a score."""
    score = correlation(sims, gold)
    assert (score.spearman, score.pearson, score.reason) == (None, None, reason)


def test_m02_undefined_subset_makes_its_means_undefined_but_not_all():
    """Bug: a collapsed subset left out of the mean, which flatters the model."""
    total, subsets = aggregate({"A": A, "tiny": ([0.5], [3])})
    assert subsets["A"].spearman == pytest.approx(1.0)
    assert total["mean"].spearman is None
    assert total["wmean"].reason == "undefined subset: tiny (fewer than two scored pairs (1))"
    # .5 against gold 3 added to A: ranks 1, 2, 3, 4, 5 against 3.5, 1, 2, 3.5, 5.
    assert total["all"].spearman == pytest.approx(5.5 / np.sqrt(10 * 9.5), abs=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_m02_a_value_that_is_no_number_is_refused(bad):
    """Bug: rank of NaN is some rank, and the score looks fine."""
    with pytest.raises(InputError, match="1 of 3 embeddings are not finite \\(first: row 1\\)"):
        cosine_similarity(np.array([[1, 0], [bad, 0], [0, 1]]), np.ones((3, 2)))
    with pytest.raises(InputError, match="NaN or infinite"):
        correlation([0.1, bad], [1, 2])


def test_m02_cosine_by_hand():
    """Bug: dot product without norms; NaN at a zero vector; overflow of squares."""
    a = np.array([[3, 4], [1, 0], [0, 0], [1e200, 0], [1e-200, 0]])
    b = np.array([[4, 3], [-2, 0], [1, 1], [1e200, 1e200], [1e-200, 0]])
    expected = [24 / 25, -1, 0, np.sqrt(0.5), 1]
    np.testing.assert_allclose(cosine_similarity(a, b), expected, rtol=0, atol=1e-12)


def test_m02_a_collapsed_encoder_is_undefined_not_noise():
    """Bug: parallel vectors of different length give cosines 1 +- 1e-16, and the noise is ranked."""
    direction = np.random.default_rng(0).normal(size=64)
    a = np.outer(np.linspace(0.1, 7, 50), direction).astype(np.float32)
    score = correlation(cosine_similarity(a, a[::-1]), np.arange(50))
    assert score.reason == "all similarities are equal"


def vectors_of(places):
    """An embedding that looks sentences up."""
    return lambda sentences: np.array([places[text] for text in sentences], float)


def task_of(gold, name="stsb"):
    """Pairs (a, x), (b, x), ... with these gold scores."""
    firsts = [chr(ord("a") + i) for i in range(len(gold))]
    subset = ScoredPairs("test", firsts, ["x"] * len(gold), np.array(gold, float))
    return StsTask(name, {"test": subset})


def test_m01_every_aggregation_is_named_and_a_plain_float():
    """Bug: (statistic, p-value) pairs or numpy scalars saved, or a number that says not of what."""
    task = StsTask(
        "sts12",
        {
            name: ScoredPairs(
                name, [str(s) for s in sims], ["1"] * len(sims), np.array(gold, float)
            )
            for name, (sims, gold) in {"A": A, "B": B}.items()
        },
    )
    angles = vectors_of(
        {str(c): [c, np.sqrt(1 - c**2)] for c in (*A[0], *B[0])} | {"1": [1.0, 0.0]}
    )
    found = evaluate([task], {"raw": angles})["raw"]
    for name, spearman in {"all": -43.2450, "mean": 75.0, "wmean": 78.5714}.items():
        assert {type(value) for value in found["sts12"][name].values()} == {float}
        assert found["sts12"][name]["spearman"] == pytest.approx(spearman, abs=1e-4)
    assert found["average"] == pytest.approx(78.5714, abs=1e-4)
    assert json.loads(json.dumps(found)) == found


def test_m02_one_zero_vector_among_good_ones():
    """Bug: one NaN cosine makes the whole task NaN, or a later step turns it into 0."""
    places = {"a": [1, 0], "b": [1, 1], "c": [0, 0], "x": [1, 0]}
    found = evaluate_task(task_of([5, 3, 1]), vectors_of(places))
    # Cosines 1, 0.7071, 0: in the order of the gold scores.
    assert found["all"]["spearman"] == pytest.approx(100.0)
    assert found["all"]["pearson"] == pytest.approx(
        100 * np.corrcoef([1, np.sqrt(0.5), 0], [5, 3, 1])[0, 1]
    )


@pytest.mark.parametrize("similarity", list(SIMILARITIES))
def test_m02_a_collapsed_encoder_is_null_in_the_file(tmp_path, similarity):
    """Bug: NaN in results.json, which is no JSON, or a score of 0 under one of the similarities."""
    task = task_of([5, 3, 1])
    table = SentenceTable.build([task], lambda sentences: np.ones((len(sentences), 3)))
    rows = evaluate([task], {"raw": table}, similarity)
    write_results(tmp_path / "r.json", build_results({}, rows, [task], 0, {"raw": 1.0}, similarity))
    found = json.loads((tmp_path / "r.json").read_text(), parse_constant=pytest.fail)["rows"]["raw"]
    for name in ("all", "mean", "wmean"):
        assert (found["stsb"][name]["spearman"], found["stsb"][name]["pearson"]) == (None, None)
        assert "all similarities are equal" in found["stsb"][name]["reason"]
    assert found["average"] is None
    assert found["reason"] == "no wmean score of stsb"


def test_m02_labels_that_are_all_equal_have_no_auc():
    """Bug: AUC 0 or 50 of pairs that are all of one label."""
    pairs = task_of([1, 1, 1]).subsets["test"]
    task = BinaryTask("qnli", {"dev": pairs}, threshold_pairs=pairs, threshold_from="dev")
    places = {"a": [1, 0], "b": [1, 1], "c": [0, 1], "x": [1, 0]}
    found = evaluate_task(task, vectors_of(places))
    assert found["auc"] is None
    assert "label" in found["reason"]
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
@pytest.mark.parametrize("similarity", list(SIMILARITIES))
def test_m02_a_nan_embedding_is_an_error_under_every_similarity(similarity, bad):
    """Bug: a NaN ranked somewhere, and a score that looks fine."""
    places = {"a": [1, 0], "b": [bad, 1], "c": [0, 1], "x": [1, 0]}
    with pytest.raises(InputError, match=r"not finite"):
        evaluate_task(task_of([5, 3, 1]), vectors_of(places), similarity)
