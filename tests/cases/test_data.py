"""STS data that broke other readers; `test_data_formats` has the other formats. Each names its bug."""

from pathlib import Path

import numpy as np
import pytest
from sts_made import SICK_HEADER, stsb_row, write, year

from bertflow_jax.data.sts import load_task
from bertflow_jax.errors import DataError

ROOT = Path(__file__).parents[2]
REAL = ROOT.parent / "shared" / "sts"
needs_real_data = pytest.mark.skipif(
    not REAL.is_dir(), reason="the STS data sets are not at ../shared/sts"
)
WORDS = ["NA", "null", "None", "nan", "N/A", "", "1e5"]


def test_d01_quotes_are_text(tmp_path):
    """Bug: CSV quoting reads from an open quote to the next one and swallows the rows between."""
    rows = [("a", "b"), ('"open', "c"), ("d", "e"), ("f", "g"), ('"closed" a', "h")]
    write(tmp_path / "STSBenchmark" / "sts-test.csv", "".join(stsb_row(*row) for row in rows))
    pairs = load_task("stsb", tmp_path).subsets["test"]
    assert list(zip(pairs.sentences1, pairs.sentences2, strict=True)) == rows


@needs_real_data
@pytest.mark.parametrize(
    ("task", "split", "size"),
    [
        ("sts12", "test", 3108),
        ("sts13", "test", 1500),
        ("sts14", "test", 3750),
        ("sts15", "test", 3000),
        ("sts16", "test", 1186),
        ("stsb", "train", 5749),
        ("stsb", "dev", 1500),
        ("stsb", "test", 1379),
        ("sickr", "train", 4500),
        ("sickr", "dev", 500),
        ("sickr", "test", 4927),
    ],
)
def test_d01_d03_d06_published_sizes(task, split, size):
    """Bug: any reader that loses, merges or invents rows of the real files."""
    assert load_task(task, REAL, [split]).pairs == size


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_d03_blank_gold_is_not_scored_and_shifts_nothing(tmp_path, end):
    """Bug: blanks read as 0, or dropped before pairing so that labels move up."""
    year(tmp_path, end.join(["3.00", "", "0.60", "", "1.00", ""]))
    task = load_task("sts16", tmp_path)
    pairs = task.subsets["headlines"]
    assert pairs.sentences1 == ["left 1", "left 3", "left 5"]
    assert pairs.sentences2 == ["right 1", "right 3", "right 5"]
    np.testing.assert_array_equal(pairs.scores, [3.0, 0.6, 1.0])
    assert "2 of 5 pairs have a blank gold score" in " ".join(task.notes)


def test_d03_blank_last_gold_line_is_kept_for_pairing(tmp_path):
    """Bug: stripping the file's end drops the last blank gold line and reports unequal counts."""
    year(tmp_path, "3.00\n\n1.00\n2.00\n\n")
    assert load_task("sts16", tmp_path).pairs == 3


def test_d03_unequal_line_counts_name_both(tmp_path):
    """Bug: zip() stops at the shorter file without a word."""
    year(tmp_path, "3.00\n\n0.60\n1.00\n")
    with pytest.raises(DataError, match=r"STS\.gs\.headlines\.txt has 4 lines.*has 5"):
        load_task("sts16", tmp_path)


def test_d03_sts13_leaves_smt_out_unless_asked(tmp_path):
    """Bug: SMT counted where it happens to lie on disk, so two machines give two STS13 scores."""
    for subset in ("FNWN", "headlines", "OnWN", "SMT"):
        year(tmp_path, "1\n2\n", pairs=2, subset=subset, name="STS13-en-test")
    assert sorted(load_task("sts13", tmp_path).subsets) == ["FNWN", "OnWN", "headlines"]
    assert "SMT" in load_task("sts13", tmp_path, smt=True).subsets
    assert "SMT subset is left out" in " ".join(load_task("sts13", tmp_path).notes)


def test_d05_bom_and_carriage_returns_are_removed(tmp_path):
    """Bug: the mark sticks to the first header or number, \r to the last sentence."""
    text = f"{SICK_HEADER}\r\n1\ta\tb\t4.5\tNEUTRAL\r\n"
    write(tmp_path / "SICK" / "SICK_test_annotated.txt", b"\xef\xbb\xbf" + text.encode())
    pairs = load_task("sickr", tmp_path).subsets["test"]
    assert (pairs.sentences1, pairs.sentences2, list(pairs.scores)) == (["a"], ["b"], [4.5])
    year(tmp_path, b"\xef\xbb\xbf4.2\r\n1\r\n", pairs=2)
    np.testing.assert_array_equal(
        load_task("sts16", tmp_path).subsets["headlines"].scores, [4.2, 1]
    )


def test_d05_invalid_bytes_name_file_line_and_byte(tmp_path):
    """Bug: replacement characters, or a locale's codec, put in silently."""
    path = write(tmp_path / "STSBenchmark" / "sts-test.csv", stsb_row("a", "b"))
    path.write_bytes(path.read_bytes() + stsb_row("caf\xe9", "b").encode("latin-1"))
    with pytest.raises(DataError, match=r"sts-test\.csv, line 2: byte 0xE9.*--encoding"):
        load_task("stsb", tmp_path)
    decoded = load_task("stsb", tmp_path, encoding="latin-1").subsets["test"]
    assert decoded.sentences1 == ["a", "caf\xe9"]


def test_d06_sick_twelve_columns_are_read_by_name_and_set(tmp_path):
    """Bug: fixed positions read the entailment label as the score of the 12-column file."""
    header = "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score"
    header += "".join(f"\tx{i}" for i in range(6)) + "\tSemEval_set\n"
    rows = "".join(
        f"{i}\ta{i}\tb{i}\tNEUTRAL\t{score}" + "\tx" * 6 + f"\t{part}\n"
        for i, (score, part) in enumerate([(4.5, "TRAIN"), (3.5, "TRIAL"), (2.5, "TEST")])
    )
    write(tmp_path / "SICK" / "SICK.txt", header + rows)
    for split, expected in (("train", 4.5), ("dev", 3.5), ("test", 2.5)):
        assert list(load_task("sickr", tmp_path, [split]).subsets[split].scores) == [expected]


def test_d06_sick_without_header_is_refused(tmp_path):
    """Bug: line 1 skipped blindly loses a pair."""
    write(tmp_path / "SICK" / "SICK_test_annotated.txt", "1\ta\tb\t4.5\tNEUTRAL\n")
    with pytest.raises(DataError, match="line 1: no column sentence_A, sentence_B"):
        load_task("sickr", tmp_path)


def test_d07_words_that_look_missing_stay_words(tmp_path):
    """Bug: pandas-like readers turn "NA" into a float NaN."""
    rows = "".join(stsb_row(word, word) for word in WORDS)
    write(tmp_path / "STSBenchmark" / "sts-test.csv", rows)
    lines = [f"{i}\t{word}\t{word}\t3.0\tNEUTRAL" for i, word in enumerate(WORDS)]
    write(tmp_path / "SICK" / "SICK_test_annotated.txt", "\n".join([SICK_HEADER, *lines]) + "\n")
    for task in ("stsb", "sickr"):
        pairs = load_task(task, tmp_path).subsets["test"]
        assert pairs.sentences1 == WORDS
        assert pairs.sentences2 == WORDS


@pytest.mark.parametrize("score", ["nan", "NA", "inf", "5.1", "-1", "NEUTRAL", "0_5", "٣"])
def test_d07_impossible_score_names_its_line(tmp_path, score):
    """Bug: NaN gold scores make every correlation NaN; a wrong column is read as the score."""
    rows = stsb_row("a", "b") + stsb_row("c", "d", score)
    write(tmp_path / "STSBenchmark" / "sts-test.csv", rows)
    with pytest.raises(DataError, match=r"sts-test\.csv, line 2: gold score"):
        load_task("stsb", tmp_path)


def test_d09_every_scored_row_is_kept(tmp_path):
    """Bug: repeated pairs dropped, so that numbers do not compare (1379 -> 1362)."""
    rows = stsb_row("a", "b") + stsb_row("b", "a") + stsb_row("a", "b", extra="\tsource\tsource")
    write(tmp_path / "STSBenchmark" / "sts-test.csv", rows)
    task = load_task("stsb", tmp_path)
    assert task.pairs == 3
    assert task.sentences == ["a", "b"]
