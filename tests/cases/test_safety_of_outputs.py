"""Names beside an output that lead elsewhere, or hold somebody's file. Each test names the bug."""

import fcntl
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax import Whitening
from bertflow_jax.errors import WorkdirError
from bertflow_jax.output_locks import same_job, sole_writer
from bertflow_jax.postprocess.apply_files import ApplyOptions, run_apply
from bertflow_jax.weight_output import write_safetensors
from bertflow_jax.workdir_lock import lock_workdir


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with vectors, a model for them and a file that nobody wants to lose."""
    monkeypatch.chdir(tmp_path)
    u = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    np.save("v.npy", u)
    Whitening().fit(u).save("white")
    Path("precious.txt").write_text("precious")
    return tmp_path


def apply(output="z.npy"):
    run_apply(ApplyOptions("white", "v.npy", output))


@pytest.mark.parametrize("output", ["z.npy", "z.parquet"])
def test_apply_writes_into_no_file_of_a_known_name(output):
    """Bug: vectors went through the link into precious.txt, and z.npy was a link to it."""
    if output.endswith("parquet"):
        pytest.importorskip("pyarrow")
    unfinished = Path(f".{output}.unfinished")
    unfinished.symlink_to("precious.txt")
    apply(output)
    assert Path("precious.txt").read_text() == "precious"
    assert not Path(output).is_symlink()
    assert unfinished.is_symlink()
    unfinished.unlink()
    unfinished.write_text("mine")
    apply(output)
    assert unfinished.read_text() == "mine"
    expected = Whitening.load("white").transform(np.load("v.npy"))
    if output == "z.npy":
        np.testing.assert_array_equal(np.load(output), expected)
    mask = os.umask(0)
    os.umask(mask)
    assert os.stat(output).st_mode & 0o777 == 0o666 & ~mask


def test_what_a_killed_apply_left_goes_with_the_next():
    """Bug: every kill leaves a file of the output's whole size for ever."""
    for left in (".z.npy.unfinished-ab12_xyz", ".z.npy.unfinished-00000000"):
        Path(left).write_bytes(b"x" * 1000)
    kept = [".z.npy.unfinished-mine", ".zz.npy.unfinished-ab12_xyz", ".z.npy.unfinished-AB12_xyz"]
    for name in kept:
        Path(name).write_text("x")
    Path(".z.npy.unfinished-ab12_xya").symlink_to("precious.txt")
    apply()
    found = {path.name for path in Path.cwd().iterdir() if ".unfinished" in path.name}
    assert found == {*kept, ".z.npy.unfinished-ab12_xya"}


def test_weights_are_written_into_no_file_of_a_known_name():
    """Bug: the same with `.model.safetensors.unfinished`."""
    Path(".m.safetensors.unfinished").symlink_to("precious.txt")
    write_safetensors(Path("m.safetensors"), {"a": np.ones(3, np.float32)})
    assert Path("precious.txt").read_text() == "precious"
    assert not Path("m.safetensors").is_symlink()
    assert sorted(p.name for p in Path.cwd().glob(".m*")) == [".m.safetensors.unfinished"]


@pytest.mark.parametrize(
    "lock",
    [
        lambda path: lock_workdir(path.parent),
        lambda path: sole_writer(path, "--output=x"),
        lambda path: same_job(path, "0" * 64, "--output=x"),
    ],
)
@pytest.mark.parametrize("target", ["precious.txt", "not_there"])
def test_a_lock_that_is_a_link(lock, target):
    """Bug: train emptied what it led to, embed wrote 64 digits into it."""
    path = Path("lk") / ".lock"
    path.parent.mkdir()
    path.symlink_to(Path("..") / target)
    with pytest.raises(WorkdirError, match=r"\.lock .*is a link; .*move it away"), lock(path):
        pass
    assert Path("precious.txt").read_text() == "precious"
    assert not Path("not_there").exists()
    assert path.is_symlink()


def test_a_look_at_a_workdir_does_not_hinder_a_run():
    """`run_at_work` has the lock for an instant: a run that began then was refused."""
    Path(".lock").touch()
    with open(".lock") as looks:
        fcntl.flock(looks, fcntl.LOCK_SH)
        ends = threading.Timer(0.06, lambda: fcntl.flock(looks, fcntl.LOCK_UN))
        ends.start()
        with lock_workdir(Path.cwd()) as lock:
            lock.check()
        ends.join()
        fcntl.flock(looks, fcntl.LOCK_SH)
        with pytest.raises(WorkdirError, match="in use by another run"), lock_workdir(Path.cwd()):
            pass


def test_the_lock_of_a_workdir_is_not_emptied():
    """Bug: a file of that name lost its content to `open("w")`."""
    Path(".lock").write_text("mylock")
    held = lock_workdir(Path.cwd())
    with pytest.raises(WorkdirError, match=r"\.lock is not a lock of ours; move it away"), held:
        pass
    assert Path(".lock").read_text() == "mylock"


def test_the_lock_of_a_run_is_taken_again():
    """What a killed run leaves in it is ours, for the next run and for other commands."""
    for _ in range(2):
        with lock_workdir(Path.cwd()) as lock:
            lock.check()
    with sole_writer(Path(".lock"), "--output=x"):
        pass
    with lock_workdir(Path.cwd()) as lock:
        lock.check()
