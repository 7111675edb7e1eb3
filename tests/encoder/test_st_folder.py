"""Folders of save_pretrained in the installed sentence-transformers, and read back here."""

import dataclasses
import hashlib
import importlib
import json
import logging
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from bertflow_jax import (
    NATSV,
    Compose,
    Flow,
    FlowConfig,
    Reduce,
    SentenceEncoder,
    Standardize,
    Whitening,
)
from bertflow_jax.config import Config, DataConfig, EncoderConfig, TrainConfig
from bertflow_jax.data.text import load_text
from bertflow_jax.errors import BertFlowError, CheckpointError, ConfigError, InputError
from bertflow_jax.evaluation import sources
from bertflow_jax.evaluation.options import EvalOptions
from bertflow_jax.flow.glow import init_variables
from bertflow_jax.integrations.st_modules import processor_modules
from bertflow_jax.postprocess.standardize import Center
from bertflow_jax.training.run import load_encoder

TEXTS = ["the dog", "a b c d e f g h", "dogs.", "", "The dog . the dog .", "k l m n o p a " * 9]
CODE = "bertflow_modules.py"


@pytest.fixture
def st_vectors():
    """Return what sentence-transformers makes of TEXTS with the model of a folder."""
    package = pytest.importorskip("sentence_transformers", reason="not installed")

    def vectors(folder: Path, trust: bool = True) -> np.ndarray:
        model = package.SentenceTransformer(str(folder), device="cpu", trust_remote_code=trust)
        return model.encode(TEXTS, batch_size=4)

    return vectors


@pytest.fixture
def encoder(bert_folder):
    return SentenceEncoder.from_pretrained(bert_folder(), pooling="mean")


def texts(count: int = 200) -> list[str]:
    rng = np.random.default_rng(0)
    words = [*"abcdefghijklmnop", "the", "dog", "."]
    return [" ".join(rng.choice(words, n)) for n in rng.integers(1, 20, count)]


def random_flow(features: int, config: FlowConfig, seed: int = 0) -> Flow:
    """A flow whose every array is far from its start: a new coupling is the identity."""
    rng = np.random.default_rng(seed)
    variables = init_variables(config, features, seed)
    params = jax.tree.map(
        lambda x: np.asarray(x + rng.normal(scale=0.15, size=x.shape), np.float32),
        variables["params"],
    )
    return Flow.from_variables(config, {**variables, "params": params}, features)


AFFINE = {
    "standardize": Standardize,
    "natsv": lambda: NATSV(2),
    "whitening": lambda: Whitening(k=6),
    "compose": lambda: Compose([Center(), Compose([Standardize(), NATSV(1)]), Reduce(5)]),
}


@pytest.mark.parametrize("name", AFFINE)
def test_an_affine_post_processor_is_one_dense(encoder, tmp_path, st_vectors, name):
    """Catches a matrix not transposed, the mean on the wrong side, Dense's default tanh."""
    fitted = AFFINE[name]().fit(encoder.encode(texts()))
    both = encoder.with_postprocess(fitted)
    both.save_pretrained(tmp_path)
    modules = json.loads((tmp_path / "modules.json").read_text())
    assert [m["type"].rpartition(".")[2] for m in modules] == ["Transformer", "Pooling", "Dense"]
    assert not (tmp_path / CODE).exists()
    expected = fitted.transform(encoder.encode(TEXTS, on_overflow="ignore"))
    np.testing.assert_allclose(st_vectors(tmp_path, trust=False), expected, atol=1e-5)
    back = SentenceEncoder.from_pretrained(tmp_path)
    np.testing.assert_allclose(back.encode(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(back.encode(TEXTS), both.encode(TEXTS), atol=1e-6)
    assert back.describe() == both.describe()


@pytest.mark.parametrize(
    "config",
    [
        FlowConfig(levels=3, depth=2, width=8),
        FlowConfig(levels=2, depth=2, width=8, coupling="affine", permutation="plu"),
        FlowConfig(levels=1, depth=3, width=8, activation="gatu", permutation="plu"),
        FlowConfig(levels=2, depth=1, width=8, coupling="affine", activation="gatu"),
    ],
    ids=["released", "affine-plu", "gatu-plu", "affine-gatu"],
)
def test_every_flow_in_pytorch(config):
    """Catches P on the wrong side, t and r swapped, an odd channel or a level in the wrong half."""
    torch = pytest.importorskip("torch", reason="not installed")
    # The file that is copied into folders; the package itself never imports it.
    module = importlib.import_module("bertflow_jax.integrations.bertflow_modules")
    features = 13
    flow = random_flow(features, config)
    (saved,) = processor_modules(flow)
    theirs = module.BertFlow(**saved.config)
    theirs.load_state_dict({k: torch.from_numpy(v) for k, v in saved.arrays.items()})
    u = np.random.default_rng(1).normal(size=(40, features)).astype(np.float32)
    z = theirs({"sentence_embedding": torch.from_numpy(u)})["sentence_embedding"].detach().numpy()
    np.testing.assert_allclose(z, flow.transform(u), atol=1e-4, rtol=1e-5)
    assert np.abs(z - u).max() > 0.1


@pytest.mark.parametrize(
    ("pooling", "normalize"),
    [
        ("first_last", False),
        ("last2,max,concat", True),
        ("layers=(0,2),cls", True),
        ("pooler", False),
    ],
)
def test_a_pooling_of_its_own_and_a_flow(
    bert_folder, tmp_path, st_vectors, caplog, pooling, normalize
):
    """The paper's default; catches layers counted without the embedding output, and
    normalisation after the post-processor."""
    encoder = SentenceEncoder.from_pretrained(bert_folder(), pooling=pooling)
    encoder = SentenceEncoder(dataclasses.replace(encoder.encoder, normalize=normalize))
    steps = [Standardize().fit(encoder.encode(texts(40)))]
    steps.append(random_flow(encoder.dimension, FlowConfig(levels=2, depth=1, width=8)))
    both = encoder.with_postprocess(Compose(steps))
    with caplog.at_level(logging.WARNING):
        both.save_pretrained(tmp_path)
    assert f"holds code, {CODE}" in caplog.text
    assert "trust_remote_code=True" in (tmp_path / "README.md").read_text()
    expected = both.encode(TEXTS)
    np.testing.assert_allclose(st_vectors(tmp_path), expected, atol=1e-4)
    np.testing.assert_allclose(
        SentenceEncoder.from_pretrained(tmp_path).encode(TEXTS), expected, atol=1e-6
    )


def test_sentence_transformers_refuses_the_code_unless_it_is_trusted(bert_folder, tmp_path):
    """Catches a notice that asks for a flag nobody needs."""
    package = pytest.importorskip("sentence_transformers", reason="not installed")
    if int(package.__version__.partition(".")[0]) < 6:
        pytest.skip("older ones trust local folders")
    SentenceEncoder.from_pretrained(bert_folder(), pooling="first_last").save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="trust_remote_code"):
        package.SentenceTransformer(str(tmp_path), device="cpu")


def test_saved_again_by_sentence_transformers(bert_folder, tmp_path, st_vectors):
    """Catches a module that cannot be saved: models are loaded, tuned and saved there."""
    package = pytest.importorskip("sentence_transformers", reason="not installed")
    encoder = SentenceEncoder.from_pretrained(bert_folder(), pooling="first_last")
    flow = random_flow(16, FlowConfig(levels=2, depth=1, width=8, permutation="plu"))
    encoder.with_postprocess(flow).save_pretrained(tmp_path / "first")
    model = package.SentenceTransformer(
        str(tmp_path / "first"), device="cpu", trust_remote_code=True
    )
    assert model[2].get_embedding_dimension() == 16
    model.save_pretrained(str(tmp_path / "second"))
    np.testing.assert_allclose(
        st_vectors(tmp_path / "second"), st_vectors(tmp_path / "first"), atol=1e-6
    )


def test_from_pretrained_runs_no_file_of_the_folder(bert_folder, tmp_path):
    """Catches a loader that imports what a stranger's folder brings along."""
    encoder = SentenceEncoder.from_pretrained(bert_folder(), pooling="first_last")
    encoder.save_pretrained(tmp_path / "model")
    marker = tmp_path / "ran"
    for name in (CODE, "1_LayerPooling/bertflow_modules.py", "__init__.py"):
        (tmp_path / "model" / name).write_text(f"open({str(marker)!r}, 'w')\n")
    vectors = SentenceEncoder.from_pretrained(tmp_path / "model").encode(TEXTS)
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS), atol=1e-6)
    assert not marker.exists()


def test_no_path_of_a_folder_is_followed(encoder, tmp_path):
    """Catches a post-processor read from where bertflow_jax.json points to."""
    encoder.with_postprocess(Standardize().fit(encoder.encode(texts()))).save_pretrained(tmp_path)
    file = tmp_path / "bertflow_jax.json"
    fields = json.loads(file.read_text())
    for hostile in ("../elsewhere", {"path": "../elsewhere"}, 5):
        file.write_text(json.dumps({**fields, "postprocess": hostile}))
        with pytest.raises(ConfigError, match="postprocess must hold"):
            SentenceEncoder.from_pretrained(tmp_path)


def test_a_post_processor_that_is_not_the_saved_one(encoder, tmp_path):
    """Catches vectors here that differ from those of sentence-transformers."""
    u = encoder.encode(texts())
    encoder.with_postprocess(Standardize().fit(u)).save_pretrained(tmp_path / "a")
    encoder.with_postprocess(Standardize().fit(u[:100])).save_pretrained(tmp_path / "b")
    for name, said in (("postprocess", "is not the post-processor"), ("2_Dense", "weights of its")):
        mixed = tmp_path / f"mixed_{name}"
        shutil.copytree(tmp_path / "a", mixed)
        shutil.rmtree(mixed / name)
        shutil.copytree(tmp_path / "b" / name, mixed / name)
        with pytest.raises(CheckpointError, match=said):
            SentenceEncoder.from_pretrained(mixed)
        alone = SentenceEncoder.from_pretrained(mixed, pooling="mean")
        np.testing.assert_allclose(alone.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)


def test_a_save_replaces_the_older_one_and_nothing_else(encoder, bert_folder, tmp_path, st_vectors):
    """Catches a whitening that stays behind and is applied to the next encoder."""
    (tmp_path / "1_mine").mkdir()
    (tmp_path / "1_mine" / "model.safetensors").write_text("mine")
    first_last = SentenceEncoder.from_pretrained(bert_folder("other"), pooling="first_last")
    white = Whitening(k=3).fit(first_last.encode(texts()))
    first_last.with_postprocess(white).save_pretrained(tmp_path)
    encoder.save_pretrained(tmp_path)
    assert not {CODE, "README.md", "bertflow_jax.json"} & {p.name for p in tmp_path.iterdir()}
    assert (tmp_path / "1_mine" / "model.safetensors").read_text() == "mine"
    back = SentenceEncoder.from_pretrained(tmp_path)
    assert back.processor is None
    np.testing.assert_allclose(back.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)
    np.testing.assert_allclose(st_vectors(tmp_path), encoder.encode(TEXTS), atol=1e-5)


def test_a_readme_of_the_user_stays(encoder, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    encoder.with_postprocess(Standardize().fit(encoder.encode(texts()))).save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"


def test_a_post_processor_fitted_again_is_not_saved(encoder, tmp_path):
    """Catches a folder whose post-processor is not the one the encoder computes."""
    u = encoder.encode(texts())
    fitted = Standardize().fit(u)
    both = encoder.with_postprocess(fitted)
    fitted.fit(u[:50])
    with pytest.raises(InputError, match="was fitted again after with_postprocess"):
        both.save_pretrained(tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["document", "passage", "corpus"])
def test_the_prompt_of_documents_is_that_of_sentence_transformers(encoder, tmp_path, name):
    """Vectors of documents that do not lie with those of an index made there."""
    package = pytest.importorskip("sentence_transformers", reason="not installed")
    usage = dataclasses.replace(encoder.encoder.usage, prompts={"query": "a ", name: "b c "})
    SentenceEncoder(dataclasses.replace(encoder.encoder, usage=usage)).save_pretrained(tmp_path)
    model = package.SentenceTransformer(str(tmp_path), device="cpu")
    found = SentenceEncoder.from_pretrained(tmp_path).encode_document(TEXTS[:5])
    np.testing.assert_allclose(found, model.encode_document(TEXTS[:5]), atol=1e-5)


def test_prompts_and_similarity_are_saved(encoder, tmp_path):
    """Catches a default prompt lost on the way: the next load would embed other texts."""
    package = pytest.importorskip("sentence_transformers", reason="not installed")
    usage = dataclasses.replace(
        encoder.encoder.usage,
        prompts={"query": "the dog : ", "other": "a "},
        default_prompt_name="query",
        similarity="dot",
    )
    named = SentenceEncoder(dataclasses.replace(encoder.encoder, usage=usage))
    named.save_pretrained(tmp_path)
    back = SentenceEncoder.from_pretrained(tmp_path)
    assert back.encoder.usage == usage
    model = package.SentenceTransformer(str(tmp_path), device="cpu")
    for options in ({}, {"prompt_name": "other"}, {"prompt": "b c "}, {"prompt": ""}):
        expected = model.encode(TEXTS[:5], **options)
        np.testing.assert_allclose(back.encode(TEXTS[:5], **options), expected, atol=1e-5)
    for method in ("encode_query", "encode_document"):
        expected = getattr(model, method)(TEXTS[:5])
        np.testing.assert_allclose(getattr(back, method)(TEXTS[:5]), expected, atol=1e-5)
    streamed = np.concatenate(list(back.encode_stream(TEXTS[:5])))
    np.testing.assert_allclose(streamed, model.encode(TEXTS[:5]), atol=1e-5)
    assert back.identity() != encoder.identity()
    a, b = model.encode(TEXTS[:2]), model.encode(TEXTS[2:5])
    np.testing.assert_allclose(back.similarity(a, b), model.similarity(a, b), rtol=1e-5)


def test_what_no_module_can_say_is_refused_by_name():
    with pytest.raises(InputError, match="a dict cannot be written for sentence-transformers"):
        processor_modules({})
    with pytest.raises(BertFlowError, match="this standardize is not fitted yet"):
        processor_modules(Standardize())


@pytest.mark.parametrize("prompt", [None, "query"])
def test_a_fit_starts_from_the_encoder_alone(encoder, tmp_path, caplog, prompt):
    """Catches a flow that is fitted on whitened vectors, and restored on those that are not."""
    usage = dataclasses.replace(encoder.encoder.usage, default_prompt_name=prompt)
    named = SentenceEncoder(dataclasses.replace(encoder.encoder, usage=usage))
    both = named.with_postprocess(Standardize().fit(encoder.encode(texts())))
    both.save_pretrained(tmp_path)
    fitted = load_encoder(Config(encoder=EncoderConfig(path=str(tmp_path), pooling="")))
    assert ("default prompt 'query' is not applied" in caplog.text) == (prompt == "query")
    assert fitted.default_prompt_name is None
    np.testing.assert_allclose(fitted.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)


def test_evaluation_knows_raw_from_post_processed(encoder, tmp_path):
    """Catches post-processed vectors scored as the raw row, and two post-processors on end."""
    both = encoder.with_postprocess(Standardize().fit(encoder.encode(texts())))
    both.save_pretrained(tmp_path / "both")
    source = sources.encoder_source(EvalOptions(encoder=str(tmp_path / "both")))
    np.testing.assert_allclose(source.encoder.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)
    assert source.model["flow"] == {
        "path": str(tmp_path / "both"),
        **both.describe()["postprocess"],
    }
    flow = str(tmp_path / "both" / "postprocess")
    with pytest.raises(InputError, match="go through a standardize already"):
        sources.encoder_source(EvalOptions(encoder=str(tmp_path / "both"), flow=flow))


def test_a_fitted_flow_on_a_real_encoder(tmp_path, st_vectors):
    """The whole way of a user, with weights that mean something and 256 dimensions."""
    sentences = load_text(DataConfig()).numbered()[0][:400]
    encoder = SentenceEncoder.from_pretrained("mini_bert", pooling="first_last")
    flow = Flow(FlowConfig(levels=2, depth=1), train=TrainConfig(steps=20))
    both = encoder.with_postprocess(flow.fit(encoder.encode(sentences)))
    both.save_pretrained(tmp_path)
    np.testing.assert_allclose(st_vectors(tmp_path), both.encode(TEXTS), atol=1e-4)


@pytest.mark.parametrize("pooling", ["mean", "first_last"])
def test_a_post_processor_beside_another_encoder_is_refused(bert_folder, tmp_path, pooling):
    """Catches vectors of one encoder put through a map that was fitted on those of another."""
    encoder = SentenceEncoder.from_pretrained(bert_folder(), pooling=pooling)
    white = encoder.with_postprocess(Whitening(k=3).fit(encoder.encode(texts())))
    white.save_pretrained(tmp_path / "saved")
    other = SentenceEncoder.from_pretrained(bert_folder("other", seed=3), pooling=pooling)
    other.save_pretrained(tmp_path / "other")
    settings = "bertflow_jax.json"

    def edited(**fields):
        def edit(folder):
            said = json.loads((folder / settings).read_text())
            (folder / settings).write_text(json.dumps({**said, **fields}))

        return edit

    def swapped(folder):
        shutil.copy(tmp_path / "other" / "model.safetensors", folder)

    def heads(folder):
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "num_attention_heads": 1}))

    def words(folder):
        text = (folder / "tokenizer.json").read_text()
        text = text.replace('"dog": ', '"DOG": ').replace('"a": ', '"dog": ')
        (folder / "tokenizer.json").write_text(text.replace('"DOG": ', '"a": '))

    changes = {
        "its weights (fine-tuned or replaced since)": swapped,
        "num_attention_heads 1": heads,
        "its tokenizer": words,
        "max_length 7": edited(max_length=7),
        "lower_first True": edited(lower_first=True),
        "bertflow_jax.json says pooling layers=(": edited(pooling="cls"),
        "bertflow_jax.json says normalize True": edited(normalize=True),
    }
    for said, change in changes.items():
        folder = tmp_path / "changed"
        shutil.copytree(tmp_path / "saved", folder)
        change(folder)
        with pytest.raises((CheckpointError, ConfigError)) as caught:
            SentenceEncoder.from_pretrained(folder)
        assert said in str(caught.value)
        # The words of the message are the way on.
        assert SentenceEncoder.from_pretrained(folder, pooling=pooling).processor is None
        shutil.rmtree(folder)
    same = SentenceEncoder.from_pretrained(tmp_path / "saved", max_length=9, dtype="bfloat16")
    assert same.processor is not None


def test_pooling_changed_in_both_files_is_seen_by_the_record(bert_folder, tmp_path):
    """Catches a check that only compares the two files with each other."""
    encoder = SentenceEncoder.from_pretrained(bert_folder(), pooling="first_last")
    white = encoder.with_postprocess(Whitening(k=3).fit(encoder.encode(texts())))
    white.save_pretrained(tmp_path)
    for name, fields in (
        ("bertflow_jax.json", {"pooling": "last2"}),
        ("1_LayerPooling/config.json", {"layers": [2, 3]}),
    ):
        said = json.loads((tmp_path / name).read_text())
        (tmp_path / name).write_text(json.dumps({**said, **fields}))
    with pytest.raises(CheckpointError, match=r"saved with: pooling layers=\(2,3\),mean\. Give"):
        SentenceEncoder.from_pretrained(tmp_path)


def test_pooling_of_several_layers_is_compared_without_a_post_processor(bert_folder, tmp_path):
    """Catches vectors that differ from those of sentence-transformers, in a folder alone."""
    SentenceEncoder.from_pretrained(bert_folder(), pooling="first_last").save_pretrained(tmp_path)
    SentenceEncoder.from_pretrained(tmp_path)
    file = tmp_path / "bertflow_jax.json"
    said = json.loads(file.read_text())
    file.write_text(json.dumps({**said, "pooling": "cls"}))
    with pytest.raises(ConfigError, match=r"says pooling layers=\(\d\),cls, but .*modules\.json"):
        SentenceEncoder.from_pretrained(tmp_path)


def test_an_older_folder_loads_with_a_warning(encoder, tmp_path, caplog):
    """Catches folders that were saved before the encoder was noted, and cannot be read now."""
    white = encoder.with_postprocess(Whitening(k=3).fit(encoder.encode(texts())))
    white.save_pretrained(tmp_path)
    file = tmp_path / "bertflow_jax.json"
    said = json.loads(file.read_text())
    assert caplog.text == ""
    del said["postprocess"]["encoder"]
    old = hashlib.sha256((tmp_path / "2_Dense" / "model.safetensors").read_bytes()).hexdigest()
    old = hashlib.sha256(f"2_Dense {old}\n".encode()).hexdigest()
    said["postprocess"]["modules_sha256"] = old
    file.write_text(json.dumps(said))
    same = SentenceEncoder.from_pretrained(tmp_path)
    np.testing.assert_array_equal(same.encode(TEXTS), white.encode(TEXTS))
    assert "did not note the encoder" in caplog.text


def test_fine_tuned_by_sentence_transformers_it_asks_for_a_new_fit(encoder, tmp_path):
    """Catches a map fitted on the vectors of before that is applied to those of after."""
    package = pytest.importorskip("sentence_transformers", reason="not installed")
    import torch

    white = encoder.with_postprocess(Whitening(k=3).fit(encoder.encode(texts())))
    white.save_pretrained(tmp_path)
    model = package.SentenceTransformer(str(tmp_path), device="cpu")
    model.save_pretrained(str(tmp_path), create_model_card=False)
    same = SentenceEncoder.from_pretrained(tmp_path)  # nothing was trained
    np.testing.assert_allclose(same.encode(TEXTS), white.encode(TEXTS), atol=1e-5)
    with torch.no_grad():
        next(model[0].parameters()).mul_(1.5)
    model.save_pretrained(str(tmp_path), create_model_card=False)
    with pytest.raises(CheckpointError, match=r"its weights \(fine-tuned or replaced since\)"):
        SentenceEncoder.from_pretrained(tmp_path)
    tuned = SentenceEncoder.from_pretrained(tmp_path, pooling="mean")
    again = tuned.with_postprocess(Whitening(k=3).fit(tuned.encode(texts())))
    again.save_pretrained(tmp_path)
    found = SentenceEncoder.from_pretrained(tmp_path).encode(TEXTS)
    np.testing.assert_allclose(found, again.encode(TEXTS), atol=1e-6)
    assert np.abs(found - white.encode(TEXTS)).max() > 1e-3
