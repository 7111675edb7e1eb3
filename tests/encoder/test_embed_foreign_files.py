"""Files of other software where an embedding job puts its own. Each test names the bug."""

import json
import os

import numpy as np
import pytest

from bertflow_jax.data.rows import open_rows
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.embed_job import EmbedJob, run_job
from bertflow_jax.errors import WorkdirError
from bertflow_jax.output_locks import same_job, sole_writer
from bertflow_jax.postprocess.vector_files import open_vectors
from bertflow_jax.postprocess.vector_output import check_output
from bertflow_jax.workdir_lock import lock_workdir


@pytest.fixture
def encoder(bert_folder):
    return SentenceEncoder.from_pretrained(bert_folder())


@pytest.fixture
def job(tmp_path):
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in "abcdef"))
    (tmp_path / "site").mkdir()

    def make(output="site"):
        return EmbedJob(open_rows(tmp_path / "in.txt"), tmp_path / output)

    return make


FOREIGN = ['{"precious": 1}', '{"parts": []}', '{"rows_sha256": "a"}', "[1]", "not JSON", ""]


@pytest.mark.parametrize("content", FOREIGN)
def test_an_index_of_other_software(encoder, job, tmp_path, content):
    """Bug: deleted at the start, and replaced, with exit code 0 and without a word."""
    (tmp_path / "site" / "index.json").write_text(content)
    with pytest.raises(WorkdirError, match=r"index\.json is not an index of ours; name another"):
        run_job(encoder, job())
    assert os.listdir(tmp_path / "site") == ["index.json"]
    assert (tmp_path / "site" / "index.json").read_text() == content


def test_a_damaged_index_of_ours_is_replaced(encoder, job):
    """Bug: refused for good where a copy was cut, though the parts beside it say whose it is."""
    run_job(encoder, job())
    index = job().output / "index.json"
    whole = index.read_text()
    for content in ("", whole[:40]):
        index.write_text(content)
        run_job(encoder, job())
        assert index.read_text() == whole


@pytest.mark.parametrize("name", ["site", "v.npy"])
def test_a_lock_of_other_software(encoder, job, tmp_path, name):
    """Bug: emptied, used and deleted."""
    lock = tmp_path / "site" / ".lock" if name == "site" else tmp_path / ".v.npy.lock"
    lock.write_text("mylock\n")
    before = lock.stat().st_mtime_ns
    with pytest.raises(WorkdirError, match=r"lock is not a lock of ours; .* move it away"):
        run_job(encoder, job(name))
    assert (lock.read_text(), lock.stat().st_mtime_ns) == ("mylock\n", before)
    lock.unlink()
    run_job(encoder, job(name))
    assert not lock.exists()


def embed_check(folder):
    EmbedJob(open_rows(folder / "in.txt"), folder / "site").check()


def embed_file_check(folder):
    EmbedJob(open_rows(folder / "in.txt"), folder / "v.npy").check()


def apply_check(folder):
    np.save(folder / "u.npy", np.eye(3, dtype=np.float32))
    check_output(folder / "v.npy", open_vectors(folder / "u.npy"))


LOCKS = {
    "a file": (lambda lock: lock.write_text("mylock"), "not a lock of ours"),
    "a link": (lambda lock: lock.symlink_to("in.txt"), "a link"),
    "a folder": (lambda lock: lock.mkdir(), "no file"),
    "a pipe": (os.mkfifo, "no file"),
}


@pytest.mark.parametrize("kind", LOCKS)
@pytest.mark.parametrize(
    ("check", "name"),
    [
        (embed_check, "site/.lock"),
        (embed_file_check, ".v.npy.lock"),
        (embed_check, "site/.part-00000-of-00001.npy.lock"),
        (apply_check, ".v.npy.lock"),
    ],
)
def test_a_lock_of_other_software_is_told_before_anything_is_loaded(
    job, tmp_path, check, name, kind
):
    """Bug: after the minutes that an encoder takes to load."""
    job()
    make, said = LOCKS[kind]
    make(tmp_path / name)
    with pytest.raises(WorkdirError, match=rf"lock is {said}; .* move it away"):
        check(tmp_path)
    assert os.path.lexists(tmp_path / name)


def test_locks_of_ours_are_no_reason_to_refuse_a_job_unseen(job, tmp_path):
    """Bug: what a killed job left, or a fellow holds, stops the job that may go on there."""
    job()
    with same_job(tmp_path / "site" / ".lock", "0" * 64, "--output=site"):
        embed_check(tmp_path)
    (tmp_path / ".v.npy.lock").touch()
    embed_file_check(tmp_path)
    assert os.listdir(tmp_path / "site") == []
    assert (tmp_path / ".v.npy.lock").read_bytes() == b""


@pytest.mark.parametrize("lock", [sole_writer, lambda *a: same_job(a[0], "0" * 64, a[1])])
def test_locks_that_were_there(tmp_path, lock):
    """Bug: an empty file that others have as their lock is deleted; what a kill leaves stays."""
    path = tmp_path / ".lock"
    path.touch()
    with lock(path, "--output=x"):
        pass
    assert path.read_bytes() == b""
    path.unlink()
    with lock(path, "--output=x"):
        left = path.read_bytes()
    assert not path.exists()
    for left_by in (left, b"f" * 64):  # the second by an older version
        path.write_bytes(left_by)
        with lock(path, "--output=x"):
            pass
        assert not path.exists()


def test_the_lock_of_a_run_stays(tmp_path):
    """Bug: `fit --output=RUN` deletes the lock of a run, and the next two runs share a workdir."""
    with lock_workdir(tmp_path):
        pass
    with sole_writer(tmp_path / ".lock", "--output=x"):
        pass
    assert (tmp_path / ".lock").exists()


@pytest.mark.parametrize("lock", [sole_writer, lambda *a: same_job(a[0], "0" * 64, a[1])])
@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_a_lock_that_is_no_file(tmp_path, lock, kind):
    """Bug: a raw message of the system, or a wait without end at the pipe."""
    path = tmp_path / ".lock"
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    with (
        pytest.raises(WorkdirError, match=r"--output=x: .*\.lock is no file; .*move it away"),
        lock(path, "--output=x"),
    ):
        pass
    assert path.exists()


def test_a_part_without_its_record_is_told(encoder, job, caplog):
    """Bug: somebody's file of a part's name was replaced without a word."""
    np.save(job().output / "part-00000-of-00001.npy", np.ones((3, 2)))
    run_job(encoder, job())
    assert "part-00000-of-00001.npy is there without a .json of ours and will be" in caplog.text
    assert json.loads((job().output / "index.json").read_text())["rows"] == 6
