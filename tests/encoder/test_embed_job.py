"""Embedding files: every row, in order, the same bytes whatever interrupted the job."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax.data.rows import RowFile, open_rows
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.embed_job import EmbedJob, run_job
from bertflow_jax.errors import ConfigError, DataError, WorkdirError

ROOT = Path(__file__).resolve().parents[2]
WINDOW = 8


@pytest.fixture
def encoder(bert_folder, monkeypatch):
    encoder = SentenceEncoder.from_pretrained(bert_folder())
    stream = encoder.encode_stream

    def small_windows(*args, **kwargs):
        return stream(*args, **kwargs, window=WINDOW)

    monkeypatch.setattr(encoder, "encode_stream", small_windows)
    return encoder


def texts(count, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice([*"abcdefgh", "the", "dog"], n)) for n in rng.integers(0, 9, count)]


@pytest.fixture
def job(tmp_path):
    def make(output, count=30, rows=None, **fields):
        path = tmp_path / "in.txt"
        path.write_text("".join(f"{text}\n" for text in (rows or texts(count))))
        return EmbedJob(open_rows(path), tmp_path / output, batch_size=4, **fields)

    return make


def test_npy_holds_every_row_in_order(encoder, job):
    """Blank lines are rows too: texts() has some."""
    assert "" in texts(30)
    assert run_job(encoder, job("out.npy")) == 30
    found = np.load(job("out.npy").output)
    np.testing.assert_allclose(found, encoder.encode(texts(30)), atol=1e-5)
    assert found.dtype == np.float32
    assert sorted(p.name for p in job("out.npy").output.parent.glob("*out*")) == ["out.npy"]


def _stop_after(monkeypatch, encoder, windows):
    """Make encode_stream end with an error after some windows, as a full disk or a kill would."""
    stream = encoder.encode_stream

    def interrupted(*args, **kwargs):
        for i, window in enumerate(stream(*args, **kwargs)):
            if i == windows:
                raise KeyboardInterrupt
            yield window

    monkeypatch.setattr(encoder, "encode_stream", interrupted)
    return stream


@pytest.mark.parametrize("windows", [0, 1, 3])
def test_an_interrupted_job_goes_on_and_gives_the_same_bytes(encoder, job, monkeypatch, windows):
    """Rows done are not done again, nothing has the final name before the end."""
    run_job(encoder, job("straight.npy"))
    stream = _stop_after(monkeypatch, encoder, windows)
    with pytest.raises(KeyboardInterrupt):
        run_job(encoder, job("out.npy"))
    assert not job("out.npy").output.exists()
    first_rows = []

    def watched(*args, **kwargs):
        first_rows.append(kwargs["first_row"])
        return stream(*args, **kwargs)

    monkeypatch.setattr(encoder, "encode_stream", watched)
    run_job(encoder, job("out.npy"))
    assert first_rows == [windows * WINDOW]
    assert job("out.npy").output.read_bytes() == job("straight.npy").output.read_bytes()


@pytest.mark.parametrize("change", ["text", "setting", "encoder", "record"])
def test_another_job_does_not_go_on_with_the_rows_of_this_one(
    encoder, job, monkeypatch, bert_folder, change
):
    """The worst of resumes: half of the rows from another text, encoder or setting."""
    _stop_after(monkeypatch, encoder, 2)
    with pytest.raises(KeyboardInterrupt):
        run_job(encoder, job("out.npy"))
    rows, fields = texts(30), {}
    other = SentenceEncoder.from_pretrained(bert_folder("same"))
    if change == "text":
        rows[0] = "dog dog"
    elif change == "setting":
        fields = {"normalize": True}
    elif change == "encoder":
        other = SentenceEncoder.from_pretrained(bert_folder("other", seed=1))
    else:
        record = job("out.npy").output.parent / ".out.npy.partial" / "done.json"
        record.write_text(record.read_text()[:-20])
    run_job(other, job("out.npy", rows=rows, **fields))
    expected = other.encode(rows, normalize=change == "setting")
    np.testing.assert_allclose(np.load(job("out.npy").output), expected, atol=1e-5)


def test_parts_and_their_index(encoder, job, caplog):
    """Three processes with parts of ten rows: each row in one part, the index when all are there."""
    count = sum(
        run_job(encoder, job("parts", count=34, shard_rows=10, process=i, processes=3))
        for i in (2, 0)
    )
    folder = job("parts").output
    assert count == 24
    assert not (folder / "index.json").exists()
    caplog.set_level("INFO", "bertflow_jax")
    run_job(encoder, job("parts", count=34, shard_rows=10, process=1, processes=3))
    assert "index.json lists 34 rows in 4 parts" in caplog.text
    index = json.loads((folder / "index.json").read_text())
    assert [(p["file"], p["start"], p["stop"]) for p in index["parts"]] == [
        (f"part-{i:05d}-of-00004.npy", 10 * i, min(34, 10 * i + 10)) for i in range(4)
    ]
    whole = np.concatenate([np.load(folder / part["file"]) for part in index["parts"]])
    np.testing.assert_allclose(whole, encoder.encode(texts(34)), atol=1e-5)
    assert not list(folder.glob(".*"))


def test_parquet_keeps_the_ids(encoder, job, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    run_job(encoder, job("out.parquet"))
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found.column("id").to_pylist() == list(range(30))
    vectors = np.array(found.column("vector").to_pylist(), np.float32)
    np.testing.assert_allclose(vectors, encoder.encode(texts(30)), atol=1e-5)


@pytest.mark.parametrize("output", ["out.npy", "parts"])
def test_an_empty_file_gives_no_rows(encoder, job, output):
    path = job(output, rows=["x"]).rows.path
    path.write_text("")
    empty = EmbedJob(open_rows(path), job(output, rows=["x"]).output, batch_size=4)
    path.write_text("")
    assert run_job(encoder, empty) == 0
    file = empty.output if output == "out.npy" else empty.output / "part-00000-of-00001.npy"
    assert np.load(file).shape == (0, 16)


def test_bad_rows_stop_the_job_before_it_starts(encoder, tmp_path, monkeypatch):
    """Found after hours, a NaN in the last row would have cost them."""
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n' * 20 + '{"text": null}\n')
    monkeypatch.setattr(encoder, "encode_stream", lambda *a, **k: pytest.fail("it started"))
    job = EmbedJob(open_rows(tmp_path / "in.jsonl"), tmp_path / "out.npy", batch_size=4)
    with pytest.raises(DataError, match=r"in\.jsonl, line 21: the text in column 'text' is null"):
        run_job(encoder, job)
    assert not (tmp_path / "out.npy").exists()


def test_outputs_that_cannot_be(job, tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "dir.npy").mkdir()
    for output, fields, error in [
        ("out.npy", {"processes": 2}, ConfigError),
        ("out.npy", {"shard_rows": 5}, ConfigError),
        ("file", {}, WorkdirError),
        ("dir.npy", {}, WorkdirError),
        ("file/out.npy", {}, WorkdirError),
    ]:
        with pytest.raises(error, match=r"--output|--shard_rows"):
            job(output, **fields).check()


@pytest.mark.slow
def test_killed_and_started_again(bert_folder, tmp_path):
    """kill -9 at three moments of the command, then to the end: the bytes of a straight run."""
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{text}\n" for text in texts(30_000)))
    command = [
        sys.executable, "-m", "bertflow_jax.embed", f"--encoder={bert_folder()}",
        f"--input={path}",
    ]  # fmt: skip
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}

    def run(output, kill_after_rows=None):
        process = subprocess.Popen(
            [*command, f"--output={tmp_path / output}"],
            cwd=ROOT, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        record = tmp_path / f".{output}.partial" / "done.json"
        while kill_after_rows is not None and process.poll() is None:
            if record.exists() and json.loads(record.read_text())["done"] >= kill_after_rows:
                process.kill()
            time.sleep(0.002)
        process.communicate()
        return process.returncode

    assert run("straight.npy") == 0
    codes = [run("out.npy", rows) for rows in (1, 9000, 17000)]
    assert codes == [-9, -9, -9]
    assert run("out.npy") == 0
    assert (tmp_path / "out.npy").read_bytes() == (tmp_path / "straight.npy").read_bytes()


def test_e06_eight_devices_give_the_vectors_of_one(encoder, bert_folder, tmp_path):
    """E06: a batch that does not divide by the devices loses no row and moves none."""
    program = (
        "import sys, numpy as np, jax\n"
        "from bertflow_jax import SentenceEncoder\n"
        "assert len(jax.devices()) == 8\n"
        "encoder = SentenceEncoder.from_pretrained(sys.argv[1])\n"
        "lines = open(sys.argv[2]).read().split('\\n')[:-1]\n"
        "np.save(sys.argv[3], [encoder.encode(lines[:n], 8)[n - 1] for n in (1, 7, 33)])\n"
        "np.save(sys.argv[4], encoder.encode(lines, 8))\n"
    )
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{text}\n" for text in texts(33)))
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    subprocess.run(
        [sys.executable, "-c", program, bert_folder("again"), path, tmp_path / "a", tmp_path / "b"],
        check=True, cwd=ROOT, env={**os.environ, **flags}, timeout=300,
    )  # fmt: skip
    expected = encoder.encode(texts(33), batch_size=8)
    np.testing.assert_allclose(np.load(tmp_path / "b.npy"), expected, atol=1e-5)
    np.testing.assert_allclose(np.load(tmp_path / "a.npy"), expected[[0, 6, 32]], atol=1e-5)


def test_two_processes_share_the_rows(encoder, bert_folder, tmp_path):
    """Each writes its own part; one of them, the last, the index."""
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{text}\n" for text in texts(33)))
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    command = [
        sys.executable, "-m", "bertflow_jax.embed", f"--encoder={bert_folder('again')}",
        f"--input={path}", f"--output={tmp_path / 'parts'}",
    ]  # fmt: skip
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "JAX_COORDINATOR_ADDRESS": address,
        "JAX_NUM_PROCESSES": "2",
    }
    running = [
        subprocess.Popen(command, cwd=ROOT, env={**environment, "JAX_PROCESS_ID": str(i)})
        for i in (0, 1)
    ]
    assert [process.wait(timeout=300) for process in running] == [0, 0]
    index = json.loads((tmp_path / "parts" / "index.json").read_text())
    assert [(p["start"], p["stop"]) for p in index["parts"]] == [(0, 17), (17, 33)]
    parts = [np.load(tmp_path / "parts" / part["file"]) for part in index["parts"]]
    np.testing.assert_allclose(np.concatenate(parts), encoder.encode(texts(33)), atol=1e-5)


def test_shards_together_are_the_unsharded_job(encoder, bert_folder, tmp_path):
    """Rows left out or embedded twice between shards, or an index that names another order."""
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{text}\n" for text in texts(34)))
    command = [
        sys.executable, "-m", "bertflow_jax.embed", f"--encoder={bert_folder('again')}",
        f"--input={path}",
    ]  # fmt: skip
    # Not in order, each on a machine of its own.
    for shard in (2, 0, 1):
        subprocess.run(
            [*command, f"--output={tmp_path / f'host{shard}'}", f"--shard={shard}/3"],
            cwd=ROOT, env={**os.environ, "JAX_PLATFORMS": "cpu"}, check=True, timeout=300,
        )  # fmt: skip
        assert not (tmp_path / f"host{shard}" / "index.json").exists()
    for shard in (0, 1, 2):
        shutil.copytree(tmp_path / f"host{shard}", tmp_path / "all", dirs_exist_ok=True)
    made = {p.name: p.stat().st_mtime_ns for p in tmp_path.glob("all/part-*")}
    subprocess.run(
        [*command, f"--output={tmp_path / 'all'}", "--shard=0/3"],
        cwd=ROOT, env={**os.environ, "JAX_PLATFORMS": "cpu"}, check=True, timeout=300,
    )  # fmt: skip
    index = json.loads((tmp_path / "all" / "index.json").read_text())
    assert [(p["start"], p["stop"]) for p in index["parts"]] == [(0, 12), (12, 24), (24, 34)]
    assert made == {p.name: p.stat().st_mtime_ns for p in tmp_path.glob("all/part-*")}
    parts = [np.load(tmp_path / "all" / part["file"]) for part in index["parts"]]
    np.testing.assert_allclose(np.concatenate(parts), encoder.encode(texts(34)), atol=1e-5)


def test_a_job_in_parts_reads_its_input_twice(encoder, job, monkeypatch):
    """Once to count, once to embed: a part that starts from the top again makes it quadratic."""
    opened, read = [], RowFile.blocks

    def counted(rows, *known):
        opened.append(rows.path)
        return read(rows, *known)

    monkeypatch.setattr(RowFile, "blocks", counted)
    run_job(encoder, job("parts", count=34, shard_rows=10))
    assert len(opened) == 2
