"""Ids beside the vectors: what goes in comes out, of the same type, or is refused before any work."""

import datetime
import decimal
import json

import numpy as np
import pytest

from bertflow_jax.data.rows import open_rows
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.embed_job import EmbedJob, run_job
from bertflow_jax.errors import DataError

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def ids_after(bert_folder, tmp_path):
    """Return a function: name of the input -> the column of ids that a job writes."""
    encoder = SentenceEncoder.from_pretrained(bert_folder())

    def run(name, text="t"):
        rows = open_rows(tmp_path / name, column=text, id_column="i")
        count = run_job(encoder, EmbedJob(rows, tmp_path / "out.parquet"))
        found = parquet.read_table(tmp_path / "out.parquet")
        assert found.num_rows == count
        assert found.schema.field("vector").type.list_size == encoder.dimension
        return found.column("i" if "i" in found.column_names else "id")

    return run


NS = 1_700_000_000_123_456_789
ARROW = {
    "int32": pyarrow.array([3, None, -5], pyarrow.int32()),
    "uint64": pyarrow.array([2**64 - 1, None, 0], pyarrow.uint64()),
    "timestamp ns": pyarrow.array([NS, None, 0], pyarrow.timestamp("ns", "UTC")),
    "time ns": pyarrow.array([NS % 10**13, None, 1], pyarrow.time64("ns")),
    "duration ns": pyarrow.array([NS, None, 1], pyarrow.duration("ns")),
    "date": pyarrow.array([datetime.date(2020, 2, 29), None, datetime.date(1, 1, 1)]),
    "decimal": pyarrow.array([decimal.Decimal("1.10"), None, decimal.Decimal("2.00")]),
    "bool": pyarrow.array([True, None, False]),
    "float": pyarrow.array([0.1, None, float("nan")], pyarrow.float32()),
    "binary": pyarrow.array([b"\xff", None, b""]),
    "large": pyarrow.array(["a", None, ""], pyarrow.large_string()),
    "dictionary": pyarrow.array(["a", None, "a"]).dictionary_encode(),
    "struct": pyarrow.array([{"a": 1, "b": None}, None, {"a": None, "b": "x"}]),
    "list": pyarrow.array([[1, 2], None, []]),
    "map": pyarrow.array([[("a", 1)], None, []], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
    "null": pyarrow.nulls(3),
}


@pytest.mark.parametrize("kind", ARROW)
def test_ids_of_parquet_keep_type_and_nulls(ids_after, tmp_path, kind):
    """Nanoseconds went, int32 became int64, a null the row's number, a map a traceback."""
    table = pyarrow.table({"i": ARROW[kind], "t": ["a", "b", "c"]})
    parquet.write_table(table, tmp_path / "in.parquet")
    read = parquet.read_table(tmp_path / "in.parquet").column("i")
    found = ids_after("in.parquet")
    assert found.type == read.type
    assert found.null_count == read.null_count == (3 if kind == "null" else 1)
    assert found.combine_chunks().to_string() == read.combine_chunks().to_string()
    if found.type != pyarrow.float32():
        assert found.equals(read)


def test_ids_of_many_rows_and_row_groups(ids_after, tmp_path):
    """Groups of the output and of the input end at different rows."""
    count = 9000
    table = pyarrow.table({"i": pyarrow.array(range(count), pyarrow.int16()), "t": ["a"] * count})
    parquet.write_table(table, tmp_path / "in.parquet", row_group_size=700)
    assert ids_after("in.parquet").to_pylist() == list(range(count))
    assert parquet.ParquetFile(tmp_path / "out.parquet").num_row_groups == 2


def test_ids_and_texts_may_be_one_column_and_there_may_be_no_rows(ids_after, tmp_path):
    parquet.write_table(pyarrow.table({"i": ["b", "a"], "t": [1, 2]}), tmp_path / "in.parquet")
    assert ids_after("in.parquet", text="i").to_pylist() == ["b", "a"]
    empty = pyarrow.table({"i": pyarrow.array([], pyarrow.int8()), "t": pyarrow.array([], "str")})
    parquet.write_table(empty, tmp_path / "in.parquet")
    assert ids_after("in.parquet").type == pyarrow.int8()


def _write_jsonl(path, ids):
    path.write_text("".join(json.dumps({"i": i, "t": "a"}) + "\n" for i in ids))


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        (["a", None, "b"], "string"),
        ([None, 7, None], "int64"),
        ([True, None, False], "bool"),
        ([1, 0.5, None], "double"),
        ([*range(8192), 0.5], "double"),
        ([0.5, 2**53], "double"),
        ([2**63, 0, 2**64 - 1], "uint64"),
        ([-(2**63), 2**63 - 1], "int64"),
        ([None, None], "int64"),
        ([None] * 600 + ["é"], "string"),
        ([], "int64"),
    ],
)
def test_ids_of_json_lines(ids_after, tmp_path, ids, kind):
    """The first 8,192 ids decided on the type: a later 0.5 became 0, a null the row's number."""
    _write_jsonl(tmp_path / "in.jsonl", ids)
    found = ids_after("in.jsonl")
    assert str(found.type) == kind
    assert found.to_pylist() == ids


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([1, 2, "a"], "line 3: the id ('i') is str, that of line 1 int"),
        ([None, "a", 1], "line 3: the id ('i') is int, that of line 2 str"),
        ([True, 1], "line 2: the id ('i') is int, that of line 1 bool"),
        ([*range(8192), "a"], "line 8193: the id ('i') is str"),
        (["a", "\ud800"], "line 2: the id ('i') holds a lone UTF-16 surrogate"),
        ([{"a": 1}], "line 1: the id ('i') is an object"),
        ([1, [2]], "line 2: the id ('i') is an array"),
        ([2**64], "line 1: the id ('i') needs an integer of more than 64 bits"),
        ([-1, 2**63], "line 2: the id ('i') needs an integer of more than 64 bits"),
        ([2**63, 0, -1], "line 3: the id ('i') needs an integer of more than 64 bits"),
        ([-(2**63) - 1], "line 1: the id ('i') needs"),
        ([2**53 + 1, 0.5], "line 2: the id ('i') makes integers beyond 2**53"),
        ([0.5, -(2**53) - 1], "line 2: the id ('i') makes integers beyond 2**53"),
    ],
)
def test_ids_that_are_no_column(ids_after, tmp_path, ids, words, monkeypatch):
    """A traceback after all the embedding was done, and at every start from then on."""
    _write_jsonl(tmp_path / "in.jsonl", ids)
    monkeypatch.setattr(SentenceEncoder, "encode_stream", lambda *a, **k: pytest.fail("it started"))
    with pytest.raises(DataError) as caught:
        ids_after("in.jsonl")
    assert words in str(caught.value)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "Infinity"])
def test_an_id_beyond_float64_is_refused(tmp_path, number):
    """Bug: the id 1e400 came out as inf, as did every other of its size."""
    lines = f'{{"i": 1.5, "t": "a"}}\n{{"i": {number}, "t": "b"}}\n'
    (tmp_path / "in.jsonl").write_text(lines)
    rows = open_rows(tmp_path / "in.jsonl", column="t", id_column="i")
    message = r"in\.jsonl, line 2: the id \('i'\) is a number beyond float64; write ids as strings"
    with pytest.raises(DataError, match=message):
        rows.survey()


def test_ids_without_a_column_are_numbers_of_rows(bert_folder, tmp_path):
    (tmp_path / "in.txt").write_text("a\n" * 9000)
    encoder = SentenceEncoder.from_pretrained(bert_folder())
    run_job(encoder, EmbedJob(open_rows(tmp_path / "in.txt"), tmp_path / "out.parquet"))
    found = parquet.read_table(tmp_path / "out.parquet").column("id")
    assert found.type == pyarrow.int64()
    np.testing.assert_array_equal(found.to_numpy(), np.arange(9000))


def test_the_digest_sees_the_last_nanosecond_and_nulls(tmp_path):
    """Ids that Python rounds are part of what a resumed job compares."""
    found = set()
    for ids in ([1, 2], [1, 3], [1, None]):
        column = pyarrow.array(ids, pyarrow.timestamp("ns"))
        parquet.write_table(pyarrow.table({"i": column, "t": ["a", "b"]}), tmp_path / "in.parquet")
        rows = open_rows(tmp_path / "in.parquet", column="t", id_column="i")
        found.add(rows.survey().sha256)
        assert len(list(rows)) == 2
    assert len(found) == 3
