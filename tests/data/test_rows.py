"""Rows for embedding: none lost, none added, bad ones named."""

import gzip
import json

import pytest

from bertflow_jax.data.rows import open_rows
from bertflow_jax.errors import BertFlowError, ConfigError, DataError

TEXTS = ["one", "", " two\u2028still two", 'say "three"', "four\x0cfour"]


def _write(path, content):
    data = content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_lines(tmp_path, name, ending):
    """Blank lines are rows, U+2028 and form feeds do not end one, the last line end adds none."""
    path = _write(tmp_path / name, "\ufeff" + "".join(text + ending for text in TEXTS))
    rows = list(open_rows(path))
    assert [row.text for row in rows] == TEXTS
    assert [row.key for row in rows] == [0, 1, 2, 3, 4]
    assert open_rows(path).survey()[0] == 5


def test_the_survey_sees_every_change(tmp_path):
    """A resumed job must notice another input: a moved row, a moved boundary, another id."""

    def survey(content):
        return open_rows(_write(tmp_path / "a.tsv", content), column="t", id_column="i").survey()

    base = "i\tt\n1\tab\n2\tc\n"
    assert survey(base) == survey(base.replace("\n", "\r\n"))
    others = [base + "3\t\n", "i\tt\n2\tc\n1\tab\n", "i\tt\n1\ta\n2\tbc\n", "i\tt\n1\tab\n3\tc\n"]
    assert len({survey(content) for content in [base, *others]}) == 5


def test_jsonl(tmp_path):
    lines = [json.dumps({"id": f"k{i}", "text": text}) for i, text in enumerate(TEXTS)]
    path = _write(tmp_path / "a.jsonl", "\n".join(lines))
    assert [row.text for row in open_rows(path)] == TEXTS
    rows = list(open_rows(path, column="id", id_column="text"))
    assert [(row.key, row.text) for row in rows] == [(t, f"k{i}") for i, t in enumerate(TEXTS)]


def test_tables(tmp_path):
    """A header only where a column goes by name; quotes are text in TSV and quoting in CSV."""
    tsv = _write(tmp_path / "a.tsv", 'id\ttext\n7\tsay "hi"\n8\t\n')
    assert [(r.key, r.text) for r in open_rows(tsv, column="text", id_column="id")] == [
        ("7", 'say "hi"'),
        ("8", ""),
    ]
    assert [r.text for r in open_rows(tsv, column="1")] == ["text", 'say "hi"', ""]
    csv = _write(tmp_path / "a.csv", 'id,text\n7,"a, ""b""\nc"\n8,d\n')
    assert [r.text for r in open_rows(csv, column="text")] == ['a, "b"\nc', "d"]


def test_parquet(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"n": range(5), "t": TEXTS}), path, row_group_size=2)
    assert [(r.key, r.text) for r in open_rows(path, column="t", id_column="n")] == list(
        enumerate(TEXTS)
    )
    with pytest.raises(ConfigError) as caught:  # it was "no column '' among n, t"
        list(open_rows(path))
    assert str(caught.value) == f"--column is missing: name the text's column of {path}: n, t"
    with pytest.raises(DataError, match="no column 'id' among n, t; set --id_column"):
        list(open_rows(path, column="t", id_column="id"))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "null"), (3, "3"), (float("nan"), "NaN"), (True, "true"), ([1], "an array")],
)
def test_what_is_no_text_is_named_with_its_place(tmp_path, value, shown):
    """Bug: "row 1 is NoneType, not str", without file and line, and rows counted from 0 unsaid."""
    path = _write(tmp_path / "a.jsonl", '{"t": "a"}\n' + json.dumps({"t": value}))
    with pytest.raises(DataError) as caught:
        open_rows(path, column="t").survey()
    assert f"{path}, line 2: the text in column 't' is {shown}, not a string" in str(caught.value)
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"t": pyarrow.array([value, value])}), path)
    with pytest.raises(DataError) as caught:
        open_rows(path, column="t").survey()
    start = f"{path}, row 0 (counted from 0): the text in column 't' is {shown}, not a string"
    assert start in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "column", "words"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text": 3}', "", "line 2: the text in column 'text' is 3"),
        ("a.jsonl", '{"text": "a"}\nx', "", "line 2: not JSON"),
        ("a.jsonl", '{"body": "a"}', "", "no key 'text' among body"),
        ("a.jsonl", "[1]", "", "line 1: an object is needed"),
        ("a.tsv", "a\tb\n1\t2\t3\n", "a", "line 2: 3 columns, but the first line has 2"),
        ("a.tsv", "a\tb\n", "", "--column is missing"),
        ("a.csv", 'a\n"b\n', "a", "row that starts on line 2"),
        ("a.txt", "a\0b", "", "line 1: a zero byte"),
        ("a.parquet", "PAR1", "", "cannot be read as Parquet"),
        ("a.pdf", "", "", "set --format to one of txt"),
        ("a.txt", "", "b", "a txt file has lines"),
    ],
)
def test_bad_files(tmp_path, name, content, column, words):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    path = _write(tmp_path / name, content)
    with pytest.raises(BertFlowError) as caught:
        open_rows(path, column=column).survey()
    assert words in str(caught.value)
    assert not isinstance(caught.value, ConfigError) or column == "" or name == "a.txt"


def test_bytes_of_another_encoding(tmp_path):
    (tmp_path / "a.txt").write_bytes("eins\nfünf\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"line 2: byte 0xFC \(byte 6 of the file"):
        open_rows(tmp_path / "a.txt").survey()
    rows = open_rows(tmp_path / "a.txt", encoding="latin-1")
    assert [row.text for row in rows] == ["eins", "fünf"]
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"a\n" * 1000)[:-20])
    with pytest.raises(DataError, match=r"not a whole \.gz file"):
        open_rows(tmp_path / "b.txt.gz").survey()
