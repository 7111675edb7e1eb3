"""config.json: what is accepted, what is refused, and how the refusal reads."""

import json

import pytest

from bertflow_jax.encoder import BertConfig, read_config
from bertflow_jax.errors import ConfigError, DataNotFoundError, UnsupportedModelError

FIELDS = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}


def test_w04_google_config_without_model_type_gets_bert_defaults():
    """Catches a loader that insists on Hugging Face's extra fields (case W04, last line)."""
    config = BertConfig.from_dict(FIELDS)
    assert config.layer_norm_eps == 1e-12
    assert config.hidden_act == "gelu"
    assert (config.type_vocab_size, config.pad_token_id, config.head_size) == (2, 0, 8)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("position_embedding_type", "relative_key"),
        ("position_embedding_type", "relative_key_query"),
        ("position_embedding_type", "rotary"),
        ("is_decoder", True),
        ("add_cross_attention", True),
        ("hidden_act", "swish2"),
    ],
)
def test_w06_w07_variants_that_change_the_computation_are_refused(field, value):
    """Catches a field that is ignored and computed as plain BERT (cases W06, W07)."""
    with pytest.raises(UnsupportedModelError, match=rf"{field}={value!r}.*not supported"):
        BertConfig.from_dict({**FIELDS, field: value})


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_attention_heads", 5, "hidden_size=32 is not a multiple of num_attention_heads=5"),
        ("num_hidden_layers", 0, "num_hidden_layers=0"),
        ("vocab_size", "100", "vocab_size='100'"),
        ("hidden_size", True, "hidden_size=True"),
        ("layer_norm_eps", "1e-12", "layer_norm_eps='1e-12'"),
        ("hidden_dropout_prob", 1.0, "hidden_dropout_prob=1.0"),
        ("pad_token_id", [0], r"pad_token_id=\[0\] must be an integer"),
    ],
)
def test_w12_impossible_values_name_the_field(field, value, message):
    """Catches a config error that surfaces later as a shape error (case W12)."""
    with pytest.raises(ConfigError, match=message):
        BertConfig.from_dict({**FIELDS, field: value}, source="x/config.json")


def test_missing_size_names_file_and_field(tmp_path):
    """Catches a KeyError for a config of something else."""
    fields = {k: v for k, v in FIELDS.items() if k != "intermediate_size"}
    (tmp_path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(ConfigError, match=r"config\.json: missing intermediate_size"):
        read_config(tmp_path)


@pytest.mark.parametrize(("text", "message"), [("{", "not valid JSON"), ("[1]", "object")])
def test_damaged_config_names_the_file(tmp_path, text, message):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ConfigError, match=rf"config\.json.*{message}"):
        read_config(tmp_path)


def test_folder_without_config(tmp_path):
    """Catches a raw FileNotFoundError (case X01)."""
    with pytest.raises(DataNotFoundError, match=r"config\.json is missing"):
        read_config(tmp_path)


def test_hf_dict_round_trip():
    config = BertConfig.from_dict({**FIELDS, "hidden_act": "relu", "layer_norm_eps": 1e-5})
    assert BertConfig.from_dict(config.to_hf_dict()) == config


def test_hidden_act_of_a_wrong_type(small_config):
    """A list as hidden_act ended in a TypeError."""
    with pytest.raises(UnsupportedModelError, match="hidden_act"):
        BertConfig.from_dict({**small_config.to_hf_dict(), "hidden_act": ["gelu"]})


@pytest.mark.parametrize("name", ["num_hidden_layers", "vocab_size"])
def test_a_size_that_is_null_is_missing(name):
    """TypeError: null is the default of other fields, and a size has none."""
    with pytest.raises(ConfigError, match=rf"x/config\.json: missing {name}"):
        BertConfig.from_dict({**FIELDS, name: None}, source="x/config.json")
