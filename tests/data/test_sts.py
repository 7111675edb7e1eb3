"""STS readers. Each test names the bug it catches."""

import gzip

import numpy as np
import pytest
from sts_made import stsb_row, write, year

from bertflow_jax.data.lines import read_lines
from bertflow_jax.data.sts import EVERYDAY, load_task
from bertflow_jax.errors import BertFlowError, ConfigError, DataError, DataNotFoundError


def test_missing_gold_file_is_named(tmp_path):
    # Bug: a subset without gold file vanishes from the average.
    year(tmp_path, "1\n" * 5)
    (tmp_path / "STS" / "STS16-en-test" / "STS.gs.headlines.txt").unlink()
    with pytest.raises(DataNotFoundError, match=r"STS\.gs\.headlines\.txt"):
        load_task("sts16", tmp_path)


def test_missing_and_extra_subsets_are_noted(tmp_path):
    # Bug: a half-downloaded year scored as if it were the published one.
    year(tmp_path, "1\n2\n", pairs=2, subset="headlines", name="STS15-en-test")
    year(tmp_path, "1\n2\n", pairs=2, subset="mine", name="STS15-en-test")
    year(tmp_path, "1\n2\n", pairs=2, subset="ALL", name="STS15-en-test")
    task = load_task("sts15", tmp_path)
    assert sorted(task.subsets) == ["headlines", "mine"]
    notes = " ".join(task.notes)
    assert "answers-forums, answers-students, belief, images are missing" in notes
    assert "mine is not part" in notes


def test_unknown_encoding_is_a_config_error(tmp_path):
    # Bug: LookupError with a traceback.
    with pytest.raises(ConfigError, match="utf-9"):
        read_lines(write(tmp_path / "a.txt", "x\n"), "utf-9")


def test_lines_end_at_newline_only(tmp_path):
    # Bug: str.splitlines breaks at U+2028, U+0085 and form feeds and shifts every later line.
    text = "a\u2028b\nc\x85d\r\ne\x0cf\n"
    assert read_lines(write(tmp_path / "a.txt", text)) == ["a\u2028b", "c\x85d", "e\x0cf"]
    assert read_lines(write(tmp_path / "a.gz", gzip.compress(text.encode()))) == read_lines(
        tmp_path / "a.txt"
    )


def test_cut_gz_is_a_data_error(tmp_path):
    # Bug: EOFError with a traceback.
    data = gzip.compress(b"one sentence\n" * 100)
    with pytest.raises(DataError, match=r"a\.gz is not a whole"):
        read_lines(write(tmp_path / "a.gz", data[:-10]))


@pytest.mark.parametrize("nest", ["STS/STSBenchmark", "STSBenchmark", "."])
def test_layouts_of_stsb(tmp_path, nest):
    # Bug: only one of the layouts in use is found.
    write(tmp_path / nest / "sts-test.csv", stsb_row("a", "b"))
    assert load_task("stsb", tmp_path).pairs == 1


def test_a_year_is_found_from_its_own_folder_but_no_other_year_is(tmp_path):
    # Bug: STS14's folder scored under the name of STS12.
    year(tmp_path, "1\n2\n", pairs=2, name="STS14-en-test")
    folder = tmp_path / "STS" / "STS14-en-test"
    assert load_task("sts14", folder).pairs == load_task("sts14", tmp_path / "STS").pairs == 2
    with pytest.raises(DataNotFoundError, match="no data of sts12"):
        load_task("sts12", folder)


@pytest.mark.parametrize(
    ("task", "data_dir", "splits", "message"),
    [
        ("sts17", ".", ["test"], "unknown STS task"),
        ("stsb", "missing", ["test"], "no such folder"),
        ("stsb", ".", ["test"], "no data of stsb"),
        ("stsb", None, ["test"], "--data_dir"),
        (
            "stsb",
            "data",
            ["trian"],
            "--splits=trian: stsb has no split 'trian'; set --splits=train,dev,test or fewer",
        ),
        ("stsb", "data", [], "--splits=: stsb has no split ''"),
        ("stsb", "~nosuchuser/x", ["test"], "--data_dir=~nosuchuser/x: the home folder"),
        ("stsb", "data", ["dev", "dev"], "--splits=dev,dev: a split of stsb is named twice"),
        ("stsb", "data", ["dev"], "sts-dev.csv: no such file"),
    ],
)
def test_what_is_not_there_is_named(tmp_path, monkeypatch, task, data_dir, splits, message):
    # Bug: KeyError, or an empty task.
    write(tmp_path / "data" / "STSBenchmark" / "sts-test.csv", stsb_row("a", "b"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BertFlowError) as caught:
        load_task(task, data_dir, splits)
    assert message in str(caught.value)


def test_digest_changes_with_a_score(tmp_path):
    # Bug: provenance that cannot tell two versions of the data apart.
    path = write(tmp_path / "STSBenchmark" / "sts-test.csv", stsb_row("a", "b", "2.500"))
    before = load_task("stsb", tmp_path).sha256
    assert load_task("stsb", tmp_path).sha256 == before
    write(path, stsb_row("a", "b", "2.600"))
    assert load_task("stsb", tmp_path).sha256 != before


@pytest.mark.skipif(not EVERYDAY.is_file(), reason="the bundled corpus is not there")
def test_everyday_scores_every_bundled_pair():
    # Bug: columns swapped, or the header read as a pair.
    task = load_task("everyday")
    assert task.pairs == len(EVERYDAY.read_text("utf-8").splitlines()) - 1
    scores = task.subsets["everyday"].scores
    assert scores.min() >= 0
    assert scores.max() <= 5
    assert np.unique(scores).size > 3


def test_the_files_of_2016_may_have_both_names(tmp_path):
    # Bug: one file named as in SentEval hid all that have the organisers' names.
    for subset, score in (("headlines", "1"), ("plagiarism", "2"), ("postediting", "3")):
        year(tmp_path, f"{score}\n{score}\n", pairs=2, subset=subset)
    folder = tmp_path / "STS" / "STS16-en-test"
    for path in [*folder.glob("*headlines*"), folder / "STS.input.postediting.txt"]:
        path.rename(folder / path.name.replace("STS.", "STS2016."))
    subsets = load_task("sts16", tmp_path).subsets
    assert {name: list(pairs.scores) for name, pairs in subsets.items()} == {
        "headlines": [1, 1],
        "plagiarism": [2, 2],
        "postediting": [3, 3],
    }
    # The same under both names is one subset; two versions of it are not chosen between.
    copied = folder / "STS2016.gs.plagiarism.txt"
    copied.write_text("2\n2\n")
    assert load_task("sts16", tmp_path).pairs == 6
    copied.write_text("2\n4\n")
    with pytest.raises(DataError, match=r"STS2016\.gs\.plagiarism\.txt beside it.*different lines"):
        load_task("sts16", tmp_path)
    copied.unlink()
    (folder / "STS2016.gs.headlines.txt").unlink()
    with pytest.raises(DataNotFoundError, match=r"STS2016\.gs\.headlines\.txt"):
        load_task("sts16", tmp_path)
