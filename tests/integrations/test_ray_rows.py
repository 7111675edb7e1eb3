"""Rows as files and datasets may hold them, on a real Ray: the vectors of `encode`, or our error."""

import dataclasses
import os
import shutil
import signal

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bertflow_jax.errors import BertFlowError, DataError, InputError, TrainingError, WorkdirError
from bertflow_jax.integrations import ray_job, ray_manifest
from bertflow_jax.integrations.ray_data import EncoderSpec, Workers, embed_dataset
from bertflow_jax.integrations.ray_job import Counts, RayJob, run_ray_job

pyarrow = pytest.importorskip("pyarrow", reason="the files are Parquet")
pytest.importorskip("ray.data", reason="ray is not installed")
import ray  # noqa: E402
from pyarrow import parquet  # noqa: E402

pytestmark = pytest.mark.slow
TEXTS = ["a b", "", "c", "  ", "p o n", "a"]
NO_UTF8 = pyarrow.Array.from_buffers(
    pyarrow.string(), 3, pyarrow.array([b"a", b"b", b"\xff\xfe"]).buffers()
)


@pytest.fixture
def job(folder, tmp_path):
    """Write files of these columns of texts; return the job that embeds them."""

    def make(*columns, **fields):
        for number, column in enumerate(columns):
            (tmp_path / "in").mkdir(exist_ok=True)
            ids = pyarrow.array(range(len(column)), pyarrow.int64())
            table = pyarrow.table({"id": ids, "text": column})
            parquet.write_table(table, tmp_path / "in" / f"{number}.parquet", row_group_size=4)
        fields = {"rows_per_batch": 4, "workers": Workers(1), **fields}
        return RayJob(
            str(tmp_path / "in"), str(tmp_path / "out"), EncoderSpec(str(folder)), **fields
        )

    return make


def vectors(job, number):
    """Return float32[N, 16] of an output."""
    table = parquet.read_table(f"{job.output}/{number}.parquet")
    return np.array(table["embedding"].to_pylist(), np.float32).reshape(-1, 16)


def test_texts_of_every_type_and_the_empty_ones_are_counted(cluster, job, encode, caplog):
    """Vectors of no words among the others, and nobody is told; the count of one piece for all."""
    made = job(*[pyarrow.array(TEXTS)] * 3)
    assert run_ray_job(made) == Counts(rows=18, files=3, computed=18, cut=0, empty=6)
    assert f"{made.input}: 6 of 18 texts are empty: all of them get one and the same" in caplog.text
    for number in range(3):
        np.testing.assert_allclose(vectors(made, number), encode(TEXTS), atol=1e-6)
    caplog.clear()
    assert run_ray_job(made) == Counts(rows=18, files=3, computed=0, cut=0, empty=0)
    assert "empty" not in caplog.text
    # Ray cannot send the first kind by itself: "Unhandled Arrow array type".
    for kind in (pyarrow.string_view(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string())):
        shutil.rmtree(made.output)
        made = job(pyarrow.array(TEXTS, kind), pyarrow.array([], kind), pyarrow.array([""], kind))
        assert run_ray_job(made).empty == 3
        np.testing.assert_allclose(vectors(made, 0), encode(TEXTS), atol=1e-6)
        assert parquet.read_table(f"{made.output}/0.parquet")["text"].to_pylist() == TEXTS
        assert vectors(made, 1).shape == (0, 16)


def test_files_without_a_row(cluster, job):
    """A job without work that waits for workers, or leaves out the outputs."""
    none = pyarrow.array([], pyarrow.string())
    made = job(none, none)
    assert run_ray_job(made) == Counts(rows=0, files=2, computed=0, cut=0)
    assert vectors(made, 0).shape == vectors(made, 1).shape == (0, 16)


@pytest.mark.parametrize(
    ("column", "kind", "said"),
    [
        (pyarrow.array([*TEXTS, None]), InputError, "1.parquet, column 'text': row 6 is NoneType"),
        (NO_UTF8, DataError, "1.parquet, row 2: column 'text' holds bytes that are not UTF-8"),
    ],
    ids=["none", "utf8"],
)
def test_a_row_that_is_no_text_is_named(cluster, job, column, kind, said):
    """ "column 'text' holds bytes that are not UTF-8", somewhere in a hundred files."""
    with pytest.raises(kind) as raised:
        run_ray_job(job(pyarrow.array(["a"] * 9), column))
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "column",
    [[1, 2], [1.0, float("nan")], [True], [["a"]], [b"a"], [None], [{"a": "b"}]],
    ids=["int", "nan", "bool", "list", "binary", "null", "struct"],
)
def test_columns_of_other_types(job, column):
    """Before Ray starts: numbers are no texts, though they could be written as some."""
    with pytest.raises(DataError, match=r"column 'text' holds .*, not text; set --column"):
        run_ray_job(job(pyarrow.array(column)))


def killed_after_writing(marker):
    """Return `write_pieces`, of which one call kills its process when its pieces are written."""
    write = ray_job.write_pieces

    def killed(table, *args):
        found = write(table, *args)
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return found
        os.kill(os.getpid(), signal.SIGKILL)

    return killed


def test_a_writer_that_is_killed(cluster, job, encode, tmp_path, monkeypatch):
    """Rows twice, of pieces whose writer died before it could say that they are there."""
    marker = tmp_path / "killed"
    monkeypatch.setattr(ray_job, "write_pieces", killed_after_writing(str(marker)))
    made = job(pyarrow.array(TEXTS * 5), pyarrow.array(TEXTS))
    assert run_ray_job(made) == Counts(rows=36, files=2, computed=36, cut=0, empty=12)
    assert marker.exists()
    np.testing.assert_allclose(vectors(made, 0), encode(TEXTS * 5), atol=1e-6)
    assert sorted(os.listdir(made.output)) == ["0.parquet", "1.parquet", "_manifest.json"]


class Dies(ray_job.EmbedRows):
    """A worker that its rows kill."""

    def __call__(self, table):
        os.kill(os.getpid(), signal.SIGKILL)


def test_rows_that_kill_every_worker(cluster, job, encode, monkeypatch):
    """A job without end, or a page of Ray's; the same command then goes on."""
    made = job(pyarrow.array(TEXTS))
    kind = type("Dies", (ray_job.EmbedRows,), dict(vars(Dies)))  # by value, as of a local class
    with monkeypatch.context() as patched:
        patched.setattr(ray_job, "EmbedRows", kind)
        patched.setattr("bertflow_jax.integrations.ray_data._RETRIES", 1)
        with pytest.raises(TrainingError, match=r"Ray gave up on a worker: .*where this one stop"):
            run_ray_job(made)
    assert run_ray_job(made).computed == 6
    np.testing.assert_allclose(vectors(made, 0), encode(TEXTS), atol=1e-6)


def test_other_weights_at_the_same_place(cluster, job, folder, tmp_path):
    """A resumed job whose later rows are another encoder's, under one name."""
    made = job(pyarrow.array(TEXTS))
    place = shutil.copytree(folder, tmp_path / "encoder")
    made = dataclasses.replace(made, spec=EncoderSpec(str(place)))
    assert run_ray_job(made).computed == 6
    before = vectors(made, 0)
    weights = load_file(place / "model.safetensors")
    weights = {name: array * np.float32(1.5) for name, array in weights.items()}
    save_file(weights, place / "model.safetensors")
    for changed in (made, dataclasses.replace(made, spec=EncoderSpec(str(folder), pooling="cls"))):
        with pytest.raises(WorkdirError, match="made with another encoder; name a new folder"):
            run_ray_job(changed)
    np.testing.assert_array_equal(vectors(made, 0), before)


def test_an_encoder_that_changes_while_a_job_starts(cluster, job, folder, tmp_path, monkeypatch):
    """Vectors of other weights under the digest of those that were there before, and no word: a
    run that goes on, or a branch of the Hub that moves, while the workers load."""
    place = shutil.copytree(folder, tmp_path / "encoder")
    made = dataclasses.replace(job(pyarrow.array(TEXTS)), spec=EncoderSpec(str(place)))

    def replaced(*given):
        ray_manifest.take_over(*given)  # the job has described its encoder, no worker has it yet
        weights = load_file(folder / "model.safetensors")
        weights = {name: array * np.float32(1.5) for name, array in weights.items()}
        save_file(weights, place / "model.safetensors")

    with monkeypatch.context() as patched:
        patched.setattr(ray_job, "take_over", replaced)
        with pytest.raises(
            InputError, match=r"has loaded another encoder than .*other: weights_sha256"
        ):
            run_ray_job(made)
    assert not os.path.exists(f"{made.output}/0.parquet")
    shutil.copy(folder / "model.safetensors", place)
    assert run_ray_job(made).computed == 6


@pytest.mark.parametrize(
    ("table", "kind", "said"),
    [
        ({"text": ["a", None]}, InputError, "row 1 is NoneType, not str"),
        ({"text": [1, 2]}, InputError, "row 0 is int, not str"),
        ({"body": ["a"]}, DataError, "no column 'text' of texts among 'body'"),
        ({"text": ["a"], "embedding": [1]}, DataError, "a column 'embedding' already"),
    ],
    ids=["none", "int", "missing", "taken"],
)
def test_bad_rows_of_a_dataset_are_errors_of_ours(cluster, folder, table, kind, said):
    """A UserCodeException of Ray's, which no `except BertFlowError` has."""
    dataset = ray.data.from_arrow(pyarrow.table(table))
    before = ray.data.DataContext.get_current().raise_original_map_exception
    with pytest.raises(BertFlowError) as raised:
        embed_dataset(dataset, str(folder), concurrency=1).take_all()
    assert isinstance(raised.value, kind)
    assert said in str(raised.value)
    assert ray.data.DataContext.get_current().raise_original_map_exception == before


def test_a_dataset_without_rows(cluster, folder):
    for dataset in (
        ray.data.from_arrow(pyarrow.table({"text": pyarrow.array([], pyarrow.string())})),
        ray.data.from_items([]),
        ray.data.from_items([{"text": "a"}]).filter(lambda row: False),
    ):
        assert embed_dataset(dataset, str(folder), concurrency=1).take_all() == []
