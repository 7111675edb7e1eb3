"""Ray Data on a real Ray of two CPUs: the vectors of `encode`, every row once, whoever is killed."""

import dataclasses
import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax.errors import ConfigError, DataNotFoundError, InputError, WorkdirError
from bertflow_jax.integrations import ray_data, ray_job
from bertflow_jax.integrations.ray_data import EncoderSpec, Workers, embed_dataset
from bertflow_jax.integrations.ray_job import Counts, RayJob, run_ray_job
from bertflow_jax.integrations.ray_stages import error_of

pyarrow = pytest.importorskip("pyarrow", reason="the files are Parquet")
pytest.importorskip("ray.data", reason="ray is not installed")
import ray  # noqa: E402
from pyarrow import parquet  # noqa: E402

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def texts(count, seed):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(list("abcdefgh"), n)) for n in rng.integers(0, 9, count)]


def corpus(folder, sizes, first=0):
    """Write files of these numbers of rows, ids from `first` on."""
    for number, rows in enumerate(sizes):
        ids = pyarrow.array(range(first, first + rows), pyarrow.int64())
        words = pyarrow.array(texts(rows, number), pyarrow.string())
        tags = pyarrow.array([[i, i] for i in ids.to_pylist()], pyarrow.list_(pyarrow.int64()))
        table = pyarrow.table({"id": ids, "text": words, "tags": tags})
        path = folder / f"part-{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(table, path, row_group_size=64)
        first += rows


def killed_once(kind, marker):
    """Return the class, of which one object kills its process at its second batch."""

    # A local class goes to the workers by value.
    class Killed(kind):
        calls = 0

        def __call__(self, table):
            self.calls += 1
            if self.calls == 2:
                try:
                    os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    return super().__call__(table)
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__call__(table)

    return Killed


def check_outputs(source, output, encode, count):
    """Every row is there once, in its file and in order, with the vector that it has alone."""
    found = 0
    for path in sorted(source.glob("*.parquet")):
        before = parquet.read_table(path)
        after = parquet.read_table(output / path.name)
        assert after.drop(["embedding"]).equals(before)
        assert after.schema.field("embedding").type == pyarrow.list_(pyarrow.float32(), 16)
        vectors = np.array(after["embedding"].to_pylist(), np.float32).reshape(-1, 16)
        np.testing.assert_allclose(vectors, encode(before["text"].to_pylist()), atol=1e-6)
        found += after.num_rows
    assert found == count
    assert {p.name for p in output.iterdir()} == {
        "_manifest.json",
        *(path.name for path in source.glob("*.parquet")),
    }


def test_a_dataset_gets_the_vectors_of_encode_though_a_worker_is_killed(
    cluster, folder, encode, tmp_path, monkeypatch
):
    """Rows that are lost or doubled when a worker's batch is done again; vectors of other rows."""
    marker = tmp_path / "killed"
    monkeypatch.setattr(ray_data, "EmbedTable", killed_once(ray_data.EmbedTable, str(marker)))
    table = pyarrow.table({"id": range(300), "text": texts(300, 0)})
    dataset = ray.data.from_arrow([table.slice(i, 50) for i in range(0, 300, 50)])
    embedded = embed_dataset(
        dataset, str(folder), rows_per_batch=20, normalize=True, concurrency=1, batch_size=8
    )
    parts = list(embedded.iter_batches(batch_size=None, batch_format="pyarrow"))
    assert marker.exists()
    found = pyarrow.concat_tables(parts).sort_by("id")
    assert found.drop(["embedding"]).equals(table)
    vectors = np.array(found["embedding"].to_pylist(), np.float32)
    np.testing.assert_allclose(vectors, encode(texts(300, 0), normalize=True), atol=1e-6)


def test_a_job_with_a_killed_worker_has_every_row_once(
    cluster, folder, encode, tmp_path, monkeypatch
):
    """Pieces that both the killed worker and its successor write; files whose rows share a batch."""
    corpus(tmp_path / "in", [130, 0, 70, 200])
    marker = tmp_path / "killed"
    monkeypatch.setattr(ray_job, "EmbedRows", killed_once(ray_job.EmbedRows, str(marker)))
    job = RayJob(
        str(tmp_path / "in"),
        str(tmp_path / "out"),
        EncoderSpec(str(folder)),
        rows_per_batch=32,
        workers=Workers(2),
    )
    empty = sum(
        not text for number in (0, 2, 3) for text in texts([130, 0, 70, 200][number], number)
    )
    assert run_ray_job(job) == Counts(rows=400, files=4, computed=400, cut=0, empty=empty)
    assert marker.exists()
    check_outputs(tmp_path / "in", tmp_path / "out", encode, 400)


def test_mistakes_are_named_and_mended_without_doing_the_rest_again(
    cluster, folder, encode, tmp_path, caplog
):
    """A Ray traceback instead of file and row; an error after which all is embedded again."""
    source, output = tmp_path / "in", tmp_path / "out"
    corpus(source, [40, 90])
    bad = source / "part-1.parquet"
    rows = parquet.read_table(bad)
    texts_of = rows["text"].to_pylist()
    where = rows.schema.get_field_index("text")
    parquet.write_table(
        rows.set_column(where, "text", [[*texts_of[:77], None, *texts_of[78:]]]), bad
    )
    job = RayJob(
        str(source), str(output), EncoderSpec(str(folder)), rows_per_batch=32, workers=Workers(1)
    )
    with pytest.raises(InputError) as raised:
        run_ray_job(job)
    expected = "part-1.parquet, column 'text': row 77 is NoneType, not str"
    assert (type(raised.value), str(raised.value)) == (InputError, expected)
    parquet.write_table(rows.set_column(where, "text", [["i " * 30, *texts_of[1:]]]), bad)
    done = run_ray_job(job)
    assert (done.rows, done.cut) == (130, 1)
    assert done.computed <= 130
    assert "1 of" in caplog.text
    check_outputs(source, output, encode, 130)
    with pytest.raises(WorkdirError, match="made with another normalize"):
        run_ray_job(dataclasses.replace(job, normalize=True))


def test_what_keeps_an_encoder_from_loading_reaches_the_caller(cluster, folder, tmp_path):
    """The death of an actor, two hundred lines long, instead of the name of the folder."""
    corpus(tmp_path / "in", [3])
    job = RayJob(str(tmp_path / "in"), str(tmp_path / "out"), EncoderSpec(str(tmp_path / "none")))
    with pytest.raises(DataNotFoundError, match="folder not found"):
        run_ray_job(job)
    dataset = ray.data.from_arrow(pyarrow.table({"text": ["a"]}))
    with pytest.raises(ray.exceptions.RayTaskError, match="folder not found"):
        embed_dataset(dataset, str(tmp_path / "none"), concurrency=1).materialize()
    job = RayJob(
        str(tmp_path / "in"),
        str(tmp_path / "out"),
        EncoderSpec(str(folder)),
        workers=Workers(num_cpus=64),
    )
    with pytest.raises(ConfigError, match="no machine of the cluster has the 64 CPU"):
        run_ray_job(job)
    assert error_of(ValueError("another one")) is None


def test_a_command_that_is_killed_goes_on(cluster, folder, encode, tmp_path):
    """Rows twice, or never, after the death of the process that counts them."""
    source, output = tmp_path / "in", tmp_path / "out"
    corpus(source, [60] * 10)
    command = [
        *(sys.executable, "-m", "bertflow_jax.integrations.ray_data", f"--address={cluster}"),
        *(f"--encoder={folder}", f"--input={source}/*.parquet", f"--output={output}"),
        *("--rows_per_batch=20", "--concurrency=1"),
    ]
    start = functools.partial(
        subprocess.Popen,
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process = start()
    while not list(output.glob("*.parquet")) and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    _, err = process.communicate()
    assert process.returncode == -signal.SIGKILL, err
    assert len(list(output.glob("*.parquet"))) < 10
    process = start()
    out, err = process.communicate()
    assert process.returncode == 0, err
    computed = int(out.rpartition("(")[2].split()[0])
    assert out == f"600 rows in 10 files: {output} ({computed} computed now)\n"
    assert 0 < computed < 600
    check_outputs(source, output, encode, 600)
