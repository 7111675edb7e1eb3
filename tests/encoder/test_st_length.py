"""How long a text may be where the files of a sentence-transformers folder differ, as it has it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax import SentenceEncoder
from bertflow_jax.errors import BertFlowWarning, ConfigError

MINI_BERT = Path(__file__).parents[2] / "bertflow_jax" / "models" / "mini_bert"  # 128 positions
LONG = [
    " ".join(f"the {word} of a house" for word in ("door", "roof", "wall") * 20),
    "a short one",
    " ".join(["rain", "falls", "on", "the", "hills"] * 15),
]


@pytest.fixture
def folder(tmp_path):
    """Function (max_seq_length, model_max_length) of mini_bert that says both; None: not at all."""

    def make(ours, tokenizers):
        shutil.copytree(MINI_BERT, tmp_path / "model")
        kinds = {"": "Transformer", "1_Pooling": "Pooling"}
        modules = [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, kind) in enumerate(kinds.items())
        ]
        config = json.loads((MINI_BERT / "tokenizer_config.json").read_text("utf-8"))
        config.pop("model_max_length", None)
        if tokenizers is not None:
            config["model_max_length"] = tokenizers
        pooling = {"word_embedding_dimension": 256, "pooling_mode_mean_tokens": True}
        files = {
            "modules.json": modules,
            "tokenizer_config.json": config,
            "sentence_bert_config.json": {"max_seq_length": ours, "do_lower_case": False},
            "1_Pooling/config.json": pooling,
        }
        (tmp_path / "model" / "1_Pooling").mkdir(exist_ok=True)
        for name, content in files.items():
            (tmp_path / "model" / name).write_text(json.dumps(content), "utf-8")
        return tmp_path / "model"

    return make


@pytest.mark.parametrize(
    ("ours", "tokenizers", "length"),
    [(64, 16, 64), (16, 64, 16), (128, 32, 128), (64, None, 64), (None, 16, 16), (None, None, 128)],
)
def test_the_length_is_that_of_sentence_transformers(folder, ours, tokenizers, length):
    """Bug: the smaller of two, so that long texts had other vectors than there."""
    package = pytest.importorskip("sentence_transformers", reason="not installed")
    path = folder(ours, tokenizers)
    model = package.SentenceTransformer(str(path), device="cpu").float()
    encoder = SentenceEncoder.from_pretrained(path)
    assert encoder.max_seq_length == model.max_seq_length == length
    np.testing.assert_allclose(encoder.encode(LONG), model.encode(LONG), atol=1e-5)


def test_the_table_is_the_end_of_it(folder):
    """Where sentence-transformers ends with an index error."""
    encoder = SentenceEncoder.from_pretrained(folder(300, 16))
    assert encoder.max_seq_length == 128
    cut = SentenceEncoder.from_pretrained("mini_bert", max_length=128)
    np.testing.assert_array_equal(encoder.encode(LONG), cut.encode(LONG))


def test_a_length_of_the_user_beside_both(folder, tmp_path):
    """The larger of what the files say is the limit; a saved folder says one length alone."""
    path = folder(64, 16)
    assert SentenceEncoder.from_pretrained(path, max_length=40).max_seq_length == 40
    with pytest.warns(BertFlowWarning, match="max_length=100 is above the tokenizer's .* using 64"):
        assert SentenceEncoder.from_pretrained(path, max_length=100).max_seq_length == 64
    with pytest.raises(ConfigError, match="position table of 128 rows"):
        SentenceEncoder.from_pretrained(path, max_length=129)
    encoder = SentenceEncoder.from_pretrained(path)
    encoder.max_seq_length = 50
    assert encoder.max_seq_length == 50
    encoder.save_pretrained(tmp_path / "saved")
    assert SentenceEncoder.from_pretrained(tmp_path / "saved").max_seq_length == 50
