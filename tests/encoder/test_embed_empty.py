"""Files with empty texts, or without rows: what is embedded, and what is said."""

import importlib.util
import logging

import numpy as np
import pytest

from bertflow_jax import SentenceEncoder
from bertflow_jax.data.rows import open_rows
from bertflow_jax.embed_job import EmbedJob, run_job
from bertflow_jax.errors import DataError


@pytest.fixture
def encoder(bert_folder):
    return SentenceEncoder.from_pretrained(bert_folder(), pooling="mean")


def parquet(path, texts):
    pyarrow, module = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    module.write_table(pyarrow.table({"text": pyarrow.array(texts, pyarrow.string())}), path)


FILES = {
    "a.txt": "the dog\n\n  \na\n",
    "a.tsv": "id\ttext\n1\tthe dog\n2\t\n3\t  \n4\ta\n",
    "a.csv": 'id,text\n1,the dog\n2,\n3,"  "\n4,a\n',
    "a.jsonl": '{"text": "the dog"}\n{"text": ""}\n{"text": "  "}\n{"text": "a"}\n',
    "a.parquet": ["the dog", "", "  ", "a"],
}
NO_ROWS = {"a.txt": "", "a.tsv": "id\ttext\n", "a.csv": "id,text\n", "a.jsonl": "", "a.parquet": []}
NULLS = {"a.jsonl": '{"text": "a"}\n{"text": null}\n', "a.parquet": ["a", None]}


def job(folder, name, content):
    path = folder / name
    parquet(path, content) if name == "a.parquet" else path.write_text(content)
    column = "" if name == "a.txt" else "text"
    return EmbedJob(open_rows(path, column=column), folder / "out.npy", batch_size=4)


@pytest.mark.parametrize("name", FILES)
def test_empty_texts_keep_their_rows_and_are_counted(encoder, tmp_path, caplog, name):
    """Bug: vectors of [CLS] and [SEP] alone among the others, and nobody was told."""
    embedding = job(tmp_path, name, FILES[name])
    with caplog.at_level(logging.WARNING):
        assert run_job(encoder, embedding) == 4
    assert f"{name}: 2 of 4 texts are empty" in caplog.text
    expected = encoder.encode(["the dog", "", "", "a"])
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, atol=1e-5)


@pytest.mark.parametrize("name", NO_ROWS)
def test_a_file_without_rows_gives_none_in_every_format(encoder, tmp_path, caplog, name):
    """Bug: an output without rows and not a word about it."""
    embedding = job(tmp_path, name, NO_ROWS[name])
    with caplog.at_level(logging.WARNING):
        assert run_job(encoder, embedding) == 0
    assert f"{name} holds no row" in caplog.text
    assert np.load(tmp_path / "out.npy").shape == (0, encoder.dimension)


@pytest.mark.parametrize("name", NULLS)
def test_null_is_no_empty_text(tmp_path, name):
    if importlib.util.find_spec("pyarrow") is None and name == "a.parquet":
        pytest.skip("needs pyarrow")
    with pytest.raises(DataError, match="'text' is null, not a string"):
        job(tmp_path, name, NULLS[name]).rows.survey()


def test_no_empty_text_is_no_warning(encoder, tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        run_job(encoder, job(tmp_path, "a.txt", "the dog\n"))
    assert not caplog.records
