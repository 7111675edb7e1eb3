"""Text for fitting a flow. Each test names the bug it catches."""

import dataclasses
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bertflow_jax.config import DataConfig
from bertflow_jax.data.sts import EVERYDAY
from bertflow_jax.data.text import TextCorpus, load_text
from bertflow_jax.errors import BertFlowError, ConfigError, DataError, DataNotFoundError

REAL = Path(__file__).parents[2].parent / "shared" / "sts"


def load(tmp_path, content, name="text.txt", **fields):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load_text(DataConfig(path=str(path), **fields))


def test_plain_text_skips_and_counts_blank_lines(tmp_path):
    # Bug: blank lines become sentences, or vanish without a trace.
    corpus = load(tmp_path, '\ufeffone "two\r\n\r\n  \nthree\none "two\n')
    assert corpus.examples == [('one "two',), ("three",), ('one "two',)]
    expected = {"examples": 3, "sentences": 3, "unique_sentences": 2, "blank_lines_skipped": 2}
    assert {key: corpus.manifest[key] for key in expected} == expected
    assert corpus.manifest["format"] == "text"
    assert corpus.manifest["unlabelled_pairs_included"] is None


def test_gz_gives_the_same_text(tmp_path):
    # Bug: compressed bytes read as text.
    plain = load(tmp_path, "a b\nc d\n")
    packed = load(tmp_path, gzip.compress(b"a b\nc d\n"), "text.txt.gz")
    assert packed.examples == plain.examples
    assert packed.manifest["sha256"] == plain.manifest["sha256"]


def test_digest_tells_pairs_from_singles_and_orders_apart(tmp_path):
    # Bug: a digest of joined text, equal for ("a", "b") and ("a b",).
    texts = ["a\tb\nc\td\n", "a\tb\nd\tc\n"]
    digests = {load(tmp_path, t, "x.tsv", columns="0,1").manifest["sha256"] for t in texts}
    digests.add(load(tmp_path, "a b\nc d\n").manifest["sha256"])
    assert len(digests) == 3


def test_tsv_quotes_are_text_and_columns_go_by_name(tmp_path):
    # Bug: an open quote swallows the lines after it.
    content = 'id\tscore\ts1\ts2\n1\t5\t"open\tx\n2\t1\t"closed" a\ty\n\n'
    corpus = load(tmp_path, content, "x.tsv", columns="s2, s1")
    assert corpus.examples == [("x", '"open'), ("y", '"closed" a')]
    assert corpus.manifest["columns"] == ["s2", "s1"]
    assert corpus.manifest["blank_lines_skipped"] == 1


def test_column_numbers_mean_no_header(tmp_path):
    # Bug: the first pair lost as a header that is not there.
    assert load(tmp_path, "1\ta\tb\n2\tc\td\n", "x.tsv", columns="1").examples == [("a",), ("c",)]


def test_a_name_beside_a_number_means_a_header(tmp_path):
    # Bug: the header becomes a sentence.
    assert load(tmp_path, "s1\ts2\na\tb\n", "x.tsv", columns="s2,0").examples == [("b", "a")]


def test_csv_has_standard_quoting(tmp_path):
    # Bug: a comma or line end inside quotes splits the field.
    content = 's1,s2\n"a, ""b""","c\n\nd"\ne,f\n'
    corpus = load(tmp_path, content, "x.csv", columns="s1,s2")
    assert corpus.examples == [('a, "b"', "c\n\nd"), ("e", "f")]
    assert corpus.manifest["blank_lines_skipped"] == 0


def test_words_that_look_missing_stay_words(tmp_path):
    # Bug: pandas-like readers turn "NA" into a float NaN.
    words = ["NA", "null", "None", "nan", "N/A", "1e5"]
    corpus = load(tmp_path, "\n".join(["s", *words]) + "\n", "x.csv", columns="s")
    assert corpus.examples == [(word,) for word in words]


def test_a_half_blank_pair_stays_a_pair(tmp_path):
    # Bug: pairs and singles mixed in one corpus.
    corpus = load(tmp_path, "a\t\nb\tc\n \t\n", "x.tsv", columns="0,1")
    assert corpus.examples == [("a", ""), ("b", "c")]


ERRORS = [
    ("text.txt", "", {}, DataError, "is empty"),
    ("text.txt", "\n \n", {}, DataError, "2 blank line(s)"),
    ("text.txt", "only one\nonly one\n", {}, DataError, "at least two different sentences"),
    ("text.txt", b"good\nab\x00cd\n", {}, DataError, "text.txt, line 2: a zero byte"),
    ("text.txt", b"good\ncaf\xe9\n", {}, DataError, "text.txt, line 2: byte 0xE9 (byte 8"),
    ("x.tsv", "s1\ts2\na\tb\nc\n", {"columns": "s1"}, DataError, "x.tsv, line 3: 1 columns"),
    ("x.tsv", "s1\ts2\na\tb\n", {"columns": "s3"}, DataError, "no column 's3' among 2 (s1, s2)"),
    ("x.tsv", "s1\ts2\na\tb\n", {"columns": "2"}, DataError, "no column '2'"),
    ("x.tsv", "s1\ts2\na\tb\n", {}, ConfigError, "data.columns='': name one column"),
    ("x.txt", "a\nb\n", {"columns": "0"}, ConfigError, "is read as text"),
    ("x.tsv", "a\tb\n", {"columns": "0,1,0"}, ConfigError, "name one column"),
    ("x.csv", 's1,s2\na,b\n"c,d\ne,f\n', {"columns": "s1"}, DataError, "starts on line 3"),
    ("x.csv", 's1,s2\n"a\nb",c\nd\n', {"columns": "s1"}, DataError, "x.csv, line 4: 1 columns"),
    ("x.csv", "a\tb\nc\td\n", {"columns": "1"}, DataError, "data.format=tsv"),
    ("x.txt", "a\nb\n", {"format": "sts"}, ConfigError, "data.format=sts"),
    ("x.txt", "a\nb\n", {"encoding": "utf-9"}, ConfigError, "utf-9"),
    ("x.txt", "a\nb\n", {"encoding": ""}, ConfigError, "data.encoding"),
    ("x.txt", "a\nb\n", {"encoding": "undefined"}, ConfigError, "encoding='undefined' is not"),
    ("x.txt", "a\nb\n", {"encoding": "idna"}, ConfigError, "encoding='idna' is not"),
    ("x.txt", "YQo=\n", {"encoding": "base64"}, ConfigError, "encoding='base64' is not"),
    ("x.txt", "a\nb\n", {"encoding": "unicode_escape"}, ConfigError, "'unicode_escape' is not"),
]


@pytest.mark.parametrize(("name", "content", "fields", "kind", "message"), ERRORS)
def test_unusable_files_say_what_and_where(tmp_path, name, content, fields, kind, message):
    # Bug: a traceback from the depths, or a corpus of nothing.
    with pytest.raises(kind) as caught:
        load(tmp_path, content, name, **fields)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "kind", "message"),
    [
        ({"path": "missing.txt"}, DataNotFoundError, "data.path=missing.txt"),
        ({"path": "sts", "task": "sickr"}, DataNotFoundError, "no data of sickr"),
        ({"path": "sts", "task": "stsx"}, DataError, "unknown STS task 'stsx'"),
        (
            {"path": "sts", "splits": "train,tset"},
            DataError,
            "data.splits=train,tset: stsb has no split 'tset'",
        ),
        ({"path": "sts", "splits": ""}, DataError, "data.splits=: stsb has no split ''; set"),
        (
            {"path": "sts", "task": "sts16"},
            DataError,
            "no split 'train', 'dev'; set data.splits=test",
        ),
        ({"path": "sts", "format": "tsv"}, ConfigError, "data.format=tsv"),
        ({"path": "~nosuchuser/x"}, ConfigError, "data.path=~nosuchuser/x: the home folder"),
        ({"path": "x" * 300}, DataNotFoundError, "no such file or folder"),
        ({"path": "everyday", "columns": "score"}, ConfigError, "data.columns"),
    ],
)
def test_unusable_sources_say_what_to_do(sts_folder, monkeypatch, fields, kind, message):
    # Bug: KeyError, or an empty corpus.
    monkeypatch.chdir(sts_folder.parent)
    with pytest.raises(kind) as caught:
        load_text(DataConfig(**fields))
    assert isinstance(caught.value, BertFlowError)
    assert message in str(caught.value)


@pytest.fixture
def sts_folder(tmp_path):
    folder = tmp_path / "sts"
    (folder / "STSBenchmark").mkdir(parents=True)
    for split, score in (("train", "0.125"), ("dev", "1.375"), ("test", "NOT-A-SCORE")):
        row = f"news\tf\t2012\t1\t{score}\t{split} left\t{split} right\n"
        (folder / "STSBenchmark" / f"sts-{split}.csv").write_text(row)
    year = folder / "STS" / "STS16-en-test"
    year.mkdir(parents=True)
    (year / "STS.input.headlines.txt").write_text("a\tb\tsource\tsource\nc\td\na\tb\n")
    return folder


def test_sts_splits_are_read_in_the_order_asked(sts_folder):
    # Bug: splits silently ignored.
    corpus = load_text(DataConfig(path=str(sts_folder), splits="train, dev"))
    assert corpus.examples == [("train left", "train right"), ("dev left", "dev right")]
    assert corpus.manifest["splits"] == ["train", "dev"]
    assert corpus.manifest["task"] == "stsb"


def test_d09_all_candidate_pairs_without_any_gold_file(sts_folder):
    # Bug: labels decide which text the "unsupervised" flow sees.
    corpus = load_text(DataConfig(path=str(sts_folder), task="sts16", splits="test"))
    assert corpus.examples == [("a", "b"), ("c", "d"), ("a", "b")]
    assert corpus.manifest["unlabelled_pairs_included"] is True
    assert corpus.manifest["unique_sentences"] == 4
    assert corpus.manifest["subsets"] == ["headlines"]


def test_no_score_reaches_the_corpus(sts_folder):
    # Bug: a gold score kept as a third column, or parsed at all (the test split's is no number).
    corpus = load_text(DataConfig(path=str(sts_folder)))
    everything = json.dumps([corpus.examples, corpus.manifest])
    assert not any(score in everything for score in ("0.125", "1.375", "NOT-A-SCORE"))
    assert {len(example) for example in corpus.examples} == {2}
    assert {field.name for field in dataclasses.fields(TextCorpus)} == {"examples", "manifest"}


@pytest.mark.skipif(not EVERYDAY.is_file(), reason="the bundled corpus is not there")
def test_everyday_is_pairs_of_text():
    # Bug: topic or score read as a sentence.
    corpus = load_text(DataConfig())
    rows = [line.split("\t") for line in EVERYDAY.read_text("utf-8").splitlines()[1:]]
    assert corpus.examples == [(row[2], row[3]) for row in rows]
    assert corpus.manifest["columns"] == ["sentence1", "sentence2"]


def test_d05_encoding_does_not_depend_on_the_locale(tmp_path):
    # Bug: open() without an encoding under LC_ALL=C.
    (tmp_path / "t.txt").write_text("caf\xe9\nna\xefve\n", "utf-8")
    code = (
        "from bertflow_jax.config import DataConfig; from bertflow_jax.data.text import load_text;"
        "print(ascii(load_text(DataConfig(path='t.txt')).examples))"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert answer.stdout.strip() == r"[('caf\xe9',), ('na\xefve',)]", answer.stderr


@pytest.mark.skipif(not REAL.is_dir(), reason="the STS data sets are not at ../shared/sts")
@pytest.mark.parametrize(
    ("task", "splits", "pairs"),
    [("stsb", "train,dev,test", 8628), ("sts16", "test", 9183), ("sickr", "train,dev,test", 9927)],
)
def test_d09_published_numbers_of_text_pairs(task, splits, pairs):
    # Bug: the flow fitted on other text than the paper's "target" rows.
    corpus = load_text(DataConfig(path=str(REAL), task=task, splits=splits))
    assert corpus.manifest["examples"] == pairs


def test_a_column_named_by_digits_has_a_header(tmp_path):
    """Years as names: the header became a training sentence."""
    content = "2019\t2020\na b\tc\nd\te\n"
    assert load(tmp_path, content, "x.tsv", columns="2019").examples == [("a b",), ("d",)]
    assert load(tmp_path, content, "y.tsv", columns="0").examples == [("2019",), ("a b",), ("d",)]


def test_a_long_csv_field(tmp_path):
    """Python's limit of 131,072 characters was reported as quotes that do not close."""
    long = "word " * 40_000
    assert load(tmp_path, f"s\n{long}\nb\n", "x.csv", columns="s").examples == [(long,), ("b",)]
