"""Inputs that ended in a traceback, in a wrong message or with a row too many."""

import gzip
import json
import os
import warnings

import pytest

from bertflow_jax.config import DataConfig
from bertflow_jax.data.lines import iter_lines, read_lines
from bertflow_jax.data.pair_files import PairColumns, has_split, read_pairs
from bertflow_jax.data.rows import open_rows
from bertflow_jax.data.text import load_text
from bertflow_jax.errors import BertFlowError, ConfigError, DataError, DataNotFoundError


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "UTF_32", "utf-32-be", "utf-8-sig"])
@pytest.mark.parametrize("content", ["", "\ufeff", "é\n\nb", "\ufeffé\r\n\n", "\n", "a"])
def test_both_readers_agree(tmp_path, name, encoding, content):
    """Without a byte order mark one refused UTF-16; a file of a mark alone had a row in one."""
    for mark in ("", "\ufeff"):
        plain = "utf-8" if "8" in encoding else encoding[:6].replace("_", "-") + "-le"
        plain = encoding if encoding.endswith("e") else plain
        data = (mark + content).encode(plain)
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        found = list(iter_lines(tmp_path / name, encoding))
        assert found == read_lines(tmp_path / name, encoding)
        if not content.startswith("\ufeff"):
            assert (
                found
                == [line.rstrip("\r") for line in content.split("\n")][
                    : content.count("\n") + (content != "" and not content.endswith("\n"))
                ]
            )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-7"])
def test_bytes_that_are_no_text(tmp_path, encoding):
    """UnicodeError is not always UnicodeDecodeError; the two readers named different places."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xfe\xff\x00a\xd8\x00+\xff\xff\xff\x7f")
    with pytest.raises(DataError, match=r"a\.txt, line 1: byte 0x") as caught:
        list(iter_lines(path, encoding))
    with pytest.raises(DataError) as whole:
        read_lines(path, encoding)
    assert str(whole.value) == str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "column", "words"),
    [
        ("a.jsonl", '{"text": "a", "n": ' + "9" * 5000 + "}", "", "line 1: not JSON"),
        ("a.jsonl", "[" * 100_000, "", "line 1: not JSON"),
        ("a.tsv", "a\tb\n1\t2\n", "9" * 5000, "line 1: no column"),
        ("a.csv", "a,b\n1,2\n\n", "a", "line 3: 1 columns, but the first line has 2"),
    ],
)
def test_files_that_are_not_what_they_should_be(tmp_path, name, content, column, words):
    """More than 4,300 digits are a ValueError in Python."""
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError) as caught:
        open_rows(tmp_path / name, column=column).survey()
    assert words in str(caught.value)


def test_blank_lines_of_a_csv_of_one_column_are_rows(tmp_path):
    """ "Every row is kept, blank ones too": it was refused for its 0 columns."""
    path = tmp_path / "a.csv"
    path.write_text('t\na\n\n""\nb\n\n')
    assert [row.text for row in open_rows(path, column="t")] == ["a", "", "", "b", ""]
    path.write_text("\na\n")
    assert [row.text for row in open_rows(path, column="0")] == ["", "a"]


def test_what_is_no_file(tmp_path):
    """A pipe is there, only not readable twice; "no such file" sent people looking for it."""
    os.mkfifo(tmp_path / "pipe.txt")
    for name, error, words in [
        (".", DataError, "is a folder"),
        ("pipe.txt", DataError, "is a pipe"),
        ("none.txt", DataNotFoundError, "no such file"),
        ("x" * 300 + ".txt", DataNotFoundError, "file name too long"),
    ]:
        with pytest.raises(error, match=words):
            open_rows(tmp_path / name)


def test_parquet_columns(tmp_path):
    """KeyError for a name that two columns have, UnicodeDecodeError for bytes that are no text."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    text = pyarrow.array(["a", "b"])
    twice = pyarrow.Table.from_arrays([text, text, text], names=["t", "t", "i"])
    parquet.write_table(twice, path)
    for column, id_column in (("t", ""), ("i", "t")):
        with pytest.raises(DataError, match="2 columns are named 't'; rename"):
            open_rows(path, column=column, id_column=id_column).survey()
    data = pyarrow.array([b"a", b"\xff"], pyarrow.binary()).view(pyarrow.string())
    parquet.write_table(pyarrow.table({"t": data, "i": text}), path)
    with pytest.raises(DataError, match="column 't' holds bytes that are not UTF-8"):
        open_rows(path, column="t").survey()
    with pytest.raises(BertFlowError, match=r"UTF8|UTF-8"):
        open_rows(path, column="i", id_column="t").survey()


def test_a_null_id_is_none(tmp_path):
    """It was the number of the row, which another row may have as its id."""
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"i": i, "text": "a"}) + "\n" for i in (1, None)))
    assert [row.key for row in open_rows(path, id_column="i")] == [1, None]
    with pytest.raises(ConfigError, match="a txt file has lines"):
        open_rows(path, "txt", id_column="i")


@pytest.mark.parametrize(
    ("name", "content", "shown"),
    [
        ("a.csv", "id, text\n1, a\n", "among 2 (id, ' text')"),
        ("a.tsv", "text \tid\t\n1\ta\t\n", "among 3 ('text ', id, '')"),
        ("a.csv", "te\u200bxt,my  text\n1,a\n", r"among 2 ('te\u200bxt', 'my  text')"),
        ("a.jsonl", '{"text ": "a", "the id": 1}\n', "among 'text ', the id"),
    ],
)
def test_blanks_around_names_are_seen(tmp_path, name, content, shown):
    """Bug: "no column 'text' among 2 (id, text)", where the file's name is ' text'."""
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError) as caught:
        open_rows(tmp_path / name, column="text").survey()
    assert shown in str(caught.value)


def test_many_long_names_are_cut(tmp_path):
    """Bug: a name of more than 200 letters was not shown at all."""
    (tmp_path / "a.csv").write_text("x" * 5000 + ",b\n")
    with pytest.raises(DataError, match=r"no column 'y{196} \.\.\.' among 2 \(x{196} \.\.\.\)"):
        open_rows(tmp_path / "a.csv", column="y" * 5000).survey()


@pytest.mark.parametrize("content", ["", "\ufeff"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize("column", ["", "text", "0"])
def test_an_empty_table_is_called_empty(tmp_path, name, column, content):
    """Bug: "--column is missing", "no column 'text' among 0 ()" or no column of the sentences."""
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError, match=rf"{name} is empty: a table has a row"):
        open_rows(path, column=column).survey()
    with pytest.raises(DataError, match=rf"{name} is empty \(0 blank line"):
        load_text(DataConfig(path=str(path), columns=column))
    given = (column,) * 2 if column else ()
    with pytest.raises(DataError, match=rf"{name} is empty: a table has a row"):
        list(read_pairs(path, name[2:], PairColumns(given, column, ("label",)), "utf-8"))
    with pytest.raises(DataError, match=rf"{name} is empty: a table has a row"):
        has_split(path, name[2:], (), "utf-8")
    path.write_text("\n")  # a blank line is one
    with pytest.raises(DataError, match="no column of the sentences"):
        list(read_pairs(path, name[2:], PairColumns((), "", ("label",)), "utf-8"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.csv.gz"])
def test_a_table_whose_lines_end_with_cr_alone(tmp_path, name, encoding):
    """Bug: "close the quotes" in a .csv, a header without rows in a .tsv, "Extra data" in JSON."""
    between = "\t" if "tsv" in name else ","
    lines = ['{"text": "a"}'] * 3 if "json" in name else [f"text{between}n", f"a{between}1"]
    data = "".join(f"{line}\r" for line in lines).encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    message = rf"{name}: no line ends with LF, but {len(lines)} CR are in it"
    with pytest.raises(DataError, match=message):
        open_rows(tmp_path / name, column="text", encoding=encoding).survey()
    with pytest.raises(DataError, match=message):
        read_lines(tmp_path / name, encoding)
    if "json" not in name:
        config = DataConfig(path=str(tmp_path / name), columns="text", encoding=encoding)
        with pytest.raises(DataError, match=message):
            load_text(config)


def test_a_text_whose_lines_end_with_cr_alone_is_warned_of(tmp_path, recwarn):
    """Bug: the whole file was one row without a word; CR inside a line is text otherwise."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\rb\rc\r")
    with pytest.warns(UserWarning, match=r"a\.txt: no line ends with LF, but 3 CR are in it"):
        assert [row.text for row in open_rows(path)] == ["a\rb\rc"]
    with (
        pytest.warns(UserWarning, match="the line ends of old Macs; it is read as one line"),
        pytest.raises(DataError, match="one distinct sentence"),
    ):
        load_text(DataConfig(path=str(path)))
    recwarn.clear()
    path.write_bytes(b"a\rb\rc\nd\n")  # CR inside a line
    assert [row.text for row in open_rows(path)] == ["a\rb\rc", "d"]
    path.write_bytes(b"a\rb")
    assert [row.text for row in open_rows(path)] == ["a\rb"]
    path.write_bytes(b"a\r\nb\r\n")
    assert [row.text for row in open_rows(path)] == ["a", "b"]
    assert not recwarn.list


@pytest.mark.parametrize("name", ["01", "\u0661", "1\u0661", "\u00b2", "+1", "1_0"])
def test_a_number_is_plain_digits(tmp_path, name):
    """Bug: 01 and the Arabic digit one were column 1, whatever the header said."""
    path = tmp_path / "a.csv"
    path.write_text(f"{name},text\n1,a\n")
    assert [row.text for row in open_rows(path, column=name)] == ["1"]
    with pytest.raises(DataError, match="no column"):
        open_rows(path, column="001").survey()


def test_a_number_that_the_first_line_holds_is_warned_of_once(tmp_path):
    """Bug: a column called 0 in a header was read with the header as a text, without a word."""
    path = tmp_path / "a.csv"
    path.write_text("id,0\n7,a\n")
    rows = open_rows(path, column="0")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")  # as in a command
        for _ in range(2):
            assert [row.text for row in rows] == ["id", "7"]
    (warning,) = told
    assert f"{path}, line 1: '0' is taken as the number of a column" in str(warning.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [row.text for row in open_rows(path, column="1")] == ["0", "a"]
