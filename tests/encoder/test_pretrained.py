"""Loading an encoder from a folder, saving it, and what identifies it."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.encoder.folder import ST_MODULES
from bertflow_jax.errors import ConfigError, WeightsError

TEXTS = ["the dog", "a b c d e f g h", "dogs.", "b", "the dog . the dog ."]


@pytest.mark.parametrize("pooling", ["mean", "pooler", "first_last,concat"])
def test_save_pretrained_round_trip(bert_folder, tmp_path, pooling):
    """Catches weights, tokenizer, pooling or length lost on the way through a folder."""
    first = SentenceEncoder.from_pretrained(bert_folder(), pooling=pooling, max_length=12)
    first.save_pretrained(tmp_path / "saved")
    second = SentenceEncoder.from_pretrained(tmp_path / "saved")
    assert second.identity() == first.identity()
    assert second.identity()["max_length"] == 12
    np.testing.assert_array_equal(second.encode(TEXTS), first.encode(TEXTS))


def test_saved_folder_is_read_by_hugging_face(bert_folder, tmp_path):
    """Catches names, layout or tokenizer options only we can read."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    encoder = SentenceEncoder.from_pretrained(bert_folder())
    encoder.save_pretrained(tmp_path / "saved")
    model, info = transformers.BertModel.from_pretrained(
        tmp_path / "saved", output_loading_info=True
    )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    for text in TEXTS:
        with torch.no_grad():
            hidden = model.eval()(**tokenizer(text, return_tensors="pt")).last_hidden_state
        np.testing.assert_allclose(encoder.encode(text), hidden[0].mean(0), atol=2e-5)


def test_identity_sees_everything_that_decides_the_vectors(bert_folder):
    """Catches a flow restored beside another encoder."""
    folder, other = bert_folder(), bert_folder("other", seed=1)
    base = SentenceEncoder.from_pretrained(folder).identity()
    assert json.loads(json.dumps(base)) == base
    assert base["num_parameters"] == 7256
    assert base["pooling"] == "layers=(3),mean"
    for kwargs, changed in [
        ({"path_or_hub_id": other}, "weights_sha256"),
        ({"pooling": "cls"}, "pooling"),
        ({"max_length": 20}, "max_length"),
        ({"dtype": "bfloat16"}, "dtype"),
    ]:
        identity = SentenceEncoder.from_pretrained(
            **{"path_or_hub_id": folder, **kwargs}
        ).identity()
        assert {key for key in base if base[key] != identity[key]} == {changed}


def test_w03_pooler_is_never_random(bert_folder):
    """Case W03: refused by name, and the other poolings are bit-equal over two loads."""
    folder = bert_folder(pooler=False)
    for name in ("pooler", "released-cls"):
        with pytest.raises(WeightsError, match=r"needs pooler\.dense\.weight"):
            SentenceEncoder.from_pretrained(folder, pooling=name)
    for name in ("cls", "mean", "first_last", "last2"):
        a, b = (SentenceEncoder.from_pretrained(folder, pooling=name).encode(TEXTS) for _ in "ab")
        np.testing.assert_array_equal(a, b)


def test_dtype(bert_folder):
    """float16 is refused by name; bfloat16 keeps float32 parameters and output."""
    folder = bert_folder()
    with pytest.raises(ConfigError, match="dtype='float16': one of float32, bfloat16"):
        SentenceEncoder.from_pretrained(folder, dtype="float16")
    low = SentenceEncoder.from_pretrained(folder, dtype="bfloat16")
    assert {x.dtype for x in jax.tree.leaves(low.params)} == {jnp.dtype("float32")}
    exact = SentenceEncoder.from_pretrained(folder).encode(TEXTS, normalize=True)
    cosine = (low.encode(TEXTS, normalize=True) * exact).sum(axis=1)
    assert low.encode(TEXTS).dtype == np.float32
    assert 0.99 < cosine.min() < 1 - 1e-7


def test_sentence_transformers_folder_is_honoured_unless_overridden(bert_folder):
    """A pooling given by the caller replaces the folder's Pooling and Normalize together."""
    folder = bert_folder()
    kinds = ("Transformer", "1_Pooling", "2_Normalize")
    modules = [
        {"path": "" if i == 0 else k, "type": f"{ST_MODULES}{k[2:] if i else k}"}
        for i, k in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls"}')
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 9}')
    own = SentenceEncoder.from_pretrained(folder)
    assert own.encoder.normalize
    assert own.identity()["pooling"] == "layers=(3),cls"
    assert own.encoder.tokenizer.max_length == 9
    np.testing.assert_allclose(np.linalg.norm(own.encode(TEXTS), axis=1), 1, atol=1e-5)
    given = SentenceEncoder.from_pretrained(folder, pooling="cls", max_length=30)
    assert not given.encoder.normalize
    assert given.encoder.tokenizer.max_length == 30
    np.testing.assert_allclose(
        given.encode(TEXTS[:1], normalize=True), own.encode(TEXTS[:1]), atol=1e-5
    )


@pytest.mark.parametrize("order", [("first_last", "mean"), ("mean", "first_last")])
def test_saving_over_an_older_save(bert_folder, tmp_path, order):
    """The settings of the older layout stayed and were believed: another pooling came back."""
    for pooling in order:
        encoder = SentenceEncoder.from_pretrained(bert_folder(pooling), pooling=pooling)
        encoder.save_pretrained(tmp_path / "saved")
    again = SentenceEncoder.from_pretrained(tmp_path / "saved")
    assert again.identity() == encoder.identity()
    own = (tmp_path / "saved" / "bertflow_jax.json").exists()
    assert own == (order[1] == "first_last")
