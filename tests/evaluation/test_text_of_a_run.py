"""What the flow of a run was fitted on: how it is named, and which text --fit=run takes."""

import json

import pytest

from bertflow_jax.config import Config, DataConfig, SupervisionConfig
from bertflow_jax.data.supervision import load_training_pairs
from bertflow_jax.data.text import load_text
from bertflow_jax.evaluation.captions import fitted_on

PAIRS = [("a dog sleeps", "a cat eats", "0.5"), ("we sing", "they sing", "4.0"), ("x", "y", "2")]


@pytest.fixture
def file(tmp_path):
    """Pairs with scores, in a file whose name says nothing of a task."""
    path = tmp_path / "mine.tsv"
    lines = ["sentence1\tsentence2\tscore", *("\t".join(pair) for pair in PAIRS)]
    path.write_text("\n".join(lines) + "\n")
    return path


def joint(path, **fields):
    return Config(objective="joint", supervision=SupervisionConfig(path=str(path), **fields))


def manifest_of(config):
    return load_training_pairs(config.supervision, "regression").manifest


def named(manifest):
    return fitted_on({"model": {"step": 3, "text": manifest}, "rows": {}})


@pytest.mark.parametrize("task", ["", "stsb"])
def test_pairs_of_a_file_are_named_by_the_file(file, task):
    """Catches a KeyError for a source without a task, and a file called STS-B for a left-over."""
    manifest = manifest_of(joint(file, task=task))
    assert named(manifest) == [f"flow: step 3, fitted on {file}"]


def test_the_bundled_corpus_and_sets_by_their_names(tmp_path):
    assert named(manifest_of(joint("everyday"))) == ["flow: step 3, fitted on the bundled corpus"]
    folder = tmp_path / "STSBenchmark"
    folder.mkdir()
    (folder / "sts-train.csv").write_text("g\tf\ty\t1\t2.5\tone\ttwo\n")
    pairs = manifest_of(joint(tmp_path, task="stsb"))
    text = load_text(DataConfig(path=str(tmp_path), task="stsb", splits="train")).manifest
    for manifest in (pairs, text):
        assert named(manifest) == ["flow: step 3, fitted on the text of STS-B (train)"]
    classes = {"path": "tfds", "format": "tfds", "task": "snli,multi_nli", "splits": ["train"]}
    expected = "flow: step 3, fitted on the text of snli, multi_nli (train)"
    assert named(json.loads(json.dumps(classes))) == [expected]
