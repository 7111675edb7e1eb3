"""Output folders of runs, and flows that are asked for and not there."""

import json
import os

import numpy as np
import pytest

from bertflow_jax.checkpoint import CheckpointStore
from bertflow_jax.config import Config, DataConfig, FlowConfig, TrainConfig
from bertflow_jax.encoder_spec import EncoderSpec
from bertflow_jax.errors import DataNotFoundError, WorkdirError
from bertflow_jax.evaluation.options import EvalOptions
from bertflow_jax.evaluation.run import run_evaluation
from bertflow_jax.restore import load_run
from bertflow_jax.training.run import train

NAME = "my runs, größer/日本"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs")
    (path / "text.txt").write_text("\n".join(f"Sentence number {n}." for n in range(10)), "utf-8")
    return path


def _config(folder, steps, seed=0):
    return Config(
        seed=seed,
        flow=FlowConfig(levels=1, depth=1, width=4),
        data=DataConfig(path=str(folder / "text.txt")),
        train=TrainConfig(steps=steps, tensorboard=False),
        cache_dir=str(folder / "cache"),
    )


@pytest.fixture(scope="module")
def run(folder):
    """A run of 4 steps under a relative path with a space and other letters."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        train(_config(folder, 4), NAME)
    finally:
        os.chdir(before)
    return folder / NAME


def test_c04_a_relative_path_with_spaces_and_other_letters(folder, run, monkeypatch):
    """Relative paths were refused when the first checkpoint was written; R01 too: 10 sentences
    are less than a batch, and four steps were made with them."""
    assert CheckpointStore(run).steps() == [4]
    assert load_run(run).step == 4
    monkeypatch.chdir(folder)
    assert load_run(NAME).step == 4


def test_c04_an_existing_run_is_refused_or_replaced(folder, run):
    """A second, shorter run was skipped as older than the newest step, or failed at its end."""
    first = load_run(run).flow
    with pytest.raises(WorkdirError, match=r"is not empty: give --resume .* --overwrite"):
        train(_config(folder, 3, seed=1), run)
    assert CheckpointStore(run).steps() == [4]
    train(_config(folder, 3, seed=1), run, overwrite=True)
    assert CheckpointStore(run).steps() == [3]
    second = load_run(run)
    assert second.records.config["seed"] == 1
    vectors = second.encoder.encode(["Sentence number 3."])
    assert np.abs(second.flow.transform(vectors) - first.transform(vectors)).max() > 1e-3


@pytest.mark.parametrize("place", ["missing", "empty", "encoder"])
def test_c07_a_flow_that_is_not_there_is_never_made_up(folder, tmp_path, place):
    """Scores came from a flow of random parameters, with a line in the log."""
    flow = tmp_path / place
    if place != "missing":
        flow.mkdir()
    if place == "encoder":
        (flow / "config.json").write_text("{}")
        (flow / "model.safetensors").write_bytes(b"")
    said = "folder not found: " if place == "missing" else "holds no saved post-processor"
    said = rf"{said}{flow}" if place == "missing" else rf"{flow} {said}"
    with pytest.raises(DataNotFoundError, match=said):
        EncoderSpec(encoder="mini_bert", flow=str(flow)).load()
    options = EvalOptions(encoder="mini_bert", flow=str(flow), output=str(tmp_path / "out"))
    with pytest.raises(DataNotFoundError, match=said):
        run_evaluation(options)
    assert not (tmp_path / "out" / "results.json").exists()


def test_c07_a_run_without_a_checkpoint_is_no_run(tmp_path):
    """The flow of a run that was stopped too early is missing, not fresh."""
    (tmp_path / "checkpoints").mkdir()
    options = EvalOptions(workdir=str(tmp_path), tasks=("everyday",))
    with pytest.raises(DataNotFoundError, match="no checkpoint in"):
        run_evaluation(options)


def test_c07_results_say_which_flow_was_scored(folder, run, tmp_path):
    """No step, or the newest one's, beside the scores of an older step; without a flow: null."""
    step = CheckpointStore(run).steps()[-1]
    fields = {"tasks": ("everyday",), "report": False, "cache_dir": str(folder / "cache")}
    run_evaluation(EvalOptions(workdir=str(run), output=str(tmp_path / "flow"), **fields))
    found = json.loads((tmp_path / "flow" / "results.json").read_text("utf-8"))
    assert found["model"]["step"] == step
    assert set(found["rows"]) == {"raw", "flow"}
    run_evaluation(EvalOptions(encoder="mini_bert", output=str(tmp_path / "raw"), **fields))
    found = json.loads((tmp_path / "raw" / "results.json").read_text("utf-8"))
    assert found["model"]["flow"] is None
    assert set(found["rows"]) == {"raw"}
