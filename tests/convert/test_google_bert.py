"""Google's BERT checkpoints: the hidden states of Hugging Face's BertModel, and named errors."""

import json
import re

import jax
import numpy as np
import pytest
import safetensors.numpy
from tf_bundle_writer import write_bundle

from bertflow_jax import SentenceEncoder
from bertflow_jax.convert.google_bert import find_lower_case, google_name
from bertflow_jax.convert.run import ConvertOptions, run_convert
from bertflow_jax.encoder import Bert, BertConfig, Pooler, hidden_state, load_params, read_config
from bertflow_jax.encoder.hf_layout import expected_shapes
from bertflow_jax.encoder.hf_weights import modern_name
from bertflow_jax.errors import ConfigError, DataNotFoundError, WeightsError

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "dog",
    "Dog",
    "caf\u00e9",
    "cafe",
    ".",
]
SIZES = {
    "vocab_size": len(WORDS),
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
}
HEADS = {
    "cls/predictions/output_bias": (11,),
    "cls/predictions/transform/dense/kernel": (12, 12),
    "cls/seq_relationship/output_weights": (2, 12),
    "global_step": (),
}


def google_variables(weights, layers=SIZES["num_hidden_layers"]):
    """{Google's name: array} of a Hugging Face state dict, name by name as BERT's code has them."""
    made = {}

    def dense(theirs, ours):
        made[f"{theirs}/kernel"] = weights[f"{ours}.weight"].T
        made[f"{theirs}/bias"] = weights[f"{ours}.bias"]

    def norm(theirs, ours):
        made[f"{theirs}/gamma"] = weights[f"{ours}.weight"]
        made[f"{theirs}/beta"] = weights[f"{ours}.bias"]

    for table in ("word", "position", "token_type"):
        name = f"{table}_embeddings"
        made[f"bert/embeddings/{name}"] = weights[f"embeddings.{name}.weight"]
    norm("bert/embeddings/LayerNorm", "embeddings.LayerNorm")
    for i in range(layers):
        theirs, ours = f"bert/encoder/layer_{i}", f"encoder.layer.{i}"
        for part in ("query", "key", "value"):
            dense(f"{theirs}/attention/self/{part}", f"{ours}.attention.self.{part}")
        dense(f"{theirs}/attention/output/dense", f"{ours}.attention.output.dense")
        norm(f"{theirs}/attention/output/LayerNorm", f"{ours}.attention.output.LayerNorm")
        dense(f"{theirs}/intermediate/dense", f"{ours}.intermediate.dense")
        dense(f"{theirs}/output/dense", f"{ours}.output.dense")
        norm(f"{theirs}/output/LayerNorm", f"{ours}.output.LayerNorm")
    dense("bert/pooler/dense", "pooler.dense")
    return {name: np.ascontiguousarray(value) for name, value in made.items()}


@pytest.fixture(scope="module")
def weights():
    """A random state dict, biases and norms far from their initial values."""
    rng = np.random.default_rng(0)
    shapes = expected_shapes(BertConfig(**SIZES))
    return {
        name: rng.normal(scale=0.3, size=shape).astype(np.float32) + ("LayerNorm.weight" in name)
        for name, shape in shapes.items()
    }


@pytest.fixture
def google(tmp_path, weights):
    """Return a writer of a model folder as Google published them; `change` edits the variables."""

    def write(change=lambda tensors: tensors, folder="uncased_L-2_H-12_A-3", words=WORDS):
        path = tmp_path / folder
        path.mkdir()
        heads = {name: np.ones(shape, np.float32) for name, shape in HEADS.items()}
        write_bundle(path / "bert_model.ckpt", change({**google_variables(weights), **heads}))
        (path / "bert_config.json").write_text(json.dumps({**SIZES, "hidden_act": "gelu"}))
        (path / "vocab.txt").write_text("\n".join(words) + "\n", "utf-8")
        return path

    return write


def convert(folder, output, **fields):
    return run_convert(ConvertOptions(checkpoint=str(folder), output=str(output), **fields))


def test_hidden_states_are_those_of_hugging_face(google, weights, tmp_path):
    """A kernel not transposed, query and key swapped, gamma for beta: every layer, and the pooler."""
    torch = pytest.importorskip("torch", reason="Hugging Face's BertModel needs torch")
    import transformers

    model = transformers.BertModel(transformers.BertConfig(**SIZES, attn_implementation="eager"))
    state = {name: torch.from_numpy(value) for name, value in weights.items()}
    model.load_state_dict(state, strict=False)
    ids = np.array([[2, 5, 6, 10, 3], [2, 7, 3, 0, 0]], np.int32)
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32)
    with torch.no_grad():
        expected = model.eval()(
            torch.from_numpy(ids).long(), torch.from_numpy(mask), output_hidden_states=True
        )
    convert(google(), tmp_path / "out")
    states, pooled = forward(tmp_path / "out" / "encoder", ids, mask)
    for ours, theirs in zip(states, expected.hidden_states, strict=True):
        assert np.abs((ours - theirs.numpy()) * mask[..., None]).max() < 1e-5
    np.testing.assert_allclose(pooled, expected.pooler_output.numpy(), atol=1e-5)


def forward(folder, ids, mask):
    """Hidden states [L + 1, B, T, D] and pooler output [B, D] of an encoder folder."""
    config = read_config(folder)
    params, _ = load_params(folder, config)
    body = {name: params[name] for name in ("embeddings", "layers")}
    found = jax.jit(lambda p: Bert(config).apply({"params": p}, ids, mask, hidden_state))(body)
    pooled = Pooler(config).apply({"params": params["pooler"]}, found.last_hidden[:, 0])
    return np.asarray(found.collected), pooled


def test_stored_hidden_states_of_hugging_face(shared, tmp_path):
    """The same without PyTorch: numbers that Hugging Face's classes made for a 4-layer BERT."""
    source = shared / "fixtures" / "tiny_bert"
    weights = safetensors.numpy.load_file(source / "safetensors" / "model.safetensors")
    weights = {modern_name(name, flax=False): value for name, value in weights.items()}
    write_bundle(tmp_path / "bert_model.ckpt", google_variables(weights, layers=4))
    config = str(source / "safetensors" / "config.json")
    vocab = str(source / "safetensors" / "vocab.txt")
    convert(tmp_path, tmp_path / "out", bert_config=config, vocab=vocab)
    expected = np.load(source / "expected.npz")
    mask = expected["attention_mask"].astype(np.int32)
    ids = expected["input_ids"].astype(np.int32)
    states, pooled = forward(tmp_path / "out" / "encoder", ids, mask)
    assert np.abs((states - expected["hidden_states"]) * mask[..., None]).max() < 1e-5
    np.testing.assert_allclose(pooled, expected["pooler_output"], atol=1e-5)


def test_names_are_googles(weights):
    """The rule in the package against the names written out above."""
    names = {google_name(name) for name in expected_shapes(BertConfig(**SIZES))}
    assert names == set(google_variables(weights))


@pytest.mark.parametrize(("lower", "ids"), [(True, [2, 6, 9, 3]), (False, [2, 7, 8, 3])])
def test_lower_casing_is_written_into_the_folder(google, tmp_path, lower, ids):
    """Other token ids than those the encoder was trained on; accents go with the case."""
    convert(google(folder="model"), tmp_path / "out", do_lower_case=lower, pooling="first_last")
    folder = tmp_path / "out" / "encoder"
    settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    assert settings["do_lower_case"] is lower
    encoder = SentenceEncoder.from_pretrained(folder)
    assert encoder.tokenize(["Dog caf\u00e9"])[0].tolist() == [ids]
    assert str(encoder.encoder.pooling) == "layers=(1,2),mean"


def test_every_tensor_is_on_one_list(google, weights, tmp_path):
    """A tensor that is neither used nor reported."""
    imported = convert(google(), tmp_path / "out")
    assert set(imported.used) == set(google_variables(weights))
    assert set(imported.left_out) == set(HEADS)
    record = json.loads((tmp_path / "out" / "import.json").read_text("utf-8"))
    assert (record["used"], record["left_out"]) == (imported.used, imported.left_out)


NEEDED = [
    "bert/embeddings/word_embeddings",
    "bert/embeddings/LayerNorm/beta",
    "bert/encoder/layer_1/attention/self/query/kernel",
    "bert/encoder/layer_0/output/dense/bias",
    "bert/pooler/dense/bias",
]


@pytest.mark.parametrize("name", NEEDED)
def test_missing_and_misshapen_tensors_are_named(google, tmp_path, name):
    """A parameter left at its initial value, a transposed or broadcast one."""
    fewer = google(lambda t: {k: v for k, v in t.items() if k != name})
    with pytest.raises(WeightsError, match=f"missing: {re.escape(name)};"):
        convert(fewer, tmp_path / "out")
    other = google(lambda t: {**t, name: t[name].repeat(2, axis=0)}, "uncased_L-3")
    with pytest.raises(WeightsError, match=rf"{re.escape(name)} has shape \(.*needs \("):
        convert(other, tmp_path / "out")
    assert not (tmp_path / "out" / "encoder").exists()


def test_w12_a_layer_more_than_the_config_says(google, tmp_path):
    """bert_config.json of a smaller model: its layers would be run, the others dropped."""
    name = "bert/encoder/layer_2/output/dense/bias"
    folder = google(lambda t: {**t, name: np.zeros(12, np.float32)})
    with pytest.raises(WeightsError, match=rf"no place for: {re.escape(name)} \(12,\)"):
        convert(folder, tmp_path / "out")


def test_w03_without_a_pooler(google, tmp_path):
    """Both tensors of the pooler may be absent together; then no pooling by it."""
    folder = google(lambda t: {k: v for k, v in t.items() if "pooler" not in k})
    convert(folder, tmp_path / "out")
    encoder = SentenceEncoder.from_pretrained(tmp_path / "out" / "encoder")
    assert "pooler" not in encoder.params["encoder"]
    with pytest.raises(WeightsError, match="pooling 'pooler' needs"):
        convert(folder, tmp_path / "other", pooling="pooler")


@pytest.mark.parametrize(
    ("folder", "given", "lower"),
    [
        ("uncased_L-12_H-768_A-12", None, True),
        ("cased_L-12_H-768_A-12", None, False),
        ("multi_cased_L-12_H-768_A-12", None, False),
        ("wwm_uncased_L-24_H-1024_A-16", True, True),
        ("model", True, True),
        ("model", False, False),
    ],
)
def test_case_from_flag_or_name(tmp_path, folder, given, lower):
    assert find_lower_case(tmp_path / folder / "vocab.txt", given) is lower


@pytest.mark.parametrize(
    ("folder", "given", "text"),
    [
        ("model", None, "--do_lower_case or --nodo_lower_case is needed"),
        ("uncased_L-12", False, "--nodo_lower_case contradicts the folder's name uncased_L-12"),
        ("cased_L-12", True, "--do_lower_case contradicts the folder's name cased_L-12"),
    ],
)
def test_case_unknown_or_contradicted(tmp_path, folder, given, text):
    """A guess would give other token ids without a word."""
    with pytest.raises(ConfigError, match=text):
        find_lower_case(tmp_path / folder / "vocab.txt", given)


def test_vocabularies_that_do_not_belong(google, tmp_path):
    """More tokens than rows is an error now, not at the first text that has one; fewer is said."""
    with pytest.raises(
        ConfigError, match=r"--vocab=.* has 12 tokens, but the .* embedding table has 11 rows"
    ):
        convert(google(words=[*WORDS, "more"]), tmp_path / "out")
    with pytest.warns(
        UserWarning, match="--vocab=.* has 10 tokens, and the .* embedding table 11 rows"
    ):
        convert(google(folder="uncased_L-3", words=WORDS[:-1]), tmp_path / "out")
    with pytest.raises(ConfigError, match=r"--vocab=.*lacks \[SEP\]"):
        convert(google(folder="uncased_L-4", words=["a", "[UNK]", "[CLS]"]), tmp_path / "other")


def test_files_beside_the_checkpoint_or_named(google, tmp_path):
    """The defaults, a flag for each, and what is said when neither is there."""
    folder = google()
    moved = tmp_path / "elsewhere.json"
    (folder / "bert_config.json").rename(moved)
    with pytest.raises(ConfigError, match=r"bert_config\.json is not there: name it with --bert_c"):
        convert(folder, tmp_path / "out")
    with pytest.raises(DataNotFoundError, match=r"--vocab=nowhere not found"):
        convert(folder, tmp_path / "out", bert_config=str(moved), vocab="nowhere")
    convert(folder, tmp_path / "out", bert_config=str(moved))
