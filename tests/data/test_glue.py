"""QNLI, MRPC, QQP and STS-B in GLUE's own files. Each test names the bug it catches."""

import dataclasses

import numpy as np
import pytest

from bertflow_jax.config import DataConfig
from bertflow_jax.data.glue import BINARY_TASKS, BinaryTask, holds_glue_stsb, load_glue_task
from bertflow_jax.data.glue_files import GlueFolder
from bertflow_jax.data.text import load_text
from bertflow_jax.errors import BertFlowError, DataError, DataNotFoundError

QNLI = "index\tquestion\tsentence\tlabel"
QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
MRPC_TEST = "index\t#1 ID\t#2 ID\t#1 String\t#2 String"
STSB = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore"


def write(folder, name, *lines, start="", end="\n"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes((start + end.join(lines) + end).encode("utf-8"))


def texts(pairs):
    return list(zip(pairs.sentences1, pairs.sentences2, strict=True))


@pytest.fixture
def glue(tmp_path):
    """Tiny folders in GLUE's layout; quotes, as in the real files, are part of the text."""
    qnli = [
        '0\tWhat is "flow"?\t"A flow is invertible.\tentailment',
        "1\tWho?\tNobody came\u2028today.\tnot_entailment",
        '2\tWhere?\t"In the ""north"" of it.\tnot_entailment',
    ]
    write(tmp_path / "QNLI", "dev.tsv", QNLI, *qnli, end="\r\n", start="\ufeff")
    write(tmp_path / "QNLI", "train.tsv", QNLI, "0\tWhy?\tSo.\tentailment", "1\tA\tB\tentailment")
    write(tmp_path / "QNLI", "test.tsv", "index\tquestion\tsentence", "0\tWhen?\tNow.")
    write(tmp_path / "QQP", "dev.tsv", QQP, "1\t3\t4\tIs it?\tIs it so?\t1", "2\t5\t6\tA?\tB?\t0")
    write(tmp_path / "QQP", "test.tsv", "id\tquestion1\tquestion2", "0\tA?\tB?")
    write(tmp_path / "MRPC", "train.tsv", MRPC, "1\t1\t2\tA rose.\tOne rose.", "0\t3\t4\tC\tD")
    write(tmp_path / "MRPC", "dev.tsv", MRPC, '1\t5\t6\t"E\tF"', "0\t7\t8\tG\tH")
    write(tmp_path / "MRPC", "test.tsv", MRPC_TEST, "0\t9\t10\tI\tJ")
    return tmp_path


def test_qnli_rows_are_the_files(glue):
    # Bug: quotes swallow lines or vanish; a line broken at U+2028; entailment as label 0; a byte
    # order mark or a carriage return in a name.
    task = load_glue_task("qnli", glue)
    assert isinstance(task, BinaryTask)
    assert texts(task.subsets["dev"]) == [
        ('What is "flow"?', '"A flow is invertible.'),
        ("Who?", "Nobody came\u2028today."),
        ("Where?", '"In the ""north"" of it.'),
    ]
    np.testing.assert_array_equal(task.subsets["dev"].scores, [1, 0, 0])
    assert (task.pairs, task.split, task.threshold_from) == (3, "dev", "dev")
    assert task.notes[0].startswith("dev has 3 scored pairs instead of 5463: ")
    assert "upper bounds" in task.notes[1]


def test_qqp_and_mrpc_labels(glue):
    # Bug: the label read from the first or last column whatever the header says.
    np.testing.assert_array_equal(load_glue_task("qqp", glue).subsets["dev"].scores, [1, 0])
    train = load_glue_task("mrpc", glue, ["train"])
    np.testing.assert_array_equal(train.subsets["train"].scores, [1, 0])
    assert texts(train.subsets["train"])[0] == ("A rose.", "One rose.")


def test_default_splits(glue):
    # Bug: the unlabelled test split asked for by default; MRPC's labelled one not used.
    assert {task: load_glue_task(task, glue).split for task in BINARY_TASKS} == {
        "qnli": "dev",
        "qqp": "dev",
        "mrpc": "dev",
    }
    write(glue / "MRPC", "msr_paraphrase_test.txt", MRPC, "1\t9\t10\tI\tJ", "0\t1\t2\tK\tL")
    task = load_glue_task("mrpc", glue)
    (note,) = task.notes
    assert note == "test has 2 scored pairs instead of 1725: not comparable with published scores"
    assert (task.split, task.threshold_from) == ("test", "dev")
    assert texts(task.threshold_pairs)[0] == ('"E', 'F"')
    assert set(task.sentences) == {"I", "J", "K", "L", '"E', 'F"', "G", "H"}


def test_mrpc_as_it_was_published(tmp_path):
    # Bug: the original's byte order mark hides its label column; no dev, so no threshold.
    write(tmp_path, "msr_paraphrase_train.txt", MRPC, '1\t1\t2\tA "b\tC', start="\ufeff")
    write(tmp_path, "msr_paraphrase_test.txt", MRPC, "0\t3\t4\tD\tE", "1\t5\t6\tF\tG")
    folder = tmp_path.rename(tmp_path.with_name("MRPC"))
    task = load_glue_task("mrpc", folder)
    assert texts(task.subsets["test"]) == [("D", "E"), ("F", "G")]
    np.testing.assert_array_equal(task.subsets["test"].scores, [0, 1])
    assert task.threshold_from == "train"
    assert texts(task.threshold_pairs) == [('A "b', "C")]
    with pytest.raises(DataNotFoundError, match=r"dev\.tsv: no such file"):
        load_glue_task("mrpc", folder, ["dev"])


def test_a_labelled_test_tsv_is_taken_before_the_original(glue):
    # Bug: which of two files was read depends on the folder's order.
    write(glue / "MRPC", "msr_paraphrase_test.txt", MRPC, "1\t9\t10\tI\tJ")
    write(glue / "MRPC", "test.tsv", MRPC, "0\t9\t10\tX\tY", "1\t9\t10\tX\tZ")
    assert texts(load_glue_task("mrpc", glue).subsets["test"]) == [("X", "Y"), ("X", "Z")]


def test_several_splits_are_one_set_and_part_of_it_may_choose_thresholds(glue):
    # Bug: only the first split read, or scores called honest that saw their thresholds.
    task = load_glue_task("qnli", glue, ["train", "dev"])
    assert (task.pairs, task.split, task.threshold_from) == (5, "train+dev", "dev")
    assert len(task.threshold_pairs) == 3
    assert "chosen on dev, which is scored too" in task.notes[1]


def test_the_digest_tells_tasks_apart(glue):
    # Bug: a changed label or text with the same digest.
    before = load_glue_task("qqp", glue).sha256
    write(glue / "QQP", "dev.tsv", QQP, "1\t3\t4\tIs it?\tIs it so?\t0", "2\t5\t6\tA?\tB?\t0")
    assert load_glue_task("qqp", glue).sha256 != before


@pytest.mark.parametrize(("task", "place"), [("qnli", "QNLI"), ("qqp", "QQP"), ("mrpc", "MRPC")])
def test_an_unlabelled_test_is_a_clear_error(glue, task, place):
    # Bug: all pairs scored as label 0, or a KeyError.
    with pytest.raises(DataError, match=rf"{place}.test\.tsv, line 2: no label.*--splits=dev"):
        load_glue_task(task, glue, ["test"])


def test_labels_of_minus_one_are_none(glue):
    # Bug: -1, which some distributions write for a label held back, taken as label 0.
    write(glue / "QQP", "test.tsv", QQP, "0\t1\t2\tA?\tB?\t-1")
    with pytest.raises(DataError, match=r"test\.tsv, line 2: no label"):
        load_glue_task("qqp", glue, ["test"])


def test_broken_lines_of_qqp_are_skipped_and_counted(glue):
    # Bug: the official file, where a line end inside a question cuts some rows in two, cannot be
    # read; or the halves are read as pairs; or the count of pairs is silently another.
    rows = [
        "1\t3\t4\tIs it?\tIs it so?\t1",
        '2\t5\t6\t"Was he',
        '"\tWas he?\t0',
        "3\t7\t8\tA\tB\t0",
    ]
    write(glue / "QQP", "train.tsv", QQP, *rows)
    task = load_glue_task("qqp", glue, ["train"])
    assert texts(task.subsets["train"]) == [("Is it?", "Is it so?"), ("A", "B")]
    assert task.notes == (
        "train: 2 lines with a wrong number of columns skipped, as the official release has such "
        "lines (first: line 3)",
    )


def test_blank_lines_are_no_rows(glue):
    # Bug: an empty line at the end of a file, which editors leave, is a row of too few columns.
    write(glue / "QNLI", "dev.tsv", QNLI, "0\tA\tB\tentailment", "", "1\tC\tD\tentailment", "")
    write(glue / "QQP", "dev.tsv", QQP, "1\t3\t4\tA?\tB?\t1", "")
    assert load_glue_task("qnli", glue).pairs == 2
    assert "wrong number of columns" not in " ".join(load_glue_task("qqp", glue).notes)


def test_a_file_of_broken_lines_is_an_error(glue):
    # Bug: a damaged download scored on what happens to be left.
    rows = ["1\t3\t4\tA\tB\t1"] * 20 + ["1\t3\t4\tA\tB"] * 11
    write(glue / "QQP", "dev.tsv", QQP, *rows)
    with pytest.raises(DataError, match=r"QQP.dev\.tsv: 11 of 31 lines \(first: line 22\)"):
        load_glue_task("qqp", glue)


@pytest.mark.parametrize(
    ("task", "name", "lines", "message"),
    [
        ("qnli", "dev.tsv", [QNLI, "0\tA\tB\tentailment", "1\tA\tB"], "line 3: 3 columns"),
        ("qnli", "dev.tsv", [QNLI, "0\tA\tB\tC\tentailment"], "line 2: 5 columns"),
        ("qnli", "dev.tsv", [QNLI, "0\tA\tB\tmaybe"], "line 2: label 'maybe' is neither"),
        ("qnli", "dev.tsv", [QNLI, "0\tA\tB\t1"], "line 2: label '1' is neither 'entailment'"),
        ("qnli", "dev.tsv", [QNLI, "0\tA\tB\t "], "line 2: no label"),
        ("qnli", "dev.tsv", ["0\tA\tB\tentailment"], "line 1: no column question, sentence"),
        ("qnli", "dev.tsv", [QNLI], "no pair of split dev"),
        ("qqp", "dev.tsv", [QNLI, "0\tA\tB\tentailment"], "line 1: no column question1"),
        ("qqp", "dev.tsv", [QQP, "1\t2\t3\tA\tB\t0.5"], "line 2: label '0.5'"),
        ("mrpc", "dev.tsv", [MRPC, "1\t1\t2\tA"], "line 2: 4 columns"),
    ],
)
def test_damaged_files_name_file_and_line(glue, task, name, lines, message):
    # Bug: IndexError, a row dropped without a word, or the wrong column taken for the label.
    folder = glue / task.upper()
    write(folder, name, *lines)
    with pytest.raises(DataError) as caught:
        load_glue_task(task, glue, ["dev"])
    assert message in str(caught.value)
    assert str(folder / name) in str(caught.value)


def test_the_tasks_own_folder_and_missing_ones(glue, tmp_path):
    # Bug: MRPC read from the folder of QNLI, as the files of all sets have the same names.
    assert load_glue_task("qnli", glue / "QNLI").pairs == 3
    with pytest.raises(DataNotFoundError, match=r"holds no data of mrpc \(looked for .*MRPC"):
        load_glue_task("mrpc", glue / "QNLI")
    with pytest.raises(DataNotFoundError, match="no such folder of GLUE data"):
        load_glue_task("mrpc", tmp_path / "missing")
    for folder in (None, " "):
        with pytest.raises(DataError, match="give --data_dir"):
            load_glue_task("mrpc", folder)
    with pytest.raises(DataError, match="unknown GLUE task 'rte'"):
        load_glue_task("rte", glue)


@pytest.mark.parametrize("splits", [(), ("validation",), ("dev", "dev")])
def test_impossible_splits(glue, splits):
    # Bug: pairs counted twice, or an empty task.
    with pytest.raises(BertFlowError, match="--splits="):
        load_glue_task("qnli", glue, splits)


def test_stsb_in_glues_layout(tmp_path):
    # Bug: SentEval's columns assumed; the held-back test scored.
    folder = tmp_path / "STS-B"
    row = '0\tg\tf\t2012\t1\tnone\tnone\tA "plane\tAn air plane\t4.250'
    write(folder, "dev.tsv", STSB, row, row.replace("4.250", "0"))
    write(folder, "test.tsv", STSB.removesuffix("\tscore"), row.removesuffix("\t4.250"))
    assert holds_glue_stsb(tmp_path)
    assert holds_glue_stsb(folder)
    task = load_glue_task("stsb", tmp_path)
    assert not isinstance(task, BinaryTask)
    assert texts(task.subsets["dev"])[0] == ('A "plane', "An air plane")
    np.testing.assert_array_equal(task.subsets["dev"].scores, [4.25, 0])
    with pytest.raises(DataError, match=r"test\.tsv, line 2: no label"):
        load_glue_task("stsb", tmp_path, ["test"])
    write(folder, "dev.tsv", STSB, row.replace("4.250", "6"))
    with pytest.raises(DataError, match=r"dev\.tsv, line 2: gold score '6'"):
        load_glue_task("stsb", tmp_path)
    (tmp_path / "STSBenchmark").mkdir()
    assert not holds_glue_stsb(tmp_path)


def test_unlabelled_rows_can_be_read_for_their_text(glue):
    # Bug: the text of test splits, which the paper fits flows on, cannot be read without labels.
    found = GlueFolder("qnli", glue / "QNLI").read("test")
    assert [(row.sentence1, row.sentence2, row.gold) for row in found.rows] == [
        ("When?", "Now.", "")
    ]


def test_the_text_of_a_set_is_text_for_a_flow(tmp_path):
    """Catches labels read as text, and a test split refused for having no labels."""
    folder = tmp_path / "QNLI"
    folder.mkdir()
    (folder / "train.tsv").write_text(
        'index\tquestion\tsentence\tlabel\n0\tWho?\tA "man".\tentailment\n'
    )
    (folder / "test.tsv").write_text("index\tquestion\tsentence\n0\tWhen?\tNow.\n")
    config = DataConfig(path=str(tmp_path), task="qnli", splits="train,test")
    corpus = load_text(config)
    assert corpus.examples == [("Who?", 'A "man".'), ("When?", "Now.")]
    assert corpus.manifest["splits"] == ["train", "test"]
    with pytest.raises(DataNotFoundError, match=r"QNLI/dev\.tsv"):
        load_text(dataclasses.replace(config, splits="dev"))
