"""Empty sentences of pairs are kept, counted and told of, by every way that pairs come in."""

import json
import logging

import pytest

from bertflow_jax.config import DataConfig
from bertflow_jax.data.supervision import load_dev_pairs, load_training_pairs
from bertflow_jax.data.text import load_text
from bertflow_jax.supervision_config import SupervisionConfig

# The last pair has no gold label: it is left out of classes, and so not counted.
ROWS = [
    ("A man sleeps.", "", "entailment", "4"),
    ("   ", "", "neutral", "1.5"),
    ("It rains.", "It is dry.", "contradiction", "0"),
    ("", "Nothing moves.", "-", "2"),
]
HEADER = ("sentence1", "sentence2", "gold_label", "score")


def write(path, rows):
    if path.suffix == ".jsonl":
        lines = [json.dumps(dict(zip(HEADER, row, strict=True))) for row in rows]
    else:
        lines = ["\t".join(row) for row in (HEADER, *rows)]
        if path.suffix == ".csv":
            lines = [line.replace("\t", ",") for line in lines]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl"])
def test_empty_sentences_to_learn_from_are_told_of(tmp_path, caplog, suffix):
    """Pairs that teach the vector of no words what the others' are, and nobody is told."""
    path = write(tmp_path / f"pairs{suffix}", ROWS)
    with caplog.at_level(logging.WARNING):
        pairs = load_training_pairs(SupervisionConfig(path=path), "siamese")
    assert pairs.sentences2 == ["", "", "It is dry."]
    assert f"supervision.path={path}: 3 of 6 texts are empty: all of them get one" in caplog.text
    caplog.clear()
    scored = SupervisionConfig(path=path, label_column="score", score_range="0,5")
    with caplog.at_level(logging.WARNING):
        assert len(load_training_pairs(scored, "regression")) == 4
    assert f"supervision.path={path}: 4 of 8 texts are empty" in caplog.text


def test_empty_sentences_of_the_dev_set_are_told_of(tmp_path, caplog):
    path = write(tmp_path / "dev.tsv", ROWS[:1])
    train = write(tmp_path / "train.tsv", ROWS[2:3])
    config = SupervisionConfig(path=train, dev_path=path, dev_metric="accuracy")
    with caplog.at_level(logging.WARNING):
        load_training_pairs(config, "siamese")
        assert caplog.text == ""
        load_dev_pairs(config, "siamese")
    assert f"supervision.dev_path={path}: 1 of 2 texts are empty" in caplog.text


def test_an_empty_side_that_a_flow_is_fitted_on_is_told_of(tmp_path, caplog):
    """The same file as text of a flow: a pair of two empty sides is dropped, one side stays."""
    path = write(tmp_path / "pairs.tsv", ROWS)
    with caplog.at_level(logging.WARNING):
        corpus = load_text(DataConfig(path=path, format="pairs"))
    assert corpus.manifest["blank_lines_skipped"] == 1
    assert f"data.path={path}: 2 of 6 texts are empty" in caplog.text


def test_pairs_without_an_empty_sentence_are_passed_in_silence(caplog):
    with caplog.at_level(logging.WARNING):
        load_training_pairs(SupervisionConfig(path="everyday"), "regression")
    assert caplog.text == ""
