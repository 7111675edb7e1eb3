"""STS readers. Each test names the bug it catches."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax.data.lines import read_lines
from bertflow_jax.data.sts import EVERYDAY, load_task
from bertflow_jax.errors import BertFlowError, ConfigError, DataError, DataNotFoundError

REAL = Path(__file__).parents[2].parent / "shared" / "sts"
needs_real_data = pytest.mark.skipif(
    not REAL.is_dir(), reason="the STS data sets are not at ../shared/sts"
)
SICK_HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"


def stsb_row(sentence1, sentence2, score="2.500", extra=""):
    return f"news\tfile\t2012\t0001\t{score}\t{sentence1}\t{sentence2}{extra}\n"


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def year(root, gold, pairs=5, subset="headlines", name="STS16-en-test"):
    lines = "".join(f"left {i}\tright {i}\n" for i in range(1, pairs + 1))
    write(root / "STS" / name / f"STS.input.{subset}.txt", lines)
    write(root / "STS" / name / f"STS.gs.{subset}.txt", gold)


def test_quotes_are_text(tmp_path):
    # Bug: CSV quoting reads from an open quote to the next one and swallows the rows between.
    rows = [("a", "b"), ('"open', "c"), ("d", "e"), ("f", "g"), ('"closed" a', "h")]
    write(tmp_path / "STSBenchmark" / "sts-test.csv", "".join(stsb_row(*row) for row in rows))
    pairs = load_task("stsb", tmp_path).subsets["test"]
    assert list(zip(pairs.sentences1, pairs.sentences2, strict=True)) == rows


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blank_gold_is_not_scored_and_shifts_nothing(tmp_path, end):
    # Bug: blanks read as 0, or dropped before pairing so that labels move up.
    year(tmp_path, end.join(["3.00", "", "0.60", "", "1.00", ""]))
    task = load_task("sts16", tmp_path)
    pairs = task.subsets["headlines"]
    assert pairs.sentences1 == ["left 1", "left 3", "left 5"]
    assert pairs.sentences2 == ["right 1", "right 3", "right 5"]
    np.testing.assert_array_equal(pairs.scores, [3.0, 0.6, 1.0])
    assert "2 of 5 pairs have a blank gold score" in " ".join(task.notes)


def test_blank_last_gold_line_is_kept_for_pairing(tmp_path):
    # Bug: stripping the file's end drops the last blank gold line and reports unequal counts.
    year(tmp_path, "3.00\n\n1.00\n2.00\n\n")
    assert load_task("sts16", tmp_path).pairs == 3


def test_unequal_line_counts_name_both(tmp_path):
    # Bug: zip() stops at the shorter file without a word.
    year(tmp_path, "3.00\n\n0.60\n1.00\n")
    with pytest.raises(DataError, match=r"STS\.gs\.headlines\.txt has 4 lines.*has 5"):
        load_task("sts16", tmp_path)


def test_missing_gold_file_is_named(tmp_path):
    # Bug: a subset without gold file vanishes from the average.
    year(tmp_path, "1\n" * 5)
    (tmp_path / "STS" / "STS16-en-test" / "STS.gs.headlines.txt").unlink()
    with pytest.raises(DataNotFoundError, match=r"STS\.gs\.headlines\.txt"):
        load_task("sts16", tmp_path)


def test_sts13_leaves_smt_out_unless_asked(tmp_path):
    # Bug: SMT counted where it happens to lie on disk, so two machines give two STS13 scores.
    for subset in ("FNWN", "headlines", "OnWN", "SMT"):
        year(tmp_path, "1\n2\n", pairs=2, subset=subset, name="STS13-en-test")
    assert sorted(load_task("sts13", tmp_path).subsets) == ["FNWN", "OnWN", "headlines"]
    assert "SMT" in load_task("sts13", tmp_path, smt=True).subsets
    assert "SMT subset is left out" in " ".join(load_task("sts13", tmp_path).notes)


def test_missing_and_extra_subsets_are_noted(tmp_path):
    # Bug: a half-downloaded year scored as if it were the published one.
    year(tmp_path, "1\n2\n", pairs=2, subset="headlines", name="STS15-en-test")
    year(tmp_path, "1\n2\n", pairs=2, subset="mine", name="STS15-en-test")
    year(tmp_path, "1\n2\n", pairs=2, subset="ALL", name="STS15-en-test")
    task = load_task("sts15", tmp_path)
    assert sorted(task.subsets) == ["headlines", "mine"]
    notes = " ".join(task.notes)
    assert "answers-forums, answers-students, belief, images are missing" in notes
    assert "mine are not part" in notes


def test_bom_and_carriage_returns_are_removed(tmp_path):
    # Bug: the mark sticks to the first header or number, \r to the last sentence.
    text = f"{SICK_HEADER}\r\n1\ta\tb\t4.5\tNEUTRAL\r\n"
    write(tmp_path / "SICK" / "SICK_test_annotated.txt", b"\xef\xbb\xbf" + text.encode())
    pairs = load_task("sickr", tmp_path).subsets["test"]
    assert (pairs.sentences1, pairs.sentences2, list(pairs.scores)) == (["a"], ["b"], [4.5])
    year(tmp_path, b"\xef\xbb\xbf4.2\r\n1\r\n", pairs=2)
    np.testing.assert_array_equal(
        load_task("sts16", tmp_path).subsets["headlines"].scores, [4.2, 1]
    )


def test_invalid_bytes_name_file_line_and_byte(tmp_path):
    # Bug: replacement characters, or a locale's codec, put in silently.
    path = write(tmp_path / "STSBenchmark" / "sts-test.csv", stsb_row("a", "b"))
    path.write_bytes(path.read_bytes() + stsb_row("caf\xe9", "b").encode("latin-1"))
    with pytest.raises(DataError, match=r"sts-test\.csv, line 2: byte 0xE9.*--encoding"):
        load_task("stsb", tmp_path)
    decoded = load_task("stsb", tmp_path, encoding="latin-1").subsets["test"]
    assert decoded.sentences1 == ["a", "caf\xe9"]


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


def test_sick_twelve_columns_are_read_by_name_and_set(tmp_path):
    # Bug: fixed positions read the entailment label as the score of the 12-column file.
    header = "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score"
    header += "".join(f"\tx{i}" for i in range(6)) + "\tSemEval_set\n"
    rows = "".join(
        f"{i}\ta{i}\tb{i}\tNEUTRAL\t{score}" + "\tx" * 6 + f"\t{part}\n"
        for i, (score, part) in enumerate([(4.5, "TRAIN"), (3.5, "TRIAL"), (2.5, "TEST")])
    )
    write(tmp_path / "SICK" / "SICK.txt", header + rows)
    for split, expected in (("train", 4.5), ("dev", 3.5), ("test", 2.5)):
        assert list(load_task("sickr", tmp_path, [split]).subsets[split].scores) == [expected]


def test_sick_without_header_is_refused(tmp_path):
    # Bug: line 1 skipped blindly loses a pair.
    write(tmp_path / "SICK" / "SICK_test_annotated.txt", "1\ta\tb\t4.5\tNEUTRAL\n")
    with pytest.raises(DataError, match="line 1: no column sentence_A, sentence_B"):
        load_task("sickr", tmp_path)


WORDS = ["NA", "null", "None", "nan", "N/A", "", "1e5"]


def test_words_that_look_missing_stay_words(tmp_path):
    # Bug: pandas-like readers turn "NA" into a float NaN.
    rows = "".join(stsb_row(word, word) for word in WORDS)
    write(tmp_path / "STSBenchmark" / "sts-test.csv", rows)
    lines = [f"{i}\t{word}\t{word}\t3.0\tNEUTRAL" for i, word in enumerate(WORDS)]
    write(tmp_path / "SICK" / "SICK_test_annotated.txt", "\n".join([SICK_HEADER, *lines]) + "\n")
    for task in ("stsb", "sickr"):
        pairs = load_task(task, tmp_path).subsets["test"]
        assert pairs.sentences1 == WORDS
        assert pairs.sentences2 == WORDS


@pytest.mark.parametrize("score", ["nan", "NA", "inf", "5.1", "-1", "NEUTRAL", "0_5", "٣"])
def test_impossible_score_names_its_line(tmp_path, score):
    # Bug: NaN gold scores make every correlation NaN; a wrong column is read as the score.
    rows = stsb_row("a", "b") + stsb_row("c", "d", score)
    write(tmp_path / "STSBenchmark" / "sts-test.csv", rows)
    with pytest.raises(DataError, match=r"sts-test\.csv, line 2: gold score"):
        load_task("stsb", tmp_path)


def test_every_scored_row_is_kept(tmp_path):
    # Bug: repeated pairs dropped, so that numbers do not compare (1379 -> 1362).
    rows = stsb_row("a", "b") + stsb_row("b", "a") + stsb_row("a", "b", extra="\tsource\tsource")
    write(tmp_path / "STSBenchmark" / "sts-test.csv", rows)
    task = load_task("stsb", tmp_path)
    assert task.pairs == 3
    assert task.sentences == ["a", "b"]


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
def test_published_sizes(task, split, size):
    # Bug: any reader that loses, merges or invents rows of the real files.
    assert load_task(task, REAL, [split]).pairs == size
