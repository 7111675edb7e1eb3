"""Which steps stay: the newest and the best, in the right direction, over restarts."""

import json
import math
import shutil

import pytest

from bertflow_jax.checkpoint import CheckpointStore, Records
from bertflow_jax.scores import HELD_OUT, Score, best_steps, recorded_score

NAN = math.nan


def _run(folder, saved, values, metric="spearman", keep=3, keep_best=1, first=1):
    store = CheckpointStore(folder, keep, keep_best)
    for step, value in enumerate(values, first):
        saved(store, step, None if value == "-" else Score(metric, value))
    store.finish()
    return store


@pytest.mark.parametrize(
    ("values", "best", "left"),
    [
        ([0.5, 0.6, 0.7, 0.4, 0.3, 0.2], 3, [3, 4, 5, 6]),
        ([NAN, 0.6, 0.7, 0.4, 0.3, 0.2], 3, [3, 4, 5, 6]),
        ([0.5, 0.6, 0.7, 0.4, 0.3, NAN], 3, [3, 4, 5, 6]),
        ([NAN] * 6, None, [4, 5, 6]),
        ([0.9, "-", "-", "-", "-", "-"], 1, [1, 4, 5, 6]),  # saves that nobody evaluated
        ([0.5, 0.5, 0.5, 0.5, 0.5, 0.5], 1, [1, 4, 5, 6]),  # of equal ones the first
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 6, [4, 5, 6]),
        ([math.inf, 0.2, 0.3, 0.2, 0.2, 0.2], 3, [3, 4, 5, 6]),
    ],
)
def test_c06_the_best_and_the_newest_stay(tmp_path, saved, read, values, best, left):
    """Keep-the-best evicted the newest, or NaN won because it has no order."""
    store = _run(tmp_path, saved, values)
    assert store.steps() == left
    found = store.best()
    assert (found and found[0]) == best
    assert read(store)[0] == 6  # a run goes on from the newest, not from the best
    if best is not None:
        assert read(store, best)[0] == best


def test_a_loss_is_better_where_it_is_lower(tmp_path, saved):
    """The wrong direction kept the worst flow."""
    assert _run(tmp_path, saved, [3.0, 1.0, 2.0, 4.0, 5.0], HELD_OUT, keep=1).steps() == [2, 5]


@pytest.mark.parametrize(("keep_best", "left"), [(0, [5, 6]), (2, [2, 3, 5, 6])])
def test_how_many_of_the_best(tmp_path, saved, keep_best, left):
    store = _run(tmp_path, saved, [0.5, 0.6, 0.7, 0.4, 0.3, 0.2], keep=2, keep_best=keep_best)
    assert store.steps() == left


def test_a_resumed_run_knows_the_best_of_before(tmp_path, saved):
    """Its scores stood in the process's memory alone, and the best step was deleted."""
    _run(tmp_path, saved, [0.5, 0.9, 0.1], keep=2)
    again = _run(tmp_path, saved, [0.2, 0.3, 0.4], keep=2, first=4)
    assert again.steps() == [2, 5, 6]
    assert again.best() == (2, Score("spearman", 0.9))
    assert json.loads(json.dumps(again.records(2).state["score"])) == {
        "metric": "spearman",
        "value": 0.9,
    }


def test_an_undefined_score_is_valid_json(tmp_path, saved):
    """NaN is no JSON; other readers refuse the whole record."""
    store = _run(tmp_path, saved, [NAN])
    assert "NaN" not in (store.folder / "1" / "state" / "metadata").read_text()
    assert store.records(1).state["score"] == {"metric": "spearman", "value": None}


def test_records_of_before_scores(tmp_path, saved, made):
    """An older run's best step, which only the dev record names, is kept after an update."""
    store = CheckpointStore(tmp_path)
    for step, best in ((1, 1), (2, 1), (3, 1)):
        record = {"step": step, "best": {"metric": "spearman", "value": 0.8, "step": best}}
        store.save(made(step), Records(record, {}, {}, {}))
    store.wait()
    again = _run(tmp_path, saved, [0.1, 0.2], keep=2, first=4)
    assert again.steps() == [1, 4, 5]
    assert again.best() == (1, Score("spearman", 0.8))
    assert recorded_score({"step": 1}) is None
    assert recorded_score({"step": 1, "best": None}) is None


def test_best_steps_ignore_what_is_unknown():
    scores = {1: None, 2: Score("loss", NAN), 3: Score("loss", 2.0), 4: Score("loss", 1.0)}
    assert best_steps(scores) == [4, 3]


def test_a_run_killed_while_it_deletes_leaves_no_damaged_step(tmp_path, saved, monkeypatch):
    """Half of an old step's files were gone, and the step still counted."""
    store = CheckpointStore(tmp_path, keep=1)
    saved(store, 1)
    store.wait()

    def killed(path, **options):
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", killed)
        saved(store, 2)
        with pytest.raises(SystemExit):
            store.wait()
    assert store.steps() == [2]
    assert (store.folder / "1.deleted").is_dir()
    with CheckpointStore(tmp_path, keep=1) as again:
        assert again.steps() == [2]
    assert not (store.folder / "1.deleted").exists()


def test_what_is_no_checkpoint_stays(tmp_path, saved):
    """A user's folder with a number for a name was pruned, and a link ended the run."""
    own = tmp_path / "checkpoints" / "1"
    own.mkdir(parents=True)
    (own / "notes.txt").write_text("mine")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "checkpoints" / "2").symlink_to(tmp_path / "elsewhere")
    store = _run(tmp_path, saved, [0.1, 0.2, 0.3], keep=1, keep_best=0, first=5)
    assert (own / "notes.txt").read_text() == "mine"
    assert (tmp_path / "checkpoints" / "2").is_symlink()
    assert store.steps() == [1, 2, 7]
