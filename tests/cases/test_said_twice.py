"""Names that occur twice, files and folders that are taken for something else: never a guess."""

import json

import pytest

from bertflow_jax.config import DataConfig
from bertflow_jax.data.glue_files import glue_folder
from bertflow_jax.data.json_files import parse_json_line
from bertflow_jax.data.sts_files import read_sick_rows
from bertflow_jax.data.text import load_text
from bertflow_jax.encoder.folder import read_folder
from bertflow_jax.errors import ConfigError, DataError


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_a_column_that_is_asked_for_is_there_once(tmp_path, suffix):
    """Bug: of two columns of one name the first was taken without a word."""
    between = {"csv": ",", "tsv": "\t"}[suffix]
    path = tmp_path / f"x.{suffix}"
    path.write_text("\n".join(between.join(row) for row in (["id", "a", "a"], "123", "456")))
    with pytest.raises(DataError, match=rf"x\.{suffix}, line 1: 2 columns are called 'a'"):
        load_text(DataConfig(path=str(path), columns="a"))
    # Another one may be read, and either of them by its number.
    assert load_text(DataConfig(path=str(path), columns="id")).manifest["unique_sentences"] == 2
    assert load_text(DataConfig(path=str(path), columns="2")).manifest["unique_sentences"] == 3


def test_sick_with_two_scores(tmp_path):
    """Bug: the scores of the first of two columns."""
    header = ["pair_ID", "sentence_A", "sentence_B", "relatedness_score", "relatedness_score"]
    row = ["1", "a b", "c d", "3.0", "4.0"]
    (tmp_path / "SICK_train.txt").write_text("\t".join(header) + "\n" + "\t".join(row) + "\n")
    with pytest.raises(DataError, match="2 columns are called 'relatedness_score'"):
        read_sick_rows(tmp_path, "train", "utf-8")


def test_glue_with_two_labels(tmp_path):
    """Bug: the labels of the first of two columns."""
    folder = tmp_path / "QNLI"
    folder.mkdir()
    header = "index\tquestion\tsentence\tlabel\tlabel\n"
    (folder / "dev.tsv").write_text(header + "0\ta\tb\tentailment\tnot_entailment\n")
    with pytest.raises(DataError, match="2 columns are called 'label'"):
        glue_folder(tmp_path, "qnli").read("dev")


def test_a_key_of_a_json_line_occurs_once():
    """Bug: the last of two texts was read."""
    with pytest.raises(DataError, match=r"x, line 3: not JSON \(the key 'text' occurs twice\)"):
        parse_json_line('{"text": "a", "n": {}, "text": "b"}', "x, line 3")
    assert parse_json_line('{"text": "a", "n": {"text": 1}}', "x")["n"] == {"text": 1}


@pytest.mark.parametrize("name", ["x.jsonl", "x.JSON", "x.jsonl.gz", "x.parquet", "x.npy"])
def test_no_text_file_is_no_text(tmp_path, name):
    """Bug: a flow fitted to braces and keys, while embed reads the texts of the same file."""
    (tmp_path / name).write_text('{"text": "a"}\n{"text": "b"}\n')
    with pytest.raises(ConfigError, match=r"files are not read for training; .*data\.format=text"):
        load_text(DataConfig(path=str(tmp_path / name)))
    if not name.endswith(".gz"):  # what is asked for is done
        config = DataConfig(path=str(tmp_path / name), format="text")
        assert load_text(config).manifest["unique_sentences"] == 2


def test_a_folder_that_has_lost_its_modules(tmp_path):
    """Bug: without modules.json the pooling and the scaling to length 1 beside it were left out."""
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": "cls"}))
    with pytest.raises(ConfigError, match=r"modules\.json is missing, but 1_Pooling is there"):
        read_folder(tmp_path)
