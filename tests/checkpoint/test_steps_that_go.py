"""Steps that another process deletes between the listing and the reading: they are gone, not damaged."""

import fcntl
import os
import shutil

import pytest

from bertflow_jax.checkpoint import CheckpointStore
from bertflow_jax.errors import CheckpointError, DataNotFoundError
from bertflow_jax.output_locks import LOCK


@pytest.fixture
def store(tmp_path, saved):
    """Steps 1, 2 and 3."""
    store = CheckpointStore(tmp_path)
    for step in (1, 2, 3):
        saved(store, step)
    store.finish()
    return store


@pytest.fixture
def at_work(store):
    """Function that locks the workdir as a run does, in a file handle of its own."""
    handles = []

    def lock():
        handle = os.open(store.folder.parent / LOCK, os.O_RDWR | os.O_CREAT)
        fcntl.flock(handle, fcntl.LOCK_EX)
        handles.append(handle)

    yield lock
    for handle in handles:
        os.close(handle)


def _when_listed(store, monkeypatch, *happenings):
    """After each listing of the steps the next thing happens, as another process would do it."""
    listed, waiting = store._found.steps, list(happenings)

    def steps():
        found = listed()
        if waiting:
            waiting.pop(0)()
        return found

    monkeypatch.setattr(store._found, "steps", steps)


def _gone(store, *steps):
    return lambda: [shutil.rmtree(store.folder / str(step)) for step in steps]


def test_all_are_gone(store, read, monkeypatch, caplog):
    """Bug: "every checkpoint is damaged: train again", of a run that is being trained again."""
    _when_listed(store, monkeypatch, lambda: shutil.rmtree(store.folder))
    with pytest.raises(DataNotFoundError) as caught:
        read(store)
    assert str(caught.value) == (
        f"checkpoint {store.place}/1 is gone, and so is every checkpoint that was in {store.place} "
        "([1, 2, 3]): is a run at work there? Wait for its next checkpoint, or name another "
        "--workdir"
    )
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"checkpoint {store.place}/{s} is gone; trying step {s - 1}" for s in (3, 2)]


def test_all_are_gone_and_a_run_is_at_work(store, read, monkeypatch, at_work):
    at_work()
    _when_listed(store, monkeypatch, _gone(store, 1, 2, 3))
    with pytest.raises(DataNotFoundError) as caught:
        read(store)
    assert str(caught.value).endswith(
        f": a run is at work in {store.folder.parent} (it holds its lock). Wait for its next "
        "checkpoint, or name another --workdir"
    )


def test_the_step_asked_for_is_gone(store, read, monkeypatch, at_work):
    _when_listed(store, monkeypatch, _gone(store, 2))
    with pytest.raises(DataNotFoundError, match=r"checkpoints/2 is gone: is a run at work there\?"):
        read(store, 2)
    at_work()
    _when_listed(store, monkeypatch, _gone(store, 1))
    with pytest.raises(DataNotFoundError, match=r"checkpoints/1 is gone: a run is at work in "):
        read(store, 1)


def test_none_is_there_yet(store, read, at_work):
    """Bug: "train first", while a run is at it."""
    shutil.rmtree(store.folder)
    with pytest.raises(DataNotFoundError, match=r"no checkpoint in .*: train first, or name"):
        read(store)
    at_work()
    with pytest.raises(DataNotFoundError, match=r"no checkpoint in .*: a run is at work in .*Wait"):
        read(store)


def test_some_are_gone(store, read, monkeypatch, caplog):
    _when_listed(store, monkeypatch, _gone(store, 2, 3))
    assert read(store)[0] == 1
    assert "checkpoints/2 is gone; trying step 1" in caplog.text


def test_a_run_has_saved_newer_ones(store, saved, read, monkeypatch):
    """Bug: of a run that keeps one step alone the newest was never found."""

    def newer():
        other = CheckpointStore(store.folder.parent, keep=1)
        saved(other, 4)
        other.finish()

    _when_listed(store, monkeypatch, newer)
    assert read(store)[0] == 4


def test_a_run_that_saves_all_the_time(store, read, monkeypatch, saved):
    """It ends with the error, however often the steps are others at the next look."""
    other = CheckpointStore(store.folder.parent)

    def next_one(step):
        def happens():
            for old in store.folder.iterdir():
                shutil.rmtree(old)
            saved(other, step)
            other.wait()

        return happens

    _when_listed(store, monkeypatch, *map(next_one, range(4, 20)))
    with pytest.raises(DataNotFoundError, match="is gone"):
        read(store)


def test_half_deleted_while_a_run_is_at_work(store, read, at_work):
    """What is still there is damaged, but not for good: the run will write others."""
    for step in (1, 2, 3):
        shutil.rmtree(store.folder / str(step) / "flow")
    with pytest.raises(CheckpointError, match=r": train again \(train.py --overwrite\)"):
        read(store)
    at_work()
    with pytest.raises(CheckpointError) as caught:
        read(store)
    assert f"every checkpoint in {store.place} ([1, 2, 3]): a run is at work in " in str(
        caught.value
    )
    with pytest.raises(CheckpointError, match=r"checkpoints/2 is damaged.*: a run is at work in "):
        read(store, 2)


def test_looking_at_the_lock_leaves_it(store, tmp_path):
    """No lock is made where none was, and one that nobody holds can still be taken."""
    assert not store._found.run_at_work()
    assert not (tmp_path / LOCK).exists()
    (tmp_path / LOCK).write_text("bertflow_jax found ")
    assert not store._found.run_at_work()
    with (tmp_path / LOCK).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    (tmp_path / LOCK).unlink()
    os.mkfifo(tmp_path / LOCK)
    assert not store._found.run_at_work()
