"""Damaged data files, a few of every kind; `python -m benchmarks.fuzz --only=data` reads more."""

import collections
import os

import numpy as np

from benchmarks import fuzz_data, fuzz_data_damage
from bertflow_jax.errors import BertFlowError

INPUTS = 160


def test_fuzz_of_data_files(tmp_path, monkeypatch):
    """Bug: an error that is not ours, rows of wrong types or values, a file written elsewhere."""
    (tmp_path / "in").mkdir()
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    ends, failures = collections.Counter(), []
    stream = fuzz_data.cases(tmp_path / "in", np.random.default_rng(7))
    for case, _ in zip(stream, range(INPUTS), strict=False):
        beside = sorted(path.name for path in (tmp_path / "in").iterdir())
        try:
            case.read()
            ends["read"] += 1
        except BertFlowError:
            ends["refused"] += 1
        except Exception as error:
            failures.append(f"{case.name}: {type(error).__name__}: {error}")
        assert sorted(path.name for path in (tmp_path / "in").iterdir()) == beside
    assert failures == []
    assert not os.listdir(tmp_path / "empty")
    assert sorted(os.listdir(tmp_path)) == ["empty", "in"]
    # Some damage leaves a file that says what it may say; most does not.
    assert 0.2 * INPUTS < ends["refused"] < 0.95 * INPUTS
    assert ends["read"] > 0.05 * INPUTS


def test_one_seed_gives_the_same_damage():
    """Bug: a failure that cannot be made again, or a damage that changes nothing."""
    data = b"id\ttext\tlabel\n" + b"".join(b"%d\tsome words\t1\n" % i for i in range(20))
    for damage in (*fuzz_data_damage.TEXT, fuzz_data_damage.json_value, fuzz_data_damage.deep):
        made = [[damage(np.random.default_rng(seed), data) for seed in range(8)] for _ in range(2)]
        assert made[0] == made[1], damage.__name__
        assert any(found != data for found in made[0]), damage.__name__
