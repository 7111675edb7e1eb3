"""Names and shapes of weight files: everything used, skipped for a reason, or an error."""

import jax
import numpy as np
import pytest
import safetensors.numpy

from bertflow_jax.encoder import init_params, load_params, params_digest, read_config
from bertflow_jax.encoder.hf_layout import expected_shapes, to_hf
from bertflow_jax.encoder.hf_weights import modern_name
from bertflow_jax.errors import WeightsError


@pytest.fixture
def rewrite(bert_folder):
    """Return a function that edits a folder's tensors in place and returns the folder."""

    def edit(change, name="edited"):
        folder = bert_folder(name)
        path = folder / "model.safetensors"
        tensors = change(dict(safetensors.numpy.load_file(path)))
        safetensors.numpy.save_file(tensors, path)
        return folder

    return edit


def load(folder):
    return load_params(folder, read_config(folder))


def assert_equal_trees(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def test_loaded_tree_has_the_models_own_layout(bert_folder, small_config, small_params):
    """Catches a tree that Flax would read under other names, and a lossy save."""
    params, audit = load(bert_folder())
    shapes = jax.eval_shape(lambda key: init_params(small_config, key), jax.random.key(0))
    assert jax.tree.structure(params) == jax.tree.structure(shapes)
    assert jax.tree.map(lambda x: x.shape, params) == jax.tree.map(lambda x: x.shape, shapes)
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {np.dtype(np.float32)}
    assert_equal_trees(params, small_params)
    assert set(audit.used) == set(expected_shapes(small_config))
    assert audit.skipped == {}


def old_names(tensors):
    """Rename to what bert-base-uncased's first files used."""
    renamed = {}
    for name, value in tensors.items():
        module, _, leaf = name.rpartition(".")
        if module.endswith("LayerNorm"):
            leaf = {"weight": "gamma", "bias": "beta"}[leaf]
        renamed[f"bert.{module}.{leaf}"] = value
    return renamed


def test_w01_legacy_names_give_the_same_parameters(rewrite, small_params):
    """Catches LayerNorm gamma and beta left unread (case W01)."""
    extra = {
        "bert.embeddings.position_ids": np.arange(40)[None],
        "cls.predictions.bias": np.ones(3, np.float32),
        "classifier.gamma": np.ones(3, np.float32),
        "classifier.weight": np.ones((2, 3), np.float32),
    }
    params, audit = load(rewrite(lambda t: {**old_names(t), **extra}))
    assert_equal_trees(params, small_params)
    assert set(audit.skipped) == set(extra)
    assert audit.skipped["classifier.gamma"] == "classification head"
    assert "bert.embeddings.LayerNorm.gamma" in audit.used


@pytest.mark.parametrize(
    ("name", "flax", "modern"),
    [
        ("module.bert.embeddings.LayerNorm.gamma", False, "embeddings.LayerNorm.weight"),
        ("encoder.layer.0.output.LayerNorm.beta", False, "encoder.layer.0.output.LayerNorm.bias"),
        ("classifier.gamma", False, "classifier.gamma"),
        ("embeddings.gamma_embeddings.weight", False, "embeddings.gamma_embeddings.weight"),
        ("bert.pooler.dense.kernel", True, "pooler.dense.weight"),
        ("pooler.dense.kernel", False, "pooler.dense.kernel"),
        ("encoder.bert.weight", False, "encoder.bert.weight"),
    ],
)
def test_w01_only_what_a_rule_names_is_renamed(name, flax, modern):
    """Catches a rename of every key that contains gamma, beta or bert (case W01)."""
    assert modern_name(name, flax) == modern


def test_w03_checkpoint_without_pooler(rewrite, small_params):
    """Catches a random pooler: the tree has none, and two loads are equal (case W03)."""
    folder = rewrite(lambda t: {k: v for k, v in t.items() if not k.startswith("pooler")})
    params, _ = load(folder)
    assert "pooler" not in params
    assert_equal_trees(params, load(folder)[0])
    assert_equal_trees(params["layers"], small_params["layers"])


def drop(name):
    return lambda t: {k: v for k, v in t.items() if k != name}


def put(name, value):
    return lambda t: {**t, name: value}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            drop("encoder.layer.1.attention.self.key.weight"),
            r"missing: encoder\.layer\.1\.attention\.self\.key\.weight.*\(16, 16\)",
        ),
        (drop("pooler.dense.bias"), r"missing: pooler\.dense\.bias"),
        (
            put("encoder.layer.3.output.dense.bias", np.zeros(16, np.float32)),
            r"no place for: encoder\.layer\.3\.output\.dense\.bias \(16,\)",
        ),
        (
            put("encoder.layer.0.attention.self.distance_embedding.weight", np.zeros((3, 8), "f")),
            r"no place for: .*distance_embedding",
        ),
        (
            put("encoder.layer.0.intermediate.dense.weight", np.zeros((16, 24), np.float32)),
            r"intermediate\.dense\.weight has shape \(16, 24\), expected \(24, 16\)",
        ),
        (
            put("encoder.layer.0.output.dense.bias", np.zeros(16, np.int32)),
            r"output\.dense\.bias has dtype int32",
        ),
        (
            put("pooler.dense.bias", np.full(16, np.nan, np.float32)),
            r"pooler\.dense\.bias holds values that are not finite",
        ),
        (
            put("bert.pooler.dense.bias", np.zeros(16, np.float32)),
            r"bert\.pooler\.dense\.bias and pooler\.dense\.bias are the same parameter",
        ),
    ],
)
def test_w07_w12_what_does_not_fit_is_an_error_naming_the_key(rewrite, change, message):
    """Catches weights that load halfway: missing, extra, misshapen, not floats, contradictory."""
    with pytest.raises(WeightsError, match=rf"model\.safetensors: .*{message}"):
        load(rewrite(change))


def test_the_same_tensor_twice_with_equal_values_is_fine(rewrite, small_params):
    def twice(tensors):
        return {**tensors, "bert.pooler.dense.bias": tensors["pooler.dense.bias"]}

    assert_equal_trees(load(rewrite(twice))[0], small_params)


def test_to_hf_has_pytorch_shapes(small_config, small_params):
    """Catches a kernel saved untransposed where it is square or fused."""
    tensors = to_hf(small_params)
    assert {name: x.shape for name, x in tensors.items()} == expected_shapes(small_config)
    kernel = small_params["layers"]["attention"]["qkv"]["kernel"]
    np.testing.assert_array_equal(
        tensors["encoder.layer.2.attention.self.key.weight"], kernel[2, :, 16:32].T
    )


def test_digest_sees_values_not_formats(shared, small_params):
    """Catches a digest of the file: the same weights in another format are the same encoder."""
    folders = [shared / "fixtures" / "tiny_bert" / name for name in ("safetensors", "flax")]
    assert params_digest(load(folders[0])[0]) == params_digest(load(folders[1])[0])
    moved = jax.tree.map(np.copy, small_params)
    moved["pooler"]["dense"]["bias"][3] += 1e-6
    assert params_digest(moved) != params_digest(small_params)


def test_misshapen_flax_kernel_is_reported_in_the_files_layout(shared, tmp_path):
    """Catches a message with [out, in] shapes for a file that stores [in, out]."""
    from flax import serialization

    source = shared / "fixtures" / "tiny_bert" / "flax"
    tree = serialization.msgpack_restore((source / "flax_model.msgpack").read_bytes())
    dense = tree["encoder"]["layer"]["2"]["intermediate"]["dense"]
    dense["kernel"] = dense["kernel"][:, :-1]
    (tmp_path / "flax_model.msgpack").write_bytes(serialization.msgpack_serialize(tree))
    with pytest.raises(
        WeightsError,
        match=r"2\.intermediate\.dense\.kernel has shape \(32, 63\), expected \(32, 64\)",
    ):
        load_params(tmp_path, read_config(source))
