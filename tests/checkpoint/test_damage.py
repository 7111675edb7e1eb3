"""Damage of every kind is noticed, named once, and the newest good step used; foreign files stay."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from reference_flows import max_difference
from small_disk import mounted
from step_faults import data_files, flip, truncate

from bertflow_jax.checkpoint import CheckpointStore
from bertflow_jax.errors import CheckpointError, WorkdirError
from bertflow_jax.step_names import UNFINISHED_SAVE

ROOT = Path(__file__).resolve().parents[2]


def _empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize("fault", [truncate, _empty, flip, Path.unlink])
def test_damaged_arrays(store, read, made, fault, capfd, caplog):
    """One message: orbax's threads printed a traceback for each of the arrays beside it."""
    for path in data_files(store, 2):
        if path.stat().st_size > 1000:
            fault(path)
    found, arrays = read(store)
    assert found == 1
    assert max_difference(arrays, made(1)) == 0.0
    with pytest.raises(CheckpointError, match=r"checkpoints/2 is damaged") as caught:
        read(store, 2)
    assert "\n" not in str(caught.value)
    printed = capfd.readouterr()
    assert "Traceback" not in printed.err + printed.out
    assert all(record.exc_info is None for record in caplog.records)


@pytest.mark.parametrize("name", ["flow", "state", "config", "flow/_METADATA", "flow/d"])
def test_missing_parts(store, read, name):
    path = store.folder / "2" / name
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    assert read(store)[0] == (2 if name == "flow/_METADATA" else 1)


def test_leftovers_of_a_killed_save(store, read, caplog):
    """They took room for ever. A reader, which may look while a run writes, deletes nothing."""
    left = store.folder / "3.orbax-checkpoint-tmp"
    (left / "flow").mkdir(parents=True)
    assert read(CheckpointStore(store.folder.parent))[0] == 2
    assert left.is_dir()
    with CheckpointStore(store.folder.parent) as writer:
        assert writer.steps() == [1, 2]
    assert not left.exists()
    assert "3.orbax-checkpoint-tmp is what a stopped run left" in caplog.text


def test_foreign_files_stay(store, saved):
    """Notes beside the steps, or a folder of another name, are nobody's checkpoint."""
    (store.folder / "notes.txt").write_text("mine")
    (store.folder / "3").write_text("a file called like a step")
    theirs = ["best", "mine.deleted", "01.deleted", "mine.orbax-checkpoint-tmp", "old.passed_over"]
    for name in theirs:
        (store.folder / name).mkdir()
    with CheckpointStore(store.folder.parent, keep=1) as writer:
        saved(writer, 4)
    assert writer.steps() == [4]
    assert {path.name for path in store.folder.iterdir()} == {"notes.txt", "3", "4", *theirs}


def test_c01_another_number_of_devices(tmp_path, saved, read, made):
    """8 devices there, 1 here, and the other way round; no warning."""
    ours = CheckpointStore(tmp_path / "ours")
    saved(ours, 5)
    ours.finish()
    code = f"""
import jax, numpy as np, sys
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from bertflow_jax.checkpoint import CheckpointStore, Records
assert jax.device_count() == 8
found, records = CheckpointStore({str(ours.folder.parent)!r}).restore(5, lambda _: dict(
    optimizer=(dict(m=jax.ShapeDtypeStruct((3,), np.float32)), jax.ShapeDtypeStruct((), np.int32))))
assert float(found["optimizer"][0]["m"][0]) == 6.0
mesh = Mesh(np.asarray(jax.devices()), ("data",))
split = jax.device_put(np.arange(16, dtype=np.float32), NamedSharding(mesh, PartitionSpec("data")))
copied = jax.device_put(np.arange(3, dtype=np.float32), NamedSharding(mesh, PartitionSpec()))
store = CheckpointStore({str(tmp_path / "theirs")!r})
store.save(dict(flow=dict(a=split, b=copied)), Records(dict(step=1), {{}}, {{}}, {{}}))
store.finish()
"""
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    shapes = {"a": np.zeros(16, np.float32), "b": np.zeros(3, np.float32)}
    theirs = CheckpointStore(tmp_path / "theirs")
    found, _ = theirs.restore(1, lambda _: jax.eval_shape(lambda: {"flow": shapes}))
    np.testing.assert_array_equal(found["flow"]["a"], np.arange(16))
    np.testing.assert_array_equal(found["flow"]["b"], np.arange(3))
    assert len(found["flow"]["a"].devices()) == 1
    # Nor of another kind: nothing that was written says on which devices the arrays were.
    files = [path for path in theirs.folder.rglob("*") if path.is_file()]
    assert len(files) > 5
    for path in files:
        assert not re.search(
            rb"sharding|cpu|device", path.name.encode() + path.read_bytes(), re.I
        ), path


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 400 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    with mounted(folder, "400k"):
        yield folder


def test_c05_a_full_disk(small_disk, tmp_path):
    """train.py ends with 2 and one message that names the path; the older steps are whole."""
    run = small_disk / "run"
    done = subprocess.run(
        [
            sys.executable, "train.py", "--config=configs/demo.py", f"--workdir={run}",
            "--config.flow.width=4", "--config.flow.levels=1", "--config.flow.depth=1",
            "--config.train.steps=400", "--config.train.log_every=400",
            "--config.train.tensorboard=False", "--config.checkpoint.every=2",
            "--config.checkpoint.keep=100", f"--config.cache_dir={tmp_path / 'cache'}",
        ],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    said = (
        rf"^error: checkpoint {run}/checkpoints/\d+ could not be written: No space left on device; "
        "earlier checkpoints are kept; make room, or name another --workdir$"
    )
    assert re.search(said, done.stderr, re.MULTILINE), done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    store = CheckpointStore(run)
    steps = store.steps()
    assert len(steps) >= 1
    # The folder of the save that failed may be there: no step, and the next run deletes it.
    complete = {path.name for path in store.folder.iterdir() if UNFINISHED_SAVE not in path.name}
    assert complete == set(map(str, steps))
    for step in steps:
        items = store.records(step).state["digests"]
        assert set(items) == {"flow", "optimizer"}
    assert json.loads((store.folder / str(steps[-1]) / "state" / "metadata").read_text())


def test_a_folder_that_cannot_be_made(tmp_path, saved):
    """The message names the path, not a thread of orbax."""
    (tmp_path / "checkpoints").write_text("a file where the folder should be")
    store = CheckpointStore(tmp_path)
    saved(store, 1)
    with pytest.raises(WorkdirError, match=r"checkpoints/1 could not be written"):
        store.finish()
