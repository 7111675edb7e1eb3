"""Inputs and outputs of a job on Ray, without Ray: which files, which rows, what may be taken over."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax.encoder_spec import EncoderSpec
from bertflow_jax.errors import (
    ConfigError,
    DataError,
    DataNotFoundError,
    InputError,
    WorkdirError,
)
from bertflow_jax.integrations.ray_data import Workers, embed_dataset
from bertflow_jax.integrations.ray_inputs import find_inputs, open_place, read_rows
from bertflow_jax.integrations.ray_manifest import check_output, take_over
from bertflow_jax.integrations.ray_outputs import Store, gaps
from bertflow_jax.integrations.ray_spec import RayJob, check_apart
from bertflow_jax.integrations.ray_worker import with_vectors, worker_environment

pyarrow = pytest.importorskip("pyarrow", reason="the files are Parquet")
from pyarrow import parquet  # noqa: E402

ROOT = Path(__file__).parents[2]


def write(path, ids, group=10, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pyarrow.table({"id": list(ids), "text": [f"text {i}" for i in ids], **columns})
    parquet.write_table(table, path, row_group_size=group)
    return table


def names(given):
    return [file.name for file in find_inputs(open_place(str(given), "--input"))[0]]


@pytest.fixture
def corpus(tmp_path):
    for name in ("b", "a", "x/c", "x/y/d", "_hidden/e", ".f", "x/_g"):
        write(tmp_path / "in" / f"{name}.parquet", range(3))
    (tmp_path / "in" / "README.md").write_text("no data")
    return tmp_path / "in"


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("", ["a.parquet", "b.parquet", "x/c.parquet", "x/y/d.parquet"]),
        ("/*.parquet", ["a.parquet", "b.parquet"]),
        ("/[b-z].parquet", ["b.parquet"]),
        ("/*/?.parquet", ["x/c.parquet"]),
        ("/**/*.parquet", ["a.parquet", "b.parquet", "x/c.parquet", "x/y/d.parquet"]),
        ("/x/*/*.parquet", ["y/d.parquet"]),
        ("/x/c.parquet", ["c.parquet"]),
    ],
)
def test_which_files_are_meant(corpus, glob, found):
    """A * that crosses folders; what Spark hides; names that depend on which files are there."""
    assert names(f"{corpus}{glob}") == found


def test_inputs_that_are_not_there_or_differ(corpus):
    with pytest.raises(DataNotFoundError, match=r"no \.parquet files"):
        names(corpus / "*.csv")
    write(corpus / "z.parquet", range(3), more=[1, 2, 3])
    with pytest.raises(
        DataError, match=r"z\.parquet has other columns .*more: int64.* than .*a\.p"
    ):
        names(corpus)
    (corpus / "z.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match=r"z\.parquet cannot be read as Parquet"):
        names(corpus)
    with pytest.raises(ConfigError, match="--input=nowhere://a/b cannot be opened"):
        open_place("nowhere://a/b", "--input")


def test_a_file_address_is_the_same_place(corpus):
    """file:// goes the way of gs:// and s3://, with the glob behind the opened folder."""
    assert names(f"file://{corpus}/x/*.parquet") == ["c.parquet"]


@pytest.mark.parametrize(
    ("start", "stop"), [(0, 1), (9, 11), (10, 20), (25, 35), (0, 35), (34, 35)]
)
def test_rows_come_from_the_row_groups_that_hold_them(tmp_path, start, stop):
    """Off by a row group, or by the rows that are skipped in the first one."""
    table = write(tmp_path / "a.parquet", range(35))
    found = read_rows(
        open_place("/", "").filesystem, str(tmp_path / "a.parquet"), ["text"], start, stop
    )
    assert found.equals(table.select(["text"]).slice(start, stop - start))
    with pytest.raises(DataError, match="changed while it was read: 1 rows up to 36"):
        read_rows(open_place("/", "").filesystem, str(tmp_path / "a.parquet"), ["id"], start, 36)


def test_rows_far_into_a_large_row_group(tmp_path):
    """pyarrow reads a row group in batches: those before the first row are skipped whole."""
    table = pyarrow.table({"id": np.arange(200_000)})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=200_000)
    local = open_place("/", "").filesystem
    found = read_rows(local, str(tmp_path / "a.parquet"), ["id"], 150_000, 199_000)
    assert found.equals(table.slice(150_000, 49_000))


@pytest.fixture
def store(tmp_path):
    return Store(open_place(str(tmp_path / "out"), "--output"), {"encoder": "one"}, "embedding")


def vectors(ids):
    table = pyarrow.table({"id": pyarrow.array(list(ids), pyarrow.int64())})
    matrix = np.array([[i, -i] for i in ids], np.float32).reshape(-1, 2)
    return with_vectors(table, matrix, "embedding")


def one_file(tmp_path, rows=30):
    write(tmp_path / "in" / "a.parquet", range(rows))
    return find_inputs(open_place(str(tmp_path / "in"), "--input"))[0][0]


def test_an_output_has_each_row_once_in_order(tmp_path, store):
    """Pieces come in any order, twice, and cut otherwise by a worker that died late."""
    file = one_file(tmp_path)
    for start, stop in ((20, 30), (0, 10), (0, 10), (5, 15), (0, 5), (10, 20)):
        store.write_piece(file, start, vectors(range(start, stop)))
    assert [(p.start, p.stop) for p in store.pieces(file)] == [(0, 10), (10, 20), (20, 30)]
    assert not store.is_complete(file)
    store.finish(file, vectors([]))
    found = parquet.read_table(tmp_path / "out" / "a.parquet")
    assert found.equals(vectors(range(30)))
    assert store.is_complete(file)
    store.finish(file, vectors([]))  # by a task that Ray starts again
    assert parquet.read_table(tmp_path / "out" / "a.parquet").equals(found)
    (tmp_path / "out" / f".a.parquet.{'0' * 32}").write_bytes(b"half")
    store.clear()
    assert sorted(os.listdir(tmp_path / "out")) == ["a.parquet"]


def test_missing_rows_are_found_and_damaged_pieces_are_missing(tmp_path, store):
    """A half piece that passes for a whole one is rows that are lost without a word."""
    file = one_file(tmp_path)
    for start in (0, 10, 20):
        store.write_piece(file, start, vectors(range(start, start + 10)))
    path = Path(store.pieces(file)[1].path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(WorkdirError, match="pieces of rows 10 to 19 are gone"):
        store.finish(file, vectors([]))
    assert gaps(store.pieces(file), file.rows) == [(10, 20)]
    assert gaps([], 0) == []


def test_a_file_without_rows_has_an_output(tmp_path, store):
    file = one_file(tmp_path, 0)
    store.finish(file, vectors([]))
    assert parquet.read_table(tmp_path / "out" / "a.parquet").schema.equals(vectors([]).schema)
    assert store.is_complete(file)


def test_what_is_of_another_encoder_or_input_is_not_taken(tmp_path, store):
    """Vectors of the text as it was, or of another flow, among those of this job."""
    file = one_file(tmp_path)
    store.write_piece(file, 0, vectors(range(30)))
    other = Store(store.place, {"encoder": "two"}, "embedding")
    store.finish(file, vectors([]))
    assert not other.is_complete(file)
    changed = pyarrow.table({"id": range(30), "text": ["new"] * 30})
    parquet.write_table(changed, tmp_path / "in" / "a.parquet")
    again = find_inputs(open_place(str(tmp_path / "in"), "--input"))[0][0]
    assert not store.is_complete(again)
    store.write_piece(file, 0, vectors(range(30)))
    assert store.pieces(again) == []


def test_a_folder_is_of_one_job(tmp_path, store):
    """Outputs of two encoders side by side; a renamed input whose rows are then there twice."""
    file = one_file(tmp_path)
    take_over(store, [file], check_output(store.place))
    take_over(store, [file], check_output(store.place))
    found = check_output(store.place)
    with pytest.raises(WorkdirError, match="made with another encoder; name a new"):
        take_over(Store(store.place, {"encoder": "two"}, ""), [file], found)
    with pytest.raises(WorkdirError, match=r"holds vectors of a\.parquet \(1 in all\), which"):
        take_over(store, [], found)
    write(tmp_path / "out" / "mine.parquet", range(3))
    with pytest.raises(WorkdirError, match=r"holds mine\.parquet, which no job"):
        check_output(store.place)
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkdirError, match="is a file"):
        check_output(open_place(str(tmp_path / "file"), "--output"))


@pytest.mark.parametrize(
    ("given", "output", "text"),
    [
        ("", "in/out", "lies in --input"),
        ("/**/*.parquet", "in/out", "lies in --input"),
        ("/x/*.parquet", "in/x", "is the folder of the input"),
        ("/*.parquet", "in/out", ""),
        ("/x", "in", "is the folder of the input"),
    ],
)
def test_outputs_are_kept_apart_from_inputs(corpus, given, output, text):
    """An input that is overwritten; vectors that the next run embeds once more."""
    source = open_place(f"{corpus}{given}", "--input")
    target = open_place(str(corpus.parent / output), "--output")
    files, _ = find_inputs(source)
    if not text:
        check_apart(source, target, files)
        return
    with pytest.raises(ConfigError, match=text):
        check_apart(source, target, files)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"column": "body"}, "no columns are named 'body' .*id, text"),
        ({"column": "id"}, "column 'id' holds int64, not text"),
        ({"output_column": "id"}, "the column 'id' is there already"),
        ({"id_column": "key"}, "no columns are named 'key'"),
    ],
)
def test_columns_are_checked_before_ray_starts(tmp_path, fields, text):
    schema = write(tmp_path / "a.parquet", range(3)).schema
    with pytest.raises(DataError, match=text):
        RayJob("a.parquet", "out", EncoderSpec("mini_bert"), **fields).kept(schema)


def test_devices_of_a_worker():
    """A worker on a GPU node that takes the GPU for CPU work; two on one card that each take 75 %."""
    assert worker_environment(0.5, 0, None) == {
        "JAX_PLATFORMS": "cpu",
        "NPROC": "1",
        "RAYON_NUM_THREADS": "1",
    }
    assert worker_environment(4, 1, {})["JAX_PLATFORMS"] == "cuda,cpu"
    assert worker_environment(4, 0.5, {})["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.375"
    host = worker_environment(8, 0, {"TPU": 4})
    assert (host["JAX_PLATFORMS"], host["NPROC"]) == ("tpu,cpu", "8")
    assert (host["TPU_CHIPS_PER_HOST_BOUNDS"], host["TPU_HOST_BOUNDS"]) == ("2,2,1", "1,1,1")
    # Ray itself sets the bounds of one chip or two.
    assert "TPU_HOST_BOUNDS" not in worker_environment(1, 0, {"TPU": 1})


@pytest.mark.parametrize(
    ("fields", "kind", "text"),
    [
        ({"num_gpus": 1, "resources": {"TPU": 4}}, ConfigError, "on GPUs or on TPUs"),
        ({"num_cpus": -1}, ConfigError, "num_cpus=-1"),
        ({"concurrency": 0}, InputError, "concurrency=0"),
        ({"concurrency": (3, 2)}, ConfigError, r"concurrency=\(3, 2\)"),
    ],
)
def test_workers_that_cannot_be(fields, kind, text):
    with pytest.raises(kind, match=text):
        Workers(**fields).check()


def test_encoders_that_cannot_be(tmp_path, monkeypatch):
    """Workers have a current folder of their own: a relative path must not be looked up there."""
    for spec, text in (
        (EncoderSpec(), "either --workdir"),
        (EncoderSpec("mini_bert", workdir="run"), "either --workdir"),
        (EncoderSpec(workdir="run", pooling="cls"), "--pooling goes with --encoder"),
        (EncoderSpec("mini_bert", step=3), "--step goes with --workdir"),
        (EncoderSpec(workdir="run", step="newest"), "must be the number of a step"),
    ):
        with pytest.raises(ConfigError, match=text):
            spec.check()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    assert EncoderSpec(workdir="run").absolute().workdir == str(tmp_path / "run")
    assert EncoderSpec("org/model").absolute().encoder == "org/model"
    assert EncoderSpec(workdir="gs://bucket/run").absolute().workdir == "gs://bucket/run"


def test_without_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        ConfigError, match=r"needs Ray Data.*pip install 'ray.data.>=2.60,<2.64' .the extra ray"
    ):
        embed_dataset(None, "mini_bert")


def test_importing_the_adapter_loads_neither_ray_nor_jax():
    """JAX in a worker must start after the worker has said on what."""
    code = (
        "import sys, bertflow_jax.integrations.ray_data, bertflow_jax.integrations.ray_stages;"
        "print([name for name in ('ray', 'jax', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ((), "--input is missing"),
        (("--input=a", "--output=b"), "give either --workdir=DIR"),
        (("--input=a", "--output=b", "--encoder=e", "--concurrency=x"), "LEAST,MOST"),
        (("--input=a", "--output=b", "--encoder=e", "--gpus_per_worker=-1"), "gpus_per_worker"),
        (("--input=none", "--output=b", "--encoder=e"), "no .parquet files there"),
    ],
)
def test_wrong_flags_are_one_sentence(tmp_path, flags, text):
    command = [sys.executable, "-m", "bertflow_jax.integrations.ray_data", *flags]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr
