"""What a file is by its name and by its first bytes: one rule for every reader of text."""

import bz2
import gzip
import io
import lzma
import zipfile
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax.config import DataConfig
from bertflow_jax.data.file_names import text_format
from bertflow_jax.data.lines import iter_lines, read_lines
from bertflow_jax.data.rows import open_rows
from bertflow_jax.data.text import load_text
from bertflow_jax.errors import BertFlowError, ConfigError, DataError
from bertflow_jax.evaluation.fitted_rows import load_fit_texts
from bertflow_jax.evaluation.options import EvalOptions, check_options

LINES = "one text\nanother text\n"


def written(path: Path, content: bytes = LINES.encode()) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.TXT", "a.txt.gz", "a", "a.gz", ".txt"])
def test_a_name_of_plain_text_is_plain_text_everywhere(tmp_path, name):
    """Bug: embedding asked for --format where training read a file without an extension."""
    path = written(tmp_path / name)
    assert [row.text for row in open_rows(path)] == LINES.splitlines()
    for corpus in (load_text(DataConfig(path=str(path))),
                   load_fit_texts(str(path), [], ["everyday"], None).corpora["everyday"]):  # fmt: skip
        assert corpus.examples == [(line,) for line in LINES.splitlines()]
    check_options(EvalOptions(analyses=("word_frequency",), corpus=str(path), encoder="mini_bert"))


@pytest.mark.parametrize(
    "name", ["a.md", "a.log", "a.json", "a.xlsx", "a.html.gz", "a.v2", "a.parquet.gz", "a.text"]
)
def test_a_name_that_says_nothing_of_text_is_refused_everywhere(tmp_path, name):
    """Bug: markup and logs were fitted on as sentences, where embedding asked what they are."""
    path = written(tmp_path / name)
    assert text_format(path) is None
    with pytest.raises(ConfigError, match=r"are not read for training; .*data\.format=text"):
        load_text(DataConfig(path=str(path)))
    with pytest.raises(ConfigError, match="set --format to one of"):
        open_rows(path)
    with pytest.raises(ConfigError, match=rf"--fit=.*{name}: a file of text, one a line, is named"):
        load_fit_texts(str(path), [], ["everyday"], None)
    options = EvalOptions(analyses=("word_frequency",), corpus=str(path), encoder="mini_bert")
    with pytest.raises(ConfigError, match=rf"--corpus=.*{name}: a file of text, one a line"):
        check_options(options)
    # Who says what it is is believed.
    assert load_text(DataConfig(path=str(path), format="text")).manifest["unique_sentences"] == 2
    assert open_rows(path, "txt").survey().rows == 2


def test_pairs_of_an_unknown_name(tmp_path):
    """Bug: "no such file" of a file that is there."""
    path = written(tmp_path / "pairs.dat")
    with pytest.raises(ConfigError, match=r"pairs\.dat: a file of pairs is named \.jsonl"):
        load_text(DataConfig(path=str(path), format="pairs"))


def _npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    return file.getvalue()


def _zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", LINES)
    return file.getvalue()


CONTENTS = {
    "gzip": (gzip.compress(LINES.encode()), "is compressed with gzip; name it .gz"),
    "zip": (_zip(), "is a zip archive"),
    "zstd": (b"\x28\xb5\x2f\xfd\x04\x00" + bytes(40), "is compressed with zstd"),
    "xz": (lzma.compress(LINES.encode()), "is compressed with xz"),
    "bzip2": (bz2.compress(LINES.encode()), "is compressed with bzip2"),
    "pdf": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "is a PDF"),
    "parquet": (b"PAR1\x15\x04\x15\x10", "is Parquet; name it .parquet"),
    "npy": (_npy(), "is an array of NumPy"),
    "sqlite": (b"SQLite format 3\0" + bytes(40), "is an SQLite database"),
}


@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.csv", "a.jsonl", "a.txt.gz"])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
def test_a_binary_file_is_called_what_it_is(tmp_path, kind, name, encoding):
    """Bug: "name the encoding", and with latin-1, which has every byte, texts of rubbish."""
    content, said = CONTENTS[kind]
    path = written(tmp_path / name, content)
    column = "" if ".txt" in name else "text"
    readers = [
        lambda: read_lines(path, encoding),
        lambda: list(iter_lines(path, encoding)),
        lambda: open_rows(path, column=column, encoding=encoding).survey(),
    ]
    if name != "a.jsonl":
        config = DataConfig(path=str(path), columns=column, encoding=encoding)
        readers.append(lambda: load_text(config))
    for read in readers:
        with pytest.raises(DataError) as raised:
            read()
        assert f"{path} {said}" in str(raised.value)


def test_real_parquet_is_told_by_its_first_bytes(tmp_path):
    """The byte behind PAR1 is that of a page's header, which no text has there."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"text": ["a", "b"]}), tmp_path / "a.txt")
    with pytest.raises(DataError, match="is Parquet"):
        read_lines(tmp_path / "a.txt")


@pytest.mark.parametrize(
    "text", ["PAR1 is a word", "PK is a word", "BZhang wrote", "%PDF is no PDF"]
)
def test_a_text_that_begins_like_one_is_text(tmp_path, text):
    path = written(tmp_path / "a.txt", f"{text}\nb\n".encode())
    assert read_lines(path) == list(iter_lines(path)) == [text, "b"]


def test_a_text_that_is_named_gz(tmp_path):
    """Bug: "download it again", which would bring the same file."""
    path = tmp_path / "a.txt.gz"
    path.write_text(LINES)
    for read in (read_lines, lambda path: list(iter_lines(path))):
        with pytest.raises(
            DataError, match=r"a\.txt\.gz is not gzip, though its name ends in \.gz"
        ):
            read(path)


def test_bytes_behind_a_gz_are_said(tmp_path):
    """Bug: "is not gzip, though its name ends in .gz; rename it"."""
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(LINES.encode()) + b"more")
    for read in (read_lines, lambda path: list(iter_lines(path))):
        with pytest.raises(DataError, match=r"a\.txt\.gz holds other bytes behind its compressed"):
            read(path)


@pytest.mark.parametrize("name", ["A.TXT.GZ", "a.Txt.gZ"])
def test_gz_in_letters_of_any_case(tmp_path, name):
    """Bug: A.TXT was text, and of A.TXT.GZ the format was not known."""
    path = written(tmp_path / name, gzip.compress(LINES.encode()))
    assert read_lines(path) == list(iter_lines(path)) == LINES.splitlines()
    assert text_format(path) == "txt"


def test_an_id_column_that_is_not_there_names_its_flag(tmp_path):
    """Bug: --column was blamed for what --id_column names."""
    rows = {"a.jsonl": '{"text": "a"}\n', "a.tsv": "text\tn\na\t1\n", "a.csv": "text,n\na,1\n"}
    for name, content in rows.items():
        path = written(tmp_path / name, content.encode())
        for given, flag in (({"id_column": "x"}, "--id_column"), ({"column": "x"}, "--column")):
            with pytest.raises(BertFlowError) as raised:
                open_rows(path, **{"column": "text", **given}).survey()
            assert f"set {flag}" in str(raised.value)
            assert "'x'" in str(raised.value)
    with pytest.raises(ConfigError, match="--id_column: a txt file has lines, not columns"):
        open_rows(written(tmp_path / "a.txt"), id_column="x")
