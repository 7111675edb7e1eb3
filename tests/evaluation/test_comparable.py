"""Scores of other pairs than the published ones are marked wherever they are shown."""

import numpy as np

from bertflow_jax.data.glue import BinaryTask
from bertflow_jax.data.published_sizes import data_note
from bertflow_jax.data.sts import ScoredPairs, StsTask
from bertflow_jax.data.tfds_builders.releases import RELEASES
from bertflow_jax.evaluation.comparable import marked_columns
from bertflow_jax.evaluation.export_tables import latex_table, markdown_table
from bertflow_jax.evaluation.plot_data import plot_rows
from bertflow_jax.evaluation.report import write_report
from bertflow_jax.evaluation.results import build_results
from bertflow_jax.evaluation.table import format_table
from bertflow_jax.evaluation.tasks import SentenceTable, evaluate

WHY = "MSRvid has 749 scored pairs instead of 750: not comparable with published scores"
SPLIT = "scored on dev: not comparable with scores of test"


def task_of(name, sizes):
    def pairs(subset, count):
        scores = np.arange(count, dtype=float) % 5
        return ScoredPairs(subset, ["1"] * count, [str(i / count) for i in range(count)], scores)

    note = data_note(name, sizes)
    return StsTask(
        name,
        {subset: pairs(subset, count) for subset, count in sizes.items()},
        (note,) * bool(note),
    )


def embed(sentences):
    cosines = np.array([float(text) for text in sentences])
    return np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1)


def results_of(*tasks, **model):
    model = {"encoder": {"path": "x", "pooling": "mean"}, "flow": None, **model}
    return build_results(model, evaluate(tasks, {"raw": embed}), tasks, 0, {"raw": 0.5})


def whole(name):
    return task_of(name, RELEASES[name].sizes)


def test_whole_data_have_no_mark():
    # Bug: every table marked, so that the mark says nothing.
    results = results_of(whole("sts12"), task_of("stsb", {"test": 1379}))
    assert marked_columns(results) == []
    assert "*" not in format_table(results) + markdown_table(results) + latex_table(results)


def test_a_cut_subset_is_marked_everywhere(tmp_path):
    # Bug: the note stood in results.json alone, and the score under the usual title everywhere.
    cut = task_of("sts12", {**RELEASES["sts12"].sizes, "MSRvid": 749})
    results = results_of(cut, whole("sts13"), task_of("stsb", {"dev": 1500}))
    printed = format_table(results).splitlines()
    assert printed[1].split() == ["STS-B*", "STS12*", "STS13", "Avg*"]
    assert printed[3:5] == [f"* STS-B: {SPLIT}", f"* STS12: {WHY}"]
    table = markdown_table(results)
    assert r"| STS-B\* | STS12\* | STS13 | Avg\* |" in table
    assert rf"\* STS12: {WHY}." in table
    assert "& STS-B* & STS12* & STS13 & Avg*" in latex_table(results)
    assert f"* STS12: {WHY}." in latex_table(results)
    tables = {"raw": SentenceTable.build([cut], embed)}
    rows = plot_rows(cut, tables, results["rows"])
    write_report(tmp_path / "report.html", results, rows, "sts12")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.count('<th scope="col">STS12*</th>') == 2
    assert page.count(f"STS12: {WHY}.") == 1
    assert f"* STS-B: {SPLIT}." in page


def test_both_marks_say_which_column_they_are_of():
    # Bug: one * for two things, so that the reader takes the wrong one.
    results = results_of(whole("sts12"), task_of("sickr", {"test": 499}))
    results["model"]["fitted"] = {
        "rows": ["flow"], "fit": "target", "fit_splits": ["train"], "whole_text": ["sts12"],
        "text": {},
    }  # fmt: skip
    printed = format_table(results).splitlines()
    assert printed[1].split() == ["SICK-R*", "STS12*", "Avg*"]
    assert printed[3] == "* STS12: fitted on all text of the task, which has one split"
    assert printed[4].startswith("* SICK-R: test has 499 scored pairs instead of 4927")


def test_an_older_file_without_the_note_is_marked_too():
    # Bug: a score published because the version that wrote it did not know the sizes.
    results = results_of(task_of("sickr", {"test": 499}))
    del results["provenance"]["tasks"]["sickr"]["notes"]
    assert marked_columns(results) == ["sickr", "average"]


def labelled(count):
    pairs = ScoredPairs(
        "dev", ["1"] * count, [str(i / count) for i in range(count)], np.arange(count) % 2
    )
    note = data_note("qnli", {"dev": count})
    return BinaryTask(
        "qnli", {"dev": pairs}, (note,) * bool(note), threshold_pairs=pairs, threshold_from="dev"
    )


def test_labelled_pairs_are_marked_and_the_average_is_not():
    # Bug: an AUC over a cut dev.tsv under the usual title; it is in no average.
    correlations = (whole("sts12"), whole("sts13"))
    assert marked_columns(results_of(*correlations, labelled(5463))) == []
    results = results_of(*correlations, labelled(5462))
    printed = format_table(results).splitlines()
    assert printed[1].split() == ["STS12", "STS13", "Avg", "QNLI*"]
    assert "* QNLI: dev has 5462 scored pairs instead of 5463: not comparable" in printed[3]
