"""results.json and the text table. Each test names the bug it catches."""

import json
import os
import stat
import subprocess
import tempfile

import numpy as np
import pytest
from unprivileged import as_a_user

from bertflow_jax.data.sts import ScoredPairs, StsTask
from bertflow_jax.errors import WorkdirError
from bertflow_jax.evaluation.published import PUBLISHED
from bertflow_jax.evaluation.results import (
    build_results,
    git_commit,
    write_results,
)
from bertflow_jax.evaluation.table import format_table
from bertflow_jax.evaluation.tasks import evaluate
from bertflow_jax.output_places import output_folder


def task(name, cosines, gold):
    pairs = ScoredPairs("test", ["1"] * len(gold), [str(c) for c in cosines], np.array(gold, float))
    return StsTask(name, {"test": pairs}, ("a note",))


def embed(sentences):
    cosines = np.array([float(text) for text in sentences])
    return np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1)


def results_of(*tasks):
    rows = evaluate(tasks, {"raw": embed, "flow": lambda texts: -embed(texts)})
    return build_results(
        {"step": 7}, rows, tasks, seed=3, random_cosine={name: 0.25 for name in rows}
    )


GOOD = task("stsb", [0.1, 0.5, 0.9], [0, 3, 2])
UNDEFINED = task("sts12", [0.1], [3])


def test_contract_and_provenance(tmp_path):
    # Bug: a key that scripts rely on is missing, or the origin of a number is not recorded.
    write_results(tmp_path / "results.json", results_of(GOOD))
    found = json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert found["model"] == {"step": 7}
    row = found["rows"]["flow"]
    assert row["average"] == row["stsb"]["all"]["spearman"] == pytest.approx(50.0)
    assert row["stsb"]["subsets"]["test"]["pairs"] == row["stsb"]["pairs"] == 3
    assert found["averages"]["raw"] == {"all": 50.0, "mean": 50.0, "wmean": 50.0}
    origin = found["provenance"]
    assert "wmean" in origin["average"]
    assert origin["seed"] == 3
    assert origin["tasks"]["stsb"] == {"sha256": GOOD.sha256, "pairs": 3, "notes": ["a note"]}
    assert origin["packages"]["numpy"] == np.__version__
    assert origin["command"]


def test_m02_undefined_scores_are_null_with_a_reason(tmp_path):
    # Bug: NaN in the file, which is no JSON.
    write_results(tmp_path / "results.json", results_of(GOOD, UNDEFINED))
    text = (tmp_path / "results.json").read_text("utf-8")
    found = json.loads(text, parse_constant=pytest.fail)
    assert found["rows"]["raw"]["average"] is None
    assert found["rows"]["raw"]["reason"] == "no wmean score of sts12"
    assert found["averages"]["raw"]["all"] is None
    assert found["rows"]["raw"]["sts12"]["all"]["reason"] == "fewer than two scored pairs (1)"


def test_a_failed_write_keeps_the_old_file_and_leaves_no_other(tmp_path):
    # Bug: a half-written results.json after an error.
    path = tmp_path / "results.json"
    write_results(path, {"a": 1})
    with pytest.raises(ValueError, match="Out of range float"):
        write_results(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1}
    assert os.listdir(tmp_path) == ["results.json"]
    with pytest.raises(WorkdirError, match=r"missing/results\.json cannot be written"):
        write_results(tmp_path / "missing" / "results.json", {"a": 1})


def test_a_path_that_is_not_utf8_can_be_written(tmp_path):
    # Bug: UnicodeEncodeError for a lone surrogate, which is what such a byte in argv becomes.
    write_results(tmp_path / "results.json", {"path": "runs/\udcff\xe9"})
    text = (tmp_path / "results.json").read_text("utf-8")
    assert json.loads(text) == {"path": "runs/\udcff\xe9"}


def test_the_file_is_readable_by_others(tmp_path):
    # Bug: the private mode of a temporary file survives the rename.
    mask = os.umask(0o022)
    try:
        write_results(tmp_path / "results.json", {})
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "results.json").stat().st_mode) == 0o644


def test_git_commit_of_a_checkout_and_of_none(tmp_path):
    # Bug: the commit of whatever repository lies around the package, or a crash without git.
    assert git_commit(tmp_path) is None
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert git_commit(tmp_path) is None
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    commit = ["commit", "-q", "--allow-empty", "-m", "m"]
    subprocess.run(["git", "-C", tmp_path, *identity, *commit], check=True)
    assert len(git_commit(tmp_path)) == 40


@pytest.mark.parametrize("folder", ["", "  "])
def test_x02_blank_output_is_refused(folder):
    # Bug: a blank path means the root of the file system, or the current folder.
    with pytest.raises(WorkdirError, match="--output is blank"):
        output_folder(folder)


def test_x02_output_that_is_or_lies_below_a_file_is_refused(tmp_path):
    # Bug: found out after an hour of encoding.
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorkdirError, match=r"--output=.*file is a file"):
        output_folder(str(tmp_path / "file"))
    with pytest.raises(WorkdirError, match="is not writable"):
        output_folder(str(tmp_path / "file" / "below"))


@pytest.fixture
def unprivileged():
    """Give up root's right to write everywhere while a test runs."""
    with as_a_user():
        yield


def test_x02_read_only_output_is_refused(unprivileged):
    # Bug: PermissionError after the work.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        for path in (folder, f"{folder}/below"):
            with pytest.raises(WorkdirError, match=r"is not writable \(Permission denied\)"):
                output_folder(path)


def test_good_output_is_made_and_stays_empty(tmp_path):
    # Bug: probe files left behind.
    assert os.listdir(output_folder(str(tmp_path / "a" / "b"))) == []


def test_table_has_the_papers_columns_and_marks_undefined():
    # Bug: columns in the order of the flags, so that numbers are read under a wrong name.
    lines = format_table(results_of(UNDEFINED, GOOD), "all", PUBLISHED[:1]).splitlines()
    assert "all over subsets" in lines[0]
    assert lines[1].split() == ["STS-B*", "STS12*", "Avg*"]  # of a few pairs
    assert lines[2].split() == ["raw", "50.00", "n/a", "n/a"]
    assert lines[4].split()[-3:] == ["47.29", "49.07", "48.18"]


def test_a_single_task_has_no_average_column():
    # Bug: the same number twice, read as two findings.
    assert format_table(results_of(GOOD)).splitlines()[1].split() == ["STS-B*"]


def test_published_rows_are_under_their_own_columns():
    # Bug: the paper's columns start with STS-B, others with STS12; a slip moves every number.
    by_model = {row.model: row.scores for row in PUBLISHED}
    assert by_model["BERT-base first_last, flow on target"]["stsb"] == 70.72
    assert by_model["BERT-base first_last, flow on target"]["sts16"] == 75.37
    assert by_model["all-MiniLM-L6-v2 mean"]["sts12"] == 72.3690
    assert by_model["BERT-base, whitening 256 on target"]["sickr"] == 62.2


def test_the_mean_cosine_of_random_pairs_is_stored_and_printed():
    # Bug: the number that shows the effect is only in a picture.
    results = results_of(GOOD)
    assert results["mean_random_cosine"] == {"raw": 0.25, "flow": 0.25}
    last = format_table(results).splitlines()[-1]
    assert last == "mean cosine of random pairs: raw 0.250, flow 0.250 (sentences of STS-B)"
