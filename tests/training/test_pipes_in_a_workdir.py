"""A pipe where a run has a file would be waited for without end."""

import os

import pytest

from bertflow_jax.errors import WorkdirError
from bertflow_jax.workdir import prepare_workdir
from bertflow_jax.workdir_lock import lock_workdir


@pytest.mark.parametrize("name", ["metrics.jsonl", "metrics.tmp"])
@pytest.mark.parametrize("resume", [False, True])
def test_metrics_that_are_a_pipe(tmp_path, name, resume):
    """Bug: train.py --resume hung where it opened them."""
    os.mkfifo(tmp_path / name)
    with pytest.raises(WorkdirError, match=f"{name} is a pipe or a device; move it away"):
        prepare_workdir(tmp_path, resume=resume, overwrite=False)


def test_a_lock_that_is_a_pipe(tmp_path):
    """Bug: train.py hung where it read the lock."""
    os.mkfifo(tmp_path / ".lock")
    with (
        pytest.raises(WorkdirError, match=r"\.lock cannot be opened \(it is a pipe or a device"),
        lock_workdir(tmp_path),
    ):
        raise AssertionError("it was taken for a lock")
