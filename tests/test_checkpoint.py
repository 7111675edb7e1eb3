"""Checkpoints: what comes back, what is kept, what happens to damaged ones."""

import json

import jax
import numpy as np
import pytest
from reference_flows import max_difference

from bertflow_jax.checkpoint import CheckpointStore, Records
from bertflow_jax.errors import CheckpointError, DataNotFoundError, WorkdirError

ARRAYS = {
    "flow": {"params": {"a": np.arange(6, dtype=np.float32).reshape(2, 3)}},
    "optimizer": ({"m": np.ones(3, np.float32)}, np.asarray(4, np.int32)),
}
ABSTRACT = jax.eval_shape(lambda: ARRAYS)


def _arrays(step):
    return jax.tree.map(lambda leaf: leaf + leaf.dtype.type(step), ARRAYS)


def _save(store, step):
    store.save(_arrays(step), Records({"step": step}, {"seed": 1}, {"sha": "x"}, {"n": 2}))


@pytest.fixture
def store(tmp_path):
    folder = tmp_path / "a run, größer"
    store = CheckpointStore(folder, keep=3)
    for step in (1, 2, 3, 4):
        _save(store, step)
    store.finish()
    return store


def test_everything_comes_back(store):
    """Values, types, the tuple structure of an optimiser state, and every record."""
    found, records = store.restore(3, lambda _: ABSTRACT)
    assert max_difference(found, jax.tree.map(np.asarray, _arrays(3))) == 0.0
    assert found["optimizer"][1].dtype == np.int32
    assert (records.config, records.encoder, records.manifest) == (
        {"seed": 1},
        {"sha": "x"},
        {"n": 2},
    )
    assert records.state["step"] == 3


def test_parameters_alone(store):
    """Evaluation restores the flow without the optimiser's state."""
    assert set(store.restore(2, lambda _: {"flow": ABSTRACT["flow"]})[0]) == {"flow"}


def test_newest_are_kept(store):
    """keep=3: the oldest goes, after the new one is complete."""
    assert store.steps() == [2, 3, 4]


def test_an_item_named_like_a_record_is_refused(tmp_path):
    """The record was written over the arrays without a word, and the checkpoint was lost."""
    with pytest.raises(AssertionError, match="named like records"):
        CheckpointStore(tmp_path).save(
            {"encoder": ARRAYS["flow"]}, Records({"step": 1}, {}, {}, {})
        )


def test_a_step_saved_again_is_replaced(store):
    """A resumed run may pass a step that an interrupted one already wrote."""
    store.save(_arrays(10), Records({"step": 4}, {}, {}, {}))
    found, _ = store.restore(4, lambda _: {"flow": ABSTRACT["flow"]})
    np.testing.assert_array_equal(found["flow"]["params"]["a"], ARRAYS["flow"]["params"]["a"] + 10)


def _read(store):
    return lambda step: (step, *store.restore(step, lambda _: ABSTRACT))


def _files(store, step, item):
    return [p for p in sorted((store.folder / str(step) / item).rglob("*")) if p.is_file()]


@pytest.mark.parametrize("item", ["flow", "optimizer", "state", "config"])
@pytest.mark.parametrize("fault", ["truncate", "delete"])
def test_a_damaged_newest_step_is_skipped(store, item, fault, caplog):
    """The newest good step is used and the log says why; asked for by number it is an error."""
    for path in _files(store, 4, item):
        if fault == "delete":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert store.newest_good(_read(store))[0] == 3
    assert "4 is damaged" in caplog.text
    with pytest.raises(CheckpointError, match=r"checkpoints/4 is damaged"):
        store.newest_good(_read(store), step=4)


def test_changed_numbers_are_noticed(store):
    """A file swapped for that of another step reads well but is not what was saved."""
    for mine, other in zip(_files(store, 4, "flow"), _files(store, 3, "flow"), strict=True):
        assert mine.is_file()
        mine.unlink()
        other.rename(store.folder / "4" / "flow" / other.relative_to(store.folder / "3" / "flow"))
    with pytest.raises(CheckpointError, match="damaged"):
        store.newest_good(_read(store), step=4)


def test_an_unfinished_step_does_not_count(store):
    """What a killed save leaves behind under its temporary name is not a checkpoint."""
    (store.folder / "9.orbax-checkpoint-tmp-123").mkdir()
    assert store.steps() == [2, 3, 4]


def test_nothing_there_and_everything_damaged(tmp_path, store):
    """Each case says what it is and where."""
    with pytest.raises(DataNotFoundError, match="no checkpoint in"):
        CheckpointStore(tmp_path / "none").newest_good(lambda step: step)
    with pytest.raises(DataNotFoundError, match=r"no checkpoint of step 7 .*\[2, 3, 4\]"):
        store.newest_good(_read(store), step=7)
    for step in store.steps():
        for path in _files(store, step, "state"):
            path.unlink()
    with pytest.raises(CheckpointError, match="every checkpoint"):
        store.newest_good(_read(store))


def test_c05_a_failed_save_is_an_error_and_keeps_the_older_ones(store, monkeypatch):
    """Case C05: no silent loss when the disk is full."""

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("orbax.checkpoint.Checkpointer.save", full)
    _save(store, 5)
    with pytest.raises(WorkdirError, match=r"checkpoints/5 could not be written.*No space left"):
        store.wait()
    monkeypatch.undo()
    assert store.newest_good(_read(store))[0] == 4


def test_a_resumed_run_never_prunes_its_own_steps(store):
    """Damaged steps above the one resumed from once made keep=1 delete the step just saved."""
    store.set_aside_after(2)
    assert store.steps() == [2]
    lone = CheckpointStore(store.folder.parent, keep=1)
    for step in (9, 3):
        _save(lone, step)
    assert lone.steps() == [3, 9]


def _edit(store, step, item, change):
    """Change a JSON record of a step by hand, as a flipped bit would."""
    path = store.folder / str(step) / item / "metadata"
    fields = json.loads(path.read_text())
    change(fields)
    path.write_text(json.dumps(fields))


@pytest.mark.parametrize(
    ("item", "change"),
    [
        ("state", lambda f: f.update(step=3)),
        ("state", lambda f: f.pop("step")),
        ("state", lambda f: f.pop("digests")),
        ("state", lambda f: f.pop("records_sha256")),
        ("config", lambda f: f.update(seed=2)),
        ("encoder", lambda f: f.update(sha="y")),
        ("manifest", lambda f: f.update(n=3)),
    ],
)
def test_a_changed_record_is_damage(store, item, change):
    """A step number with a flipped digit resumed a run from the wrong step, silently."""
    _edit(store, 4, item, change)
    assert store.newest_good(_read(store))[0] == 3
    with pytest.raises(CheckpointError, match=r"checkpoints/4 is damaged.*digest"):
        store.records(4)


def test_a_renamed_step_is_damage(store):
    (store.folder / "4").rename(store.folder / "70")
    with pytest.raises(CheckpointError, match=r"checkpoints/70 .*checkpoint of step 4"):
        store.newest_good(_read(store), step=70)
    for name in ("007", "²", "4.passed_over"):
        (store.folder / name).mkdir()
    assert store.steps() == [2, 3, 70]


def test_a_read_error_is_no_damage(store, monkeypatch):
    """A network disk that stumbles once made --resume delete a good checkpoint."""

    def stumble(*args, **kwargs):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("orbax.checkpoint.Checkpointer.restore", stumble)
    with pytest.raises(WorkdirError, match=r"cannot be read.*Input/output error.*try again"):
        store.newest_good(_read(store))
    monkeypatch.undo()
    store.set_aside_after(3)
    assert store.steps() == [2, 3]
    assert (store.folder / "4.passed_over" / "flow").is_dir()
