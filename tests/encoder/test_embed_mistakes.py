"""Mistakes of the caller: an error that names them, exit code 2 and no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax.data.rows import open_rows
from bertflow_jax.data.texts import iter_texts
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.embed_job import EmbedJob
from bertflow_jax.errors import BertFlowError, ConfigError, DataNotFoundError, InputError
from bertflow_jax.restore import load_run

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"shard_rows": 1.5}, "shard_rows=1.5: must be an integer >= 0"),
        ({"shard_rows": -1}, "shard_rows=-1"),
        ({"processes": 0}, "processes=0: must be an integer >= 1"),
        ({"process": 5, "processes": 2}, "process=5: they are numbered from 0"),
        ({"process": -1, "processes": 2}, "process=-1: must be an integer >= 0"),
        ({"process": 1}, "process=1"),
        ({"batch_size": "4"}, "batch_size='4'"),
        ({"normalize": "yes"}, "normalize='yes': must be True or False"),
        ({"on_overflow": "drop"}, "on_overflow='drop'"),
        ({"output": "x" * 250 + ".npy"}, r"file name too long \(.partial"),
        ({"output": "x" * 300}, "not writable .File name too long"),
    ],
)
def test_jobs_that_cannot_be(tmp_path, fields, words):
    """Tracebacks, or exit code 0 with nothing or the wrong part written."""
    (tmp_path / "in.txt").write_text("a\n")
    output = tmp_path / fields.pop("output", "parts")
    with pytest.raises(BertFlowError, match=words):
        EmbedJob(open_rows(tmp_path / "in.txt"), output, **fields).check()


def test_arguments_of_the_encoder(bert_folder):
    """TypeError, AttributeError, or as if nothing had been said."""
    folder = bert_folder()
    encoder = SentenceEncoder.from_pretrained(folder)
    for normalize in ("yes", None, 2, np.array([True])):
        with pytest.raises(InputError, match=r"normalize=.*must be True or False"):
            encoder.encode(["a"], normalize=normalize)
    np.testing.assert_array_equal(
        encoder.encode("a", normalize=np.True_), encoder.encode("a", normalize=True)
    )
    with pytest.raises(InputError, match="first_row='a'"):
        list(encoder.encode_stream(["a"], first_row="a"))
    assert [part.shape for part in encoder.encode_stream(["a"], window=2**70)] == [(1, 16)]
    assert encoder.encode(["a"], batch_size=2**63).shape == (1, 16)
    with pytest.raises(InputError, match=r"Flow, Whitening, \.\.\. is needed, not str"):
        encoder.with_postprocess("x")
    for settings, words in [
        ({"dtype": ["float32"]}, "dtype="),
        ({"max_length": 0}, "max_length=0 must be an integer >= 3"),
        ({"max_length": False}, "max_length=False must be an integer >= 3"),
        ({"pooling": " "}, "pooling is blank"),
    ]:
        with pytest.raises(ConfigError, match=words):
            SentenceEncoder.from_pretrained(folder, **settings)


def test_tables_and_frozen_sets_are_no_list_of_texts():
    """A data frame iterates over its columns' names, a set in any order."""
    pandas = pytest.importorskip("pandas")
    for texts in (pandas.DataFrame({"a": ["b"]}), frozenset("a"), np.array([["a"]])):
        with pytest.raises(InputError, match="a list of str is expected"):
            iter_texts(texts)
    assert list(iter_texts({"a": 1}.keys())) == ["a"]


def test_a_workdir_with_a_name_that_is_too_long():
    with pytest.raises(DataNotFoundError, match="not found"):
        load_run("x" * 300)


def _embed(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "bertflow_jax.embed", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "JAX_PLATFORMS": "cpu", **environment},
    )


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (["--step=3"], {}, "--step goes with --workdir"),
        (["--pooling="], {}, "--pooling is blank"),
        ([], {"JAX_NUM_PROCESSES": "abc"}, "JAX_NUM_PROCESSES=abc"),
        (
            [],
            {"JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "5", "JAX_COORDINATOR_ADDRESS": "a:1"},
            "process_id=5: must be below num_processes=2",
        ),
        (
            ["--process_id=1"],
            {"JAX_NUM_PROCESSES": "2", "JAX_COORDINATOR_ADDRESS": "host"},
            "coordinator=host: HOST:PORT",
        ),
        ([], {"JAX_COORDINATOR_ADDRESS": "a:1"}, "belong together"),
        (["--distributed=on"], {}, "did not find each other"),
        (["--shard=4/4"], {}, "--shard=4/4: must be I/N"),
        (["--shard=0/2", "--distributed=on"], {}, "--shard and --distributed"),
        (["--batch_size=" + "9" * 5000], {}, "batch_size"),
        (["--column=" + "9" * 5000], {}, "a txt file has lines"),
    ],
)
def test_mistakes_exit_with_2_and_no_traceback(tmp_path, arguments, environment, words):
    path = tmp_path / "in.txt"
    path.write_text("a\n")
    done = _embed(
        "--encoder=mini_bert", f"--input={path}", f"--output={tmp_path / 'out'}",
        *arguments, **environment,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
