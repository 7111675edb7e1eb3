"""The output folder of an evaluation holds one evaluation. Each test names the bug."""

import json
import os
from pathlib import Path

import pytest
from evaluation.test_evaluate_cli import AngleEncoder, data_dir, options

from bertflow_jax.errors import WorkdirError
from bertflow_jax.evaluation import run, sources
from bertflow_jax.evaluation.run import run_evaluation

__all__ = ["data_dir"]


@pytest.fixture
def angles(monkeypatch):
    monkeypatch.setattr(sources, "_load_encoder", lambda options: AngleEncoder())


def test_two_evaluations_at_once(data_dir, tmp_path, monkeypatch):
    """Bug: results.json of one beside report.html of the other."""
    refused = []

    def load(_):
        monkeypatch.setattr(sources, "_load_encoder", lambda _: pytest.fail("two at once"))
        with pytest.raises(WorkdirError, match=r"--output=.*out is being written by another job"):
            run_evaluation(options(data_dir, tmp_path, report=False))
        refused.append(True)
        return AngleEncoder()

    monkeypatch.setattr(sources, "_load_encoder", load)
    run_evaluation(options(data_dir, tmp_path, report=False))
    assert refused
    assert sorted(os.listdir(tmp_path / "out")) == ["results.json", "table.md", "table.tex"]


def test_a_second_evaluation_replaces_the_first(data_dir, tmp_path, angles):
    """Bug: the first one's report.html beside the second's results.json."""
    run_evaluation(options(data_dir, tmp_path))
    (tmp_path / "out" / "notes.txt").write_text("mine")
    run_evaluation(options(data_dir, tmp_path, tasks=("stsb",), report=False))
    files = ["notes.txt", "results.json", "table.md", "table.tex"]
    assert sorted(os.listdir(tmp_path / "out")) == files


def test_a_report_that_no_evaluation_of_ours_made_stays(data_dir, tmp_path, angles):
    """Bug: a folder of the user's loses its report.html though none is made."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.html").write_text("mine")
    run_evaluation(options(data_dir, tmp_path, report=False))
    assert (tmp_path / "out" / "report.html").read_text() == "mine"


def test_a_refused_evaluation_takes_nothing_away(data_dir, tmp_path, angles, monkeypatch):
    """Bug: the report goes before there are new results."""
    run_evaluation(options(data_dir, tmp_path))
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}

    def failing(*_):
        raise WorkdirError("stopped")

    monkeypatch.setattr(run, "evaluate", failing)
    with pytest.raises(WorkdirError, match="stopped"):
        run_evaluation(options(data_dir, tmp_path, report=False))
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_a_report_that_is_drawn_no_more_is_not_the_old_one(data_dir, tmp_path, angles, monkeypatch):
    """Bug: stopped while the report is drawn, the old one stays beside the new results."""
    run_evaluation(options(data_dir, tmp_path))

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "_draw", stopped)
    with pytest.raises(KeyboardInterrupt):
        run_evaluation(options(data_dir, tmp_path, tasks=("stsb",)))
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert list(found["rows"]["raw"]) == ["stsb", "average"]
    assert not Path(tmp_path / "out" / "report.html").exists()
