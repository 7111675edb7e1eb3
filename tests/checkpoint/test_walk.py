"""Which checkpoint is taken where some are damaged, and what is said of each."""

import re
import shutil

import pytest

from bertflow_jax.checkpoint import CheckpointStore
from bertflow_jax.errors import CheckpointError


@pytest.fixture
def store(tmp_path, saved):
    """Steps 1, 2 and 3."""
    store = CheckpointStore(tmp_path)
    for step in (1, 2, 3):
        saved(store, step)
    store.finish()
    return store


def _damage(store, *steps):
    for step in steps:
        (store.folder / str(step) / "state" / "metadata").write_text("{}")


def test_the_only_one_is_damaged(store, read, caplog):
    """Bug: "trying the one before", of which there is none, and an error that names no cause."""
    for step in (1, 2):
        shutil.rmtree(store.folder / str(step))
    _damage(store, 3)
    with pytest.raises(CheckpointError) as caught:
        read(store)
    assert re.fullmatch(
        rf"checkpoint {store.place}/3 is damaged or incomplete \(.+\), and there is no other: "
        r"train again \(train\.py --overwrite\), or bring its files back from a copy",
        str(caught.value),
    )
    assert not caplog.records


def test_every_one_is_damaged(store, read, caplog):
    """Bug: the last of the walk was said to have one before it."""
    _damage(store, 1, 2, 3)
    with pytest.raises(CheckpointError) as caught:
        read(store)
    said = str(caught.value)
    assert said.startswith(f"checkpoint {store.place}/1 is damaged")
    assert f", and so is every checkpoint in {store.place} ([1, 2, 3]): train again" in said
    ends = [record.getMessage().rpartition("; ")[2] for record in caplog.records]
    assert ends == ["trying step 2", "trying step 1"]


def test_a_step_is_warned_of_once(store, read, caplog):
    """Bug: of one damaged step a run that looks at the records first warned twice."""
    _damage(store, 3)
    assert store.newest_good(store.records).state["step"] == 2
    assert read(store)[0] == 2
    (record,) = caplog.records
    assert record.getMessage().endswith("; trying step 2")


@pytest.mark.parametrize(
    ("first", "bad", "found", "tried"),
    [
        (1, (), 1, []),
        (1, (1,), 3, [3]),
        (2, (2, 3), 1, [3, 1]),
        (3, (3,), 2, [2]),
        (7, (), 3, []),  # gone
        (None, (3,), 2, [2]),
    ],
)
def test_the_best_step_comes_first(store, first, bad, found, tried, caplog):
    """Bug: a damaged best step was passed over for a newest one that might be itself."""
    _damage(store, *bad)
    assert store.newest_good(store.records, first=first).state["step"] == found
    said = [int(record.getMessage().split()[-1]) for record in caplog.records]
    assert said == tried
