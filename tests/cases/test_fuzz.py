"""Damaged inputs, a few of each part of `benchmarks.fuzz`; the program itself reads more."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks import fuzz, fuzz_data_damage, fuzz_weight_damage
from benchmarks.fuzz_case import Case
from bertflow_jax.errors import InputError


def test_fuzz_of_weight_files(tmp_path):
    """Bug: an error that is not ours, a file that reads as NaN, a write beside the output."""
    report = fuzz.fuzz("weights", 150, 20, tmp_path)
    assert report.failures == []
    assert report.inputs == 150
    # Most damage is found; what reads is mostly a bit in a float, or a field that decides nothing.
    assert 60 <= report.inputs - report.ends["read"] <= 149


def test_fuzz_of_data_files(tmp_path):
    """Bug: an error that is not ours, rows of wrong types or values, a file written elsewhere."""
    report = fuzz.fuzz("data", 160, 7, tmp_path)
    assert report.failures == []
    assert report.inputs == 160
    # Some damage leaves a file that says what it may say; most does not.
    assert 30 <= report.inputs - report.ends["read"] <= 150


def test_fuzz_of_checkpoints(tmp_path):
    """Bug: a whole step passed over, arrays of no step that was saved, a resume from other ones."""
    report = fuzz.fuzz("checkpoints", 40, 3, tmp_path)
    assert report.failures == []
    assert report.inputs == 40
    # Where the newest step is damaged an older one is read; only one asked for is refused.
    assert 1 <= report.ends["CheckpointError"] <= 20


def test_every_damage_changes_the_file():
    """Bug: a damage that gives back what it was given, so that a good file is read again."""
    rng = np.random.default_rng(0)
    data = json.dumps({"a": [1, {"b": 2}], "c": "d" * 300}).encode()
    known = fuzz_weight_damage.damages("x.json", data)
    assert len(known) > 20
    for name, damage in known.items():
        assert any(damage(data, rng) != data for _ in range(5)), name


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda place: {}["x"], "KeyError"),
        (lambda place: np.ones((2**36, 2**10)), "MemoryError"),
        (lambda place: Path("left behind").write_text("x"), "outside its folder.*left behind"),
        (lambda place: (place / "beside").write_text("x"), "outside its folder.*beside"),
    ],
    ids=["foreign error", "memory", "working directory", "beside"],
)
def test_the_fuzzer_sees_what_it_looks_for(tmp_path, monkeypatch, read, words):
    """Bug: a fuzzer that passes whatever happens."""

    def cases(folder, rng):
        (folder / "x").mkdir()
        yield Case("made", lambda: read(folder), folder / "x")

    monkeypatch.setattr("benchmarks.fuzz_weights.cases", cases)
    (failure,) = fuzz.fuzz("weights", 5, 0, tmp_path).failures
    assert failure.startswith("made: ")
    assert re.search(words, failure)


def test_an_error_of_ours_is_no_failure(tmp_path, monkeypatch):
    """Bug: refusals counted as failures, or as read."""

    def cases(folder, rng):
        def refuse():
            raise InputError("row 1")

        yield Case("refused", refuse, folder)
        yield Case("read", lambda: None, folder)

    monkeypatch.setattr("benchmarks.fuzz_weights.cases", cases)
    before = os.getcwd()
    report = fuzz.fuzz("weights", 5, 0, tmp_path)
    assert report.ends == {"InputError": 1, "read": 1}
    assert report.failures == []
    assert os.getcwd() == before


def test_one_seed_gives_the_same_damage():
    """Bug: a failure that cannot be made again, or a damage that changes nothing."""
    data = b"id\ttext\tlabel\n" + b"".join(b"%d\tsome words\t1\n" % i for i in range(20))
    for damage in (*fuzz_data_damage.TEXT, fuzz_data_damage.json_value, fuzz_data_damage.deep):
        made = [[damage(np.random.default_rng(seed), data) for seed in range(8)] for _ in range(2)]
        assert made[0] == made[1], damage.__name__
        assert any(found != data for found in made[0]), damage.__name__
