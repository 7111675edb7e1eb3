"""Edit distance against similarity. Each test names the bug it catches."""

import json

import numpy as np
import pytest

from bertflow_jax.data.sts import ScoredPairs, StsTask, load_task
from bertflow_jax.evaluation.edit_distance import edit_distances, levenshtein, lexical_analysis
from bertflow_jax.evaluation.lexical_plot import lexical_plots
from bertflow_jax.evaluation.tasks import SentenceTable


def by_table(a, b):
    """The textbook recurrence."""
    above = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (x != y)))
        above = row
    return above[-1]


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("", "", 0), ("ab", "ba", 2)],
)
def test_known_distances(a, b, distance):
    # Bug: a swap counted as one edit, or an empty side.
    assert levenshtein(a, b) == distance


def test_random_texts_against_the_textbook():
    # Bug: a carry lost in the bit vectors, which shows beyond 64 symbols or for repeated ones.
    rng = np.random.default_rng(0)
    for _ in range(150):
        a, b = ("".join(rng.choice(list("abc"), rng.integers(0, 100))) for _ in range(2))
        assert levenshtein(a, b) == by_table(a, b), (a, b)


def test_units_case_and_the_longer_length():
    # Bug: normalised by the first or the shorter text, or upper case counted as an edit.
    first, second = ["A dog runs", "", "x"], ["a big dog ran fast", "", "x"]
    words = edit_distances(first, second)
    np.testing.assert_array_equal(words.distance, [3, 0, 0])
    np.testing.assert_allclose(words.normalized, [3 / 5, 0, 0])
    letters = edit_distances(first, second, "characters")
    assert letters.distance[0] == by_table("a dog runs", "a big dog ran fast")
    assert letters.normalized[0] == letters.distance[0] / len("a big dog ran fast")


def small_task():
    first = ["one two three four five six"] * 5
    second = [
        "one two three four five six",
        "one two three four five 6",
        "one two three four 5 6",
        "one two three 4 5 6",
        "1 2 3 4 5 6",
    ]
    return StsTask("stsb", {"dev": ScoredPairs("dev", first, second, np.array([5, 4, 1, 2, 0.0]))})


def angles(cosines):
    """A table where sentence i has the given cosine to sentence 0."""
    task = small_task()
    index = {text: i for i, text in enumerate(dict.fromkeys(task.sentences))}
    rows = [[c, np.sqrt(1 - c * c)] for c in cosines]
    return SentenceTable(index, np.array(rows))


def test_correlations_by_hand():
    # Bug: similarity and distance of different pairs, the sign turned, the small pairs not apart.
    found = lexical_analysis(small_task(), {"raw": angles([1, 0.9, 0.8, 0.7, 0.95])})
    words = found["words"]
    assert (words["pairs"], words["small_pairs"]) == (5, 4)
    assert words["rows"].keys() == {"gold", "raw"}
    # Distances 0 1 2 3 6; gold 5 4 1 2 0 has one exchanged neighbour: 1 - 6 * 2 / (5 * 24).
    assert words["rows"]["gold"]["distance"]["spearman"] == pytest.approx(-90)
    assert words["rows"]["gold"]["small_distance"]["spearman"] == pytest.approx(-80)
    # Ranks of the cosines 5 3 2 1 4.
    assert words["rows"]["raw"]["distance"]["spearman"] == pytest.approx(-40)
    assert words["rows"]["raw"]["small_normalized"]["spearman"] == pytest.approx(-100)


def test_undefined_correlations_have_reasons():
    # Bug: NaN, or "gold scores" in the reason where cosines are meant.
    pairs = ScoredPairs("dev", ["a b", "a b"], ["a b", "a b"], np.array([1.0, 2]))
    table = SentenceTable({"a b": 0}, np.ones((1, 2)))
    found = lexical_analysis(StsTask("stsb", {"dev": pairs}), {"raw": table})
    json.dumps(found, allow_nan=False)
    assert found["words"]["rows"]["gold"]["distance"] == {
        "spearman": None,
        "reason": "all distances are equal",
    }
    assert lexical_plots(StsTask("stsb", {"dev": pairs}), {"raw": table})[0].spearman is None


def test_panels_show_what_the_table_says():
    # Bug: a panel titled with the correlation of another distance or row.
    tables = {"raw": angles([1, 0.9, 0.8, 0.7, 0.95])}
    gold, raw = lexical_plots(small_task(), tables)
    rows = lexical_analysis(small_task(), tables)["words"]["rows"]
    assert gold.spearman == pytest.approx(rows["gold"]["normalized"]["spearman"])
    assert raw.spearman == pytest.approx(rows["raw"]["normalized"]["spearman"])
    np.testing.assert_array_equal(raw.small, [True, True, True, True, False])
    np.testing.assert_allclose(raw.similarity, [1, 0.9, 0.8, 0.7, 0.95])


def test_gold_of_stsb_dev_is_the_papers(shared):
    # Bug: normalised distances, whose correlation is twice as strong, where the paper has raw ones.
    task = load_task("stsb", shared / "sts", ("dev",))
    found = lexical_analysis(task, {})
    assert found["words"]["rows"]["gold"]["distance"]["spearman"] == pytest.approx(-24.61, abs=0.1)
    assert found["words"]["rows"]["gold"]["normalized"]["spearman"] < -45
    assert found["words"]["small_pairs"] == 370
