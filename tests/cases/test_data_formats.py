"""Data files that broke other readers, in every format. Each test names the bug it catches."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sts_made import SICK_HEADER, stsb_row, write

from bertflow_jax.config import DataConfig
from bertflow_jax.data.glue import load_glue_task
from bertflow_jax.data.rows import open_rows
from bertflow_jax.data.sts import load_task
from bertflow_jax.data.supervision import load_training_pairs
from bertflow_jax.data.text import load_text
from bertflow_jax.errors import DataError
from bertflow_jax.supervision_config import SupervisionConfig

ROOT = Path(__file__).parents[2]
REAL = ROOT.parent / "shared" / "sts"
needs_real_data = pytest.mark.skipif(
    not REAL.is_dir(), reason="the STS data sets are not at ../shared/sts"
)
SICK_12 = "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score"
SICK_12 += "".join(f"\tx{i}" for i in range(6)) + "\tSemEval_set"
# Format -> (file, header or "", row of {a}, {b}): all but .jsonl and .csv are tabs without quoting.
FORMATS = {
    "sts-b": ("STSBenchmark/sts-test.csv", "", "g\tf\ty\t1\t3\t{a}\t{b}"),
    "sick": ("SICK/SICK_test_annotated.txt", SICK_HEADER, "1\t{a}\t{b}\t3\tNEUTRAL"),
    "sick-12": ("SICK/SICK.txt", SICK_12, "1\t{a}\t{b}\tNEUTRAL\t3" + "\tx" * 6 + "\tTEST"),
    "year": ("STS/STS16-en-test/STS.input.headlines.txt", "", "{a}\t{b}"),
    "qnli": ("QNLI/dev.tsv", "index\tquestion\tsentence\tlabel", "0\t{a}\t{b}\tentailment"),
    "qqp": ("QQP/dev.tsv", "id\tquestion1\tquestion2\tis_duplicate", "0\t{a}\t{b}\t1"),
    "mrpc": ("MRPC/dev.tsv", "Quality\t#1 String\t#2 String", "1\t{a}\t{b}"),
    "msr": ("MRPC/msr_paraphrase_test.txt", "Quality\t#1 String\t#2 String", "1\t{a}\t{b}"),
    "glue-sts-b": ("STS-B/dev.tsv", "index\tsentence1\tsentence2\tscore", "0\t{a}\t{b}\t3"),
    "nli.tsv": ("nli.tsv", "sentence1\tsentence2\tlabel", "{a}\t{b}\tneutral"),
    "nli.jsonl": ("nli.jsonl", "", "jsonl"),
    "nli.csv": ("nli.csv", "sentence1,sentence2,label", "csv"),
    "scores.tsv": ("scores.tsv", "sentence1\tsentence2\tscore", "{a}\t{b}\t3"),
    "flow.tsv": ("flow.tsv", "s1\ts2", "{a}\t{b}"),
    "flow.csv": ("flow.csv", "sentence1,sentence2,label", "csv"),
    "rows.txt": ("rows.txt", "", "{a}"),
    "rows.tsv": ("rows.tsv", "id\ttext", "0\t{a}"),
    "rows.csv": ("rows.csv", "text,sentence2,label", "csv"),
    "rows.jsonl": ("rows.jsonl", "", "jsonl"),
}
UNQUOTED = [name for name, (*_, row) in FORMATS.items() if "{a}" in row]


WORDS = ["NA", "null", "None", "nan", "N/A", "", "1e5"]


def csv_line(fields):
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()


def write_pairs(folder, kind, pairs, change=lambda data: data):
    """Write pairs in a format, the bytes of the file changed; returns its path."""
    name, header, row = FORMATS[kind]
    lines = [header] if header else []
    for a, b in pairs:
        if row == "jsonl":
            lines.append(
                json.dumps({"text": a, "sentence1": a, "sentence2": b, "label": "neutral"})
            )
        else:
            lines.append(csv_line([a, b, "neutral"]) if row == "csv" else row.format(a=a, b=b))
    if kind == "year":
        gold = change(("3\n" * len(pairs)).encode())
        write(folder / "STS/STS16-en-test/STS.gs.headlines.txt", gold)
    return write(folder / name, change("".join(f"{line}\n" for line in lines).encode()))


def read_firsts(folder, kind, encoding="utf-8"):
    """Read a format as its command does; returns the first sentences."""
    path = folder / FORMATS[kind][0]
    if kind.startswith("rows"):
        column = "" if kind.endswith("txt") else "text"
        return [row.text for row in open_rows(path, column=column, encoding=encoding)]
    if kind.startswith("flow"):
        columns = "s1,s2" if kind.endswith("tsv") else "sentence1,sentence2"
        text = DataConfig(path=str(path), columns=columns, encoding=encoding)
        return [first for first, _ in load_text(text).examples]
    if kind.startswith(("nli", "scores")):
        loss = "siamese" if kind.startswith("nli") else "regression"
        config = SupervisionConfig(path=str(path), score_range="0,5", encoding=encoding)
        return load_training_pairs(config, loss).sentences1
    if kind in ("qnli", "qqp", "mrpc", "msr", "glue-sts-b"):
        task = {"msr": "mrpc", "glue-sts-b": "stsb"}.get(kind, kind)
        split = ["test" if kind == "msr" else "dev"]
        (pairs,) = load_glue_task(task, folder, split, encoding).subsets.values()
        return pairs.sentences1
    task = {"sts-b": "stsb", "year": "sts16"}.get(kind, "sickr")
    (pairs,) = load_task(task, folder, encoding=encoding).subsets.values()
    return pairs.sentences1


@pytest.mark.parametrize("kind", UNQUOTED)
def test_d01_quotes_are_text_in_every_table(tmp_path, kind):
    """Bug: one of the readers with CSV's rules: rows between two quotes lost, quotes taken off."""
    pairs = [("a", "b"), ('"open', "c"), ("d", "e"), ("f", 'g "'), ('"closed" a', "h")]
    write_pairs(tmp_path, kind, pairs)
    assert read_firsts(tmp_path, kind) == [first for first, _ in pairs]


@pytest.mark.parametrize("kind", list(FORMATS))
def test_d05_bom_and_crlf_in_every_format(tmp_path, kind):
    """Bug: one of the readers with a mark in its first field, or a \\r in its last."""
    pairs = [("one", "two"), ("caf\xe9", "three"), ("four", "five")]
    write_pairs(tmp_path, kind, pairs, lambda data: b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"))
    assert read_firsts(tmp_path, kind) == ["one", "caf\xe9", "four"]


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if not kind.endswith("jsonl")])
def test_d05_latin_1_in_every_format(tmp_path, kind):
    """Bug: one of the readers that replaces what it cannot decode, or names no file and no line."""
    pairs = [("one", "two"), ("caf\xe9", "three")]
    path = write_pairs(tmp_path, kind, pairs, lambda data: data.decode().encode("latin-1"))
    line = 2 + bool(FORMATS[kind][1])
    with pytest.raises(DataError, match=rf"{path.name}, line {line}\b.*0xE9.*--encoding"):
        read_firsts(tmp_path, kind)
    assert read_firsts(tmp_path, kind, "latin-1") == ["one", "caf\xe9"]


TRAIN = ["--workdir=out", "--config={root}/configs/text.py", "--config.data.path=bad.txt"]
EMBED = ["-m", "bertflow_jax.embed", "--encoder=mini_bert", "--input=bad.txt", "--output=out.npy"]
SCORE = ["--encoder=mini_bert", "--tasks=stsb", "--data_dir=.", "--output=out"]


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (["{root}/train.py", *TRAIN], "bad.txt, line 2"),
        (["{root}/evaluate.py", *SCORE], "sts-test.csv, line 1"),
        (EMBED, "bad.txt, line 2"),
    ],
    ids=["train.py", "evaluate.py", "embed"],
)
def test_d05_the_commands_name_the_byte_in_a_c_locale(tmp_path, command, place):
    """Bug: a traceback, or a reader that takes the locale's encoding, and so other text."""
    write(tmp_path / "bad.txt", b"na\xc3\xafve\ncaf\xe9\n")
    write(tmp_path / "STSBenchmark" / "sts-test.csv", stsb_row("caf\xe9", "b").encode("latin-1"))
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment |= {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    answer = subprocess.run(
        [sys.executable, *(word.format(root=ROOT) for word in command)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 2, answer.stderr
    assert "Traceback" not in answer.stderr
    assert f"{place}: byte 0xE9" in answer.stderr
    assert "--encoding of a command" in answer.stderr


@pytest.mark.parametrize("task", ["score", "classes"])
def test_d06_the_twelve_columns_by_name_for_scores_and_classes(tmp_path, task):
    """Bug: the label before the score: positions of the five columns give the one for the other."""
    rows = ["7\ta\tb\tENTAILMENT\t4.5", "8\tc\td\tCONTRADICTION\t1.5"]
    text = "".join(f"{row}" + "\tx" * 6 + "\tTRAIN\n" for row in rows)
    write(tmp_path / "SICK" / "SICK.txt", f"{SICK_12}\n{text}")
    config = SupervisionConfig(path=str(tmp_path), task="sickr")
    if task == "score":
        assert list(load_task("sickr", tmp_path, ["train"]).subsets["train"].scores) == [4.5, 1.5]
        # 4.5 and 1.5 from SICK's range of 1 to 5.
        assert load_training_pairs(config, "regression").targets.tolist() == [0.875, 0.125]
    else:
        assert load_training_pairs(config, "siamese").targets.tolist() == [0, 2]


@needs_real_data
def test_d06_the_twelve_columns_of_the_real_rows(tmp_path):
    """Bug: rows of the two layouts that differ. The test file holds 4927 rows."""
    lines = (REAL / "SICK" / "SICK_test_annotated.txt").read_text("utf-8").split("\n")
    fields = [line.rstrip("\r").split("\t") for line in lines[1:] if line]
    rows = [
        "\t".join([key, a, b, label, score, *("x" * 6), "TEST"])
        for key, a, b, score, label in fields
    ]
    write(tmp_path / "SICK" / "SICK.txt", "\n".join([SICK_12, *rows]) + "\n")
    twelve, five = load_task("sickr", tmp_path), load_task("sickr", REAL)
    assert twelve.pairs == 4927
    assert twelve.sha256 == five.sha256


@pytest.mark.parametrize("kind", ["sick-12", "qnli", "qqp", "mrpc", "glue-sts-b", "nli.tsv"])
def test_d06_no_header_is_refused_and_no_row_lost(tmp_path, kind):
    """Bug: line 1 skipped whatever it is."""
    path = write_pairs(tmp_path, kind, [("a", "b"), ("c", "d")])
    path.write_text(path.read_text().split("\n", 1)[1])
    with pytest.raises(DataError, match=rf"{path.name}, line 1: no column"):
        read_firsts(tmp_path, kind)


@pytest.mark.parametrize("kind", list(FORMATS))
def test_d07_words_stay_words_in_every_format(tmp_path, kind):
    """Bug: one of the readers that takes "NA" for nothing, or 1e5 for a number."""
    words = [*WORDS, "True", "-", "#N/A", " x "]
    write_pairs(tmp_path, kind, [(word, f"other {i}") for i, word in enumerate(words)])
    assert read_firsts(tmp_path, kind) == words


@pytest.mark.parametrize("kind", ["year", "sick", "sick-12", "glue-sts-b", "scores.tsv"])
@pytest.mark.parametrize("score", ["nan", "NA", "null", "1e999"])
def test_d07_a_score_that_is_none_names_its_line(tmp_path, kind, score):
    """Bug: one of the readers that scores NaN, which makes every correlation NaN."""
    path = write_pairs(tmp_path, kind, [("a", "b"), ("c", "d")])
    if kind == "year":
        path = write(path.with_name("STS.gs.headlines.txt"), f"3\n{score}\n")
    else:
        start, _, rest = path.read_text().rpartition("\t3")
        path.write_text(f"{start}\t{score}{rest}")
    line = 2 + bool(FORMATS[kind][1])
    with pytest.raises(
        DataError, match=rf"{path.name}, line {line}: (gold )?score {score!r} is not"
    ):
        read_firsts(tmp_path, kind)


def test_d09_one_row_a_text_however_often_it_occurs():
    """Bug: texts deduplicated for speed, and fewer vectors than texts, or in another order."""
    from bertflow_jax.embed import SentenceEncoder

    encoder = SentenceEncoder.from_pretrained("mini_bert", max_length=16)
    texts = ["a dog", "the cat sat", "a dog", "", "the cat sat", "a dog"]
    vectors = encoder.encode(texts)
    distinct = encoder.encode(["a dog", "the cat sat", ""])
    np.testing.assert_allclose(vectors, distinct[[0, 1, 0, 2, 1, 0]], atol=1e-5)
