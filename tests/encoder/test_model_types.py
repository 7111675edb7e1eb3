"""Folders of sentence-transformers that are no dense encoders, and padding on the left."""

import json
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax import SentenceEncoder
from bertflow_jax.encoder.folder import read_folder
from bertflow_jax.errors import BertFlowWarning, UnsupportedModelError

CONFIG = "config_sentence_transformers.json"


@pytest.fixture
def dense(bert_folder, tmp_path) -> Path:
    """A saved dense encoder: Transformer and Pooling."""
    SentenceEncoder.from_pretrained(bert_folder(), pooling="mean").save_pretrained(tmp_path / "st")
    return tmp_path / "st"


@pytest.mark.parametrize(
    "kind", ["SparseEncoder", "CrossEncoder", "MultiVectorEncoder", "ColBERT", None, 5], ids=str
)
@pytest.mark.parametrize("modules", [True, False])
def test_another_type_of_model_is_refused(dense, kind, modules):
    """Bug: the scores of a reranker or sparse vectors were asked for, dense ones came out."""
    (dense / CONFIG).write_text(json.dumps({"model_type": kind, "prompts": {}}))
    if not modules:
        (dense / "modules.json").unlink()
        (dense / "1_Pooling" / "config.json").unlink()
        (dense / "1_Pooling").rmdir()
    for pooling in (None, "mean"):
        with pytest.raises(UnsupportedModelError, match=rf"{CONFIG}: model_type={kind!r}: only Se"):
            SentenceEncoder.from_pretrained(dense, pooling=pooling)


def test_the_type_of_a_dense_model_is_taken(dense):
    before = SentenceEncoder.from_pretrained(dense).encode(["the dog"])
    (dense / CONFIG).write_text(json.dumps({"model_type": "SentenceTransformer", "prompts": {}}))
    found = SentenceEncoder.from_pretrained(dense).encode(["the dog"])
    np.testing.assert_array_equal(found, before)


def test_a_cross_encoder_of_versions_4_and_5(bert_folder):
    """Bug: its config.json alone says what it is; the vectors of a reranker mean nothing."""
    folder = bert_folder()
    config = json.loads((folder / "config.json").read_text())
    config["sentence_transformers"] = {"activation_fn": "torch.nn.modules.linear.Identity"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedModelError, match=r"config\.json: .*activation_fn.*CrossEncoder"):
        read_folder(folder)


@pytest.mark.parametrize("kind", ["CrossEncoder", "SparseEncoder", "MultiVectorEncoder"])
def test_what_sentence_transformers_saves(bert_folder, tmp_path, kind):
    """The real files of the installed version, which may come to name their type elsewhere."""
    package = pytest.importorskip("sentence_transformers", reason="not installed")
    if not hasattr(package, kind):
        pytest.skip(f"this version has no {kind}")
    getattr(package, kind)(str(bert_folder()), device="cpu").save_pretrained(str(tmp_path / "out"))
    with pytest.raises(UnsupportedModelError):
        SentenceEncoder.from_pretrained(tmp_path / "out", pooling="mean")


TEXTS = ["the dog", "a b c d e f g h", "dogs.", ""]


@pytest.mark.parametrize("mode", ["mean", "cls", "max"])
def test_padding_on_the_left_gives_the_vectors_of_single_texts(bert_folder, tmp_path, mode):
    """There a vector depends on the longest text of its batch; here it is the one without padding."""
    package = pytest.importorskip("sentence_transformers", reason="not installed")
    SentenceEncoder.from_pretrained(bert_folder(), pooling=mode).save_pretrained(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"padding_side": "left"}))
    model = package.SentenceTransformer(str(tmp_path), device="cpu")
    alone, together = (model.encode(TEXTS, batch_size=size) for size in (1, 4))
    assert np.abs(alone - together).max() > 0.1
    with pytest.warns(BertFlowWarning, match="pads on the left"):
        found = SentenceEncoder.from_pretrained(tmp_path).encode(TEXTS)
    np.testing.assert_allclose(found, alone, atol=1e-5)
