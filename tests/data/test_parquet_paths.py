"""Paths that Arrow cannot hold: one message, before anything is computed."""

import os
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax.data.rows import open_rows
from bertflow_jax.embed_job import EmbedJob
from bertflow_jax.errors import ConfigError, DataError
from bertflow_jax.postprocess.vector_files import open_vectors
from bertflow_jax.postprocess.vector_output import check_output

pyarrow = pytest.importorskip("pyarrow")
WORDS = "the path is not valid UTF-8, and Arrow knows no other; rename it"


@pytest.fixture
def bad(tmp_path):
    """A folder whose name is no text, with texts and vectors in it."""
    from pyarrow import parquet

    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/d\xff"))
    folder.mkdir()
    table = pyarrow.table({"text": ["One.", "Two."], "vector": [[1.0, 2.0], [3.0, 4.0]]})
    with (folder / "a.parquet").open("wb") as file:
        parquet.write_table(table, file)
    (folder / "a.txt").write_text("One.\nTwo.\n")
    np.save(folder / "a.npy", np.eye(3, dtype=np.float32))
    return folder


def test_inputs(bad):
    """Bug: pyarrow's UnicodeEncodeError."""
    path = bad / "a.parquet"
    with pytest.raises(DataError) as caught:
        open_rows(str(path), column="text").survey()
    assert str(caught.value) == f"{path}: {WORDS}"
    with pytest.raises(DataError) as caught:
        open_vectors(path)
    assert str(caught.value) == f"{path}: {WORDS}"


def test_outputs(bad):
    """Bug: the same, after all texts were embedded."""
    path = bad / "b.parquet"
    rows = open_rows(str(bad / "a.txt"))
    with pytest.raises(ConfigError) as caught:
        EmbedJob(rows, path).check()
    assert str(caught.value) == f"--output={path}: {WORDS}"
    vectors = open_vectors(bad / "a.npy")
    with pytest.raises(ConfigError) as caught:
        check_output(path, vectors)
    assert str(caught.value) == f"--output={path}: {WORDS}"
    EmbedJob(rows, bad / "b.npy").check()
    check_output(bad / "b.npy", vectors)


def test_within_such_a_folder(bad, monkeypatch):
    monkeypatch.chdir(bad)
    assert open_rows("a.parquet", column="text").survey().rows == 2
    assert open_vectors(Path("a.parquet")).features == 2
    EmbedJob(open_rows("a.txt"), "b.parquet").check()
