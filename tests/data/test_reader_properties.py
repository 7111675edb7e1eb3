"""What holds for any text that is written and read again. Each test names the bug it catches."""

import csv
import gzip
import io
import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sts_made import SICK_HEADER, stsb_row, write

from bertflow_jax.config import DataConfig
from bertflow_jax.data.lines import iter_lines, read_lines
from bertflow_jax.data.pair_files import PairColumns, read_pairs
from bertflow_jax.data.rows import open_rows
from bertflow_jax.data.sts import load_task
from bertflow_jax.data.text import load_text
from bertflow_jax.errors import BertFlowError, DataError

# The folder of a test is used by all its examples, each of which writes the whole file anew.
check = settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
# Anything but what ends a line, a zero byte and halves of characters; \r and marks have tests.
characters = st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0\ufeff")
lines = st.lists(st.text(characters, max_size=12), max_size=8)
fields = st.text(characters.filter(lambda c: c != "\t"), max_size=12)
pairs = st.lists(st.tuples(fields, fields), min_size=1, max_size=6)


@check
@given(lines, st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32-be"]), st.booleans())
@example(["\x85", "a\u2028b", "\x0c", "\x1c"], "utf-8", False)
def test_lines_come_back(tmp_path, texts, encoding, compressed):
    """Bug: a line more or less than was written, or a character lost at its ends."""
    data = "".join(f"{line}\n" for line in texts).encode(encoding)
    path = tmp_path / ("a.gz" if compressed else "a.txt")
    path.write_bytes(gzip.compress(data, 1) if compressed else data)
    assert read_lines(path, encoding) == list(iter_lines(path, encoding)) == texts


@check
@given(st.binary(max_size=60), st.sampled_from(["utf-8", "latin-1", "utf-16", "utf-7", "cp1252"]))
def test_both_readers_say_the_same_of_any_bytes(tmp_path, data, encoding):
    """Bug: the reader of large files with other lines, or an error of another place."""
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    found = []
    for read in (read_lines, lambda *args: list(iter_lines(*args))):
        try:
            found.append(read(path, encoding))
        except DataError as error:
            # Which of two faults is met first depends on how far ahead is decoded.
            found.append("zero byte or encoding" if b"\0" in data else str(error))
    assert found[0] == found[1]
    if isinstance(found[0], list):
        assert len(found[0]) <= 1 + data.count(b"\n")


@check
@given(pairs)
def test_scored_pairs_come_back(tmp_path, rows):
    """Bug: a quote, a space or a word such as NA that changes rows; a row more or less."""
    firsts, seconds = [a for a, _ in rows], [b for _, b in rows]
    write(tmp_path / "STSBenchmark" / "sts-test.csv", "".join(stsb_row(a, b) for a, b in rows))
    sick = "".join(f"1\t{a}\t{b}\t2.5\tNEUTRAL\n" for a, b in rows)
    write(tmp_path / "SICK" / "SICK_test_annotated.txt", f"{SICK_HEADER}\n{sick}")
    year = tmp_path / "STS" / "STS12-en-test"
    write(year / "STS.input.x.txt", "".join(f"{a}\t{b}\n" for a, b in rows))
    write(year / "STS.gs.x.txt", "2.5\n" * len(rows))
    for task in ("stsb", "sickr", "sts12"):
        (found,) = load_task(task, tmp_path).subsets.values()
        assert (found.sentences1, found.sentences2) == (firsts, seconds)
        assert found.scores.tolist() == [2.5] * len(rows)


@check
@given(pairs, st.sampled_from(["tsv", "csv", "jsonl"]))
def test_labelled_pairs_come_back(tmp_path, rows, kind):
    """Bug: CSV's quoting, JSON's escapes or a tab read by the rules of another format."""
    names = ("sentence1", "sentence2", "label")
    table = [(a, b, "neutral") for a, b in rows]
    text = io.StringIO()
    if kind == "csv":
        csv.writer(text, lineterminator="\n").writerows([names, *table])
    elif kind == "tsv":
        text.writelines("\t".join(row) + "\n" for row in (names, *table))
    else:
        text.writelines(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in table)
    path = write(tmp_path / f"a.{kind}", text.getvalue())
    found = list(read_pairs(path, kind, PairColumns((), "", ("label",)), "utf-8"))
    assert [(row.sentence1, row.sentence2, row.gold) for row in found] == table


@check
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9)
    ),
    st.sampled_from(["jsonl", "csv"]),
)
@example(["a\r", "\r", "\ufeff", "b\nc", '"', "\u2028"], "jsonl")
def test_rows_come_back_line_breaks_and_all(tmp_path, texts, kind):
    """Bug: a text with a line break counted as two rows, and every id after it shifted."""
    kept = texts if kind == "jsonl" else [text.replace("\r", "") for text in texts]
    text = io.StringIO()
    if kind == "jsonl":
        text.writelines(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate(kept))
    else:
        csv.writer(text, lineterminator="\n").writerows([("id", "text"), *enumerate(kept)])
    path = write(tmp_path / f"a.{kind}", text.getvalue())
    found = list(open_rows(path, column="text", id_column="id"))
    assert [row.text for row in found] == kept
    assert [int(row.key) for row in found] == list(range(len(kept)))


@check
@given(lines)
def test_flow_text_counts_every_line(tmp_path, texts):
    """Bug: sentences and skipped blank lines that do not add up to the lines of the file."""
    path = write(tmp_path / "a.txt", "".join(f"{line}\n" for line in texts))
    full = [line for line in texts if line.strip()]
    if len(set(full)) < 2:
        with pytest.raises(BertFlowError, match="at least two different sentences"):
            load_text(DataConfig(path=str(path)))
        return
    corpus = load_text(DataConfig(path=str(path)))
    assert corpus.examples == [(line,) for line in full]
    assert corpus.manifest["blank_lines_skipped"] + corpus.manifest["examples"] == len(texts)
    assert corpus.manifest["unique_sentences"] == len(set(full))
