"""What the flow of a run was fitted on: how it is named, and which text --fit=run takes."""

import json

import pytest

from bertflow_jax.config import Config, DataConfig, SupervisionConfig
from bertflow_jax.data.supervision import load_training_pairs
from bertflow_jax.data.text import load_text
from bertflow_jax.errors import CheckpointError
from bertflow_jax.evaluation.captions import fitted_on
from bertflow_jax.evaluation.own_text import own_text

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


def flow(path):
    columns = "sentence1,sentence2"
    return Config(data=DataConfig(path=str(path), format="tsv", columns=columns))


def text_manifest(config):
    return load_text(config.data).manifest


@pytest.mark.parametrize(("config_of", "manifest"), [(joint, manifest_of), (flow, text_manifest)])
def test_the_text_of_a_run_is_that_of_its_objective(file, config_of, manifest):
    """Catches rows of a joint run that were fitted on the bundled corpus, its data.path."""
    config = config_of(file)
    corpus = own_text(config, manifest(config))()
    assert corpus.examples == [(first, second) for first, second, _ in PAIRS]
    assert corpus.manifest["sha256"] == manifest(config)["sha256"]
    counts = [corpus.manifest[name] for name in ("examples", "sentences", "unique_sentences")]
    assert counts == [3, 6, 6]


@pytest.mark.parametrize(("config_of", "manifest"), [(joint, manifest_of), (flow, text_manifest)])
def test_a_text_that_was_changed_is_not_that_of_the_run(file, config_of, manifest):
    """Catches rows fitted on other text than the flow beside them, under the same name."""
    config = config_of(file)
    text = own_text(config, manifest(config))
    file.write_text(file.read_text().replace("a dog sleeps", "a dog barks"))
    field = "supervision.path" if config.objective == "joint" else "data.path"
    with pytest.raises(CheckpointError, match="--fit=run: ") as caught:
        text()
    assert f"{field}={file}" in str(caught.value)
