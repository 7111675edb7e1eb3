"""Saves in the background: what is copied, what waits, which errors come out, what is verified."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference_flows import max_difference

from bertflow_jax import checkpoint_files, parallel
from bertflow_jax.background import Background
from bertflow_jax.checkpoint import CheckpointStore, Records
from bertflow_jax.errors import WorkdirError


@pytest.fixture
def gate(monkeypatch):
    """Writes wait for gate.go; gate.begun says that one has begun."""

    class Gate:
        begun, go = threading.Event(), threading.Event()

    write = checkpoint_files.write_step

    def waiting(*arguments):
        Gate.begun.set()
        assert Gate.go.wait(60)
        write(*arguments)

    monkeypatch.setattr(checkpoint_files, "write_step", waiting)
    yield Gate
    Gate.go.set()


def test_the_arrays_are_those_of_the_moment_of_the_save(tmp_path, gate):
    """A view of a buffer that the next step is given was saved with the next step's numbers."""
    array = np.arange(5000, dtype=np.float32)
    device = jnp.asarray(array) + 0.0
    store = CheckpointStore(tmp_path)
    store.save({"flow": {"a": array, "b": device}}, Records({"step": 1}, {}, {}, {}))
    assert gate.begun.wait(60)  # save has returned while the write is still to come
    step = jax.jit(lambda x: x * 0.0 - 1.0, donate_argnums=0)
    jax.block_until_ready(step(device))
    array[:] = -1
    gate.go.set()
    store.finish()
    shapes = jax.eval_shape(lambda: {"flow": {"a": array, "b": array}})
    found, _ = store.restore(1, lambda _: shapes)
    for name in "ab":
        np.testing.assert_array_equal(found["flow"][name], np.arange(5000, dtype=np.float32))


def test_a_host_copy_is_no_view():
    """np.asarray of an array on a CPU shares its memory."""
    device = jnp.arange(1000.0)
    host = parallel.to_host({"a": device})["a"]
    assert not np.shares_memory(host, np.asarray(device))
    np.testing.assert_array_equal(host, np.arange(1000.0))


def test_records_are_copied_too(tmp_path, gate):
    """A dict that the caller changes meanwhile did not match its digest."""
    config = {"seed": 1}
    store = CheckpointStore(tmp_path)
    store.save({"flow": {"a": np.ones(3)}}, Records({"step": 1}, config, {}, {}))
    config["seed"] = 2
    gate.go.set()
    assert store.records(1).config == {"seed": 1}


def test_one_save_at_a_time(tmp_path, gate, saved):
    """Two writers at once would delete each other's temporary folders."""
    store = CheckpointStore(tmp_path)
    saved(store, 1)
    second = threading.Thread(target=saved, args=(store, 2))
    second.start()
    second.join(0.2)
    assert second.is_alive()
    gate.go.set()
    second.join(60)
    assert store.steps() == [1, 2]


def test_c05_an_error_comes_out_of_the_next_save(tmp_path, monkeypatch, saved, read):
    """The disk is full at step 20: the save of step 21 says so, and the older steps are whole."""
    store = CheckpointStore(tmp_path, keep=2)
    for step in (18, 19):
        saved(store, step)
    store.wait()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint_files, "write_step", full)
    saved(store, 20)
    with pytest.raises(WorkdirError, match=r"checkpoints/20 could not be written.*No space left"):
        saved(store, 21)
    assert store.steps() == [18, 19]
    assert read(store)[0] == 19


def test_c05_an_error_comes_out_of_the_end_of_the_run(tmp_path, monkeypatch, saved, caplog):
    """The last save had failed and the run looked fine; beside another error it is said too."""

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint_files, "write_step", full)
    store = CheckpointStore(tmp_path)
    saved(store, 1)
    with pytest.raises(WorkdirError, match="No space left"):
        store.finish()

    def run(error=None):
        with store:
            saved(store, 2)
            if error is not None:
                raise error

    with pytest.raises(WorkdirError, match="checkpoints/2"):
        run()
    with pytest.raises(KeyError):
        run(KeyError("another"))
    assert "checkpoints/2 could not be written" in caplog.text


@pytest.mark.parametrize("item", ["flow", "state"])
def test_the_last_save_is_read_back(tmp_path, saved, item):
    """A disk that loses what was written made a finished run one step old, or nothing at all."""
    store = CheckpointStore(tmp_path)
    saved(store, 7)
    store.wait()
    for path in (store.folder / "7" / item).rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(WorkdirError, match=r"checkpoints/7 .* reads otherwise"):
        store.finish()


def test_nothing_saved_is_nothing_to_verify(tmp_path, saved):
    """A resumed run with no step left must not fail at its end, nor verify the same step twice."""
    store = CheckpointStore(tmp_path)
    store.finish()
    saved(store, 1)
    store.finish()
    store.finish()
    assert store.steps() == [1]


def test_a_step_saved_twice_is_the_later(tmp_path, saved, made, read):
    """A stopped run may save a step that is there already."""
    store = CheckpointStore(tmp_path)
    saved(store, 3)
    store.save(made(9), Records({"step": 3}, {}, {}, {}))
    store.finish()
    assert max_difference(read(store)[1], made(9)) == 0.0


def test_background_raises_once():
    """An error raised twice would hide the next one; one never raised is a lost save."""
    work = Background("test")
    work.start(lambda: {}["lost"])
    with pytest.raises(KeyError, match="lost"):
        work.start(lambda: None)
    work.start(lambda: None)
    work.wait()
