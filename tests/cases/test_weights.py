"""Weights and config of an encoder: the cases W01 to W12 over every format that is read."""

import json

import numpy as np
import pytest

from benchmarks.fuzz_weight_damage import LFS
from benchmarks.fuzz_weight_folders import CONFIG, PLAIN, write_encoder
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.encoder.hf_layout import to_hf
from bertflow_jax.encoder.pretrained import load_encoder
from bertflow_jax.errors import BertFlowError, ConfigError, UnsupportedModelError, WeightsError

TEXTS = ["the dog", "a b c.", "dogs"]
NAMES = ("model.safetensors", "flax_model.msgpack", "pytorch_model.bin")


@pytest.fixture(scope="module")
def tensors():
    """The parameters of a tiny BERT by Hugging Face's names; LayerNorms are not the identity."""
    import jax

    from bertflow_jax.encoder import init_params

    made = to_hf(init_params(CONFIG, jax.random.key(1)))
    rng = np.random.default_rng(0)
    return {k: v + rng.normal(0, 0.1, v.shape).astype(np.float32) for k, v in made.items()}


def write(place, kind, tensors, **fields):
    """Write an encoder of a format of `PLAIN`, its config changed by `fields`."""
    if ".bin" in kind:
        pytest.importorskip("torch", reason="a .bin file needs torch")
    write_encoder(place, kind, tensors)
    config = json.loads((place / "config.json").read_text())
    for name, value in fields.items():
        config[name] = value
        if value is ...:
            del config[name]
    (place / "config.json").write_text(json.dumps(config))
    return place


def old_name(name):
    """The name that a tensor of a LayerNorm has in bert-base-uncased's first files."""
    module, _, leaf = name.rpartition(".")
    if module.endswith("LayerNorm"):
        leaf = {"weight": "gamma", "bias": "beta"}[leaf]
    return f"bert.{module}.{leaf}"


@pytest.mark.parametrize("kind", PLAIN)
def test_w01_vectors_of_legacy_names_are_those_of_modern_names(tensors, tmp_path, kind):
    """Bug: LayerNorm's gamma and beta unread in one of the formats, or classifier.gamma renamed."""
    modern = write(tmp_path / "modern", kind, tensors)
    old = {old_name(name): value for name, value in tensors.items()}
    legacy = write(tmp_path / "old", kind, {**old, "classifier.gamma": np.ones(3, np.float32)})
    first, second = load_encoder(modern), load_encoder(legacy)
    assert "classifier.gamma" in {name.replace("/", ".") for name in second.audit.skipped}
    np.testing.assert_array_equal(
        SentenceEncoder(first).encode(TEXTS), SentenceEncoder(second).encode(TEXTS)
    )


@pytest.mark.parametrize("name", ["encoder.gamma", "gamma", "LayerNorm_x.gamma"])
def test_w01_gamma_and_beta_are_read_only_under_a_layer_norm(tensors, tmp_path, name):
    """Bug: another parameter whose name ends in gamma taken for a LayerNorm's, without a word."""
    folder = write(tmp_path / "x", NAMES[0], {**tensors, name: np.ones(8, np.float32)})
    with pytest.raises(WeightsError, match=rf"no place for: {name} \(8,\)"):
        load_encoder(folder)


@pytest.mark.parametrize("module", ["embeddings.word_embeddings", "pooler.dense"])
def test_w01_gamma_elsewhere_is_no_weight(tensors, tmp_path, module):
    """Bug: a rename of every gamma: the tensor of another module would be read as its weight."""
    changed = {k.replace(f"{module}.weight", f"{module}.gamma"): v for k, v in tensors.items()}
    folder = write(tmp_path / "x", NAMES[0], changed)
    with pytest.raises(WeightsError, match=rf"missing: {module}\.weight"):
        load_encoder(folder)


@pytest.mark.parametrize("kind", PLAIN)
def test_w03_a_missing_pooler_is_never_made_up(tensors, tmp_path, kind):
    """Bug: a random pooler, other vectors on every load; in any format."""
    without = {k: v for k, v in tensors.items() if not k.startswith("pooler")}
    folder = write(tmp_path / "x", kind, without)
    with pytest.raises(WeightsError, match=r"needs pooler\.dense\.weight and pooler\.dense\.bias"):
        load_encoder(folder, pooling="pooler")
    first, second = (load_encoder(folder, pooling="cls") for _ in range(2))
    assert "pooler" not in first.params
    assert first.identity() == second.identity()


@pytest.mark.parametrize("damage", [LFS, b""])
@pytest.mark.parametrize("model_type", ["roberta", "distilbert", "albert", "xlm-roberta", ""])
def test_w04_another_model_type_is_named_before_its_weights_are_read(
    tensors, tmp_path, model_type, damage
):
    """Bug: RoBERTa's layers left random; or the state of its weight file told first."""
    folder = write(tmp_path / "x", NAMES[0], tensors, model_type=model_type, type_vocab_size=1)
    (folder / NAMES[0]).write_bytes(damage)
    with pytest.raises(UnsupportedModelError, match=rf"config\.json: model_type='{model_type}'"):
        load_encoder(folder)


def test_w04_without_a_model_type_the_names_decide(tensors, tmp_path):
    """Bug: a folder of BERT refused for a field that old ones lack, or RoBERTa taken for BERT."""
    folder = write(tmp_path / "bert", NAMES[0], tensors, model_type=...)
    assert (
        load_encoder(folder).identity()
        == load_encoder(write(tmp_path / "said", NAMES[0], tensors)).identity()
    )
    renamed = {f"roberta.{name}": value for name, value in tensors.items()}
    folder = write(tmp_path / "roberta", NAMES[0], renamed, model_type=...)
    with pytest.raises(WeightsError, match=r"no tensor of a BERT; .*roberta\.embeddings"):
        load_encoder(folder)


@pytest.mark.parametrize("name", ["swish2", "GELU", "", None, 3])
def test_w06_an_unknown_activation_is_named(tensors, tmp_path, name):
    """Bug: a placeholder instead of the activation, as for a name that is spelt otherwise."""
    folder = write(tmp_path / "x", NAMES[0], tensors, hidden_act=name)
    if name is None:  # null is the default, as for Hugging Face
        assert load_encoder(folder).config.hidden_act == "gelu"
        return
    with pytest.raises(UnsupportedModelError, match=rf"config\.json.*hidden_act={name!r}"):
        load_encoder(folder)


def test_w06_eps_and_activation_decide_the_vectors(tensors, tmp_path):
    """Bug: either of the two read from the config and used nowhere."""
    vectors = [
        SentenceEncoder.from_pretrained(
            write(tmp_path / str(i), NAMES[0], tensors, **fields)
        ).encode(TEXTS)
        for i, fields in enumerate(
            [{}, {"hidden_act": "gelu_new"}, {"hidden_act": "relu"}, {"layer_norm_eps": 0.1}]
        )
    ]
    gaps = [float(np.abs(other - vectors[0]).max()) for other in vectors[1:]]
    assert 1e-7 < gaps[0] < 1e-3 < gaps[1]
    assert gaps[2] > 1e-3


@pytest.mark.parametrize("with_table", [True, False])
def test_w07_relative_positions_are_refused_with_and_without_their_table(
    tensors, tmp_path, with_table
):
    """Bug: the field ignored and absolute positions computed."""
    table = {"encoder.layer.0.attention.self.distance_embedding.weight": np.ones((31, 4), "f")}
    given = {**tensors, **(table if with_table else {})}
    folder = write(tmp_path / "x", NAMES[0], given, position_embedding_type="relative_key")
    with pytest.raises(UnsupportedModelError, match=r"position_embedding_type='relative_key'"):
        load_encoder(folder)
    for value in ("absolute", ..., None):
        place = tmp_path / str(value)
        write(place, NAMES[0], tensors, position_embedding_type=value)
        assert load_encoder(place).config.max_position_embeddings == 16


def test_w07_a_text_longer_than_the_table_is_cut_and_keeps_its_last_token(tensors, tmp_path):
    """Bug: positions beyond the table clamped to its last row."""
    short = {**tensors, "embeddings.position_embeddings.weight": np.ones((10, 8), "f")}
    folder = write(tmp_path / "x", NAMES[0], short, max_position_embeddings=10)
    encoder = SentenceEncoder.from_pretrained(folder)
    ids, mask = encoder.tokenize(["the " * 9])  # 11 tokens
    assert ids.tolist() == [[2, *[9] * 8, 3]]
    assert mask.sum() == 10
    with pytest.raises(BertFlowError, match=r"11 tokens.*10 rows"):
        encoder.embed_fn(encoder.params, np.ones((1, 11), np.int32), np.ones((1, 11), np.int32))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"hidden_size": 64, "num_attention_heads": 4}, r"has shape \(12, 8\), expected \(12, 64"),
        ({"num_hidden_layers": 1}, r"no place for: (bert\.)?encoder.layer.1"),
        ({"num_hidden_layers": 3}, r"missing: encoder\.layer\.2\."),
        ({"num_hidden_layers": 2**60}, "too few for num_hidden_layers=1152921504606846976"),
    ],
)
@pytest.mark.parametrize("kind", PLAIN)
def test_w12_shapes_are_those_of_the_config(tensors, tmp_path, kind, fields, words):
    """Bug: another model's config found out inside apply; a damaged number of layers never ended."""
    folder = write(tmp_path / "x", kind, tensors, **fields)
    with pytest.raises(WeightsError, match=words):
        load_encoder(folder)


def test_w12_heads_that_do_not_divide_the_width_are_a_mistake_of_the_config(tensors, tmp_path):
    """Bug: a reshape error in the first forward pass."""
    folder = write(tmp_path / "x", NAMES[0], tensors, hidden_size=64, num_attention_heads=5)
    with pytest.raises(ConfigError, match=r"config\.json.*64 is not a multiple of .*heads=5"):
        load_encoder(folder)
