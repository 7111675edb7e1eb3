"""mteb's scores are ours, and what it keeps beside them is true. Each test names the bug it catches."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from sklearn.linear_model import LogisticRegression

import bertflow_jax
from bertflow_jax import Flow, FlowConfig, SentenceEncoder, TrainConfig, Whitening
from bertflow_jax.batch_embed import BatchEmbedder
from bertflow_jax.config import Config, DataConfig, EncoderConfig
from bertflow_jax.data.sts import ScoredPairs, StsTask, load_task
from bertflow_jax.errors import BertFlowError, ConfigError, InputError, MissingPackageError
from bertflow_jax.evaluation.tasks import evaluate_task
from bertflow_jax.training.run import train

mteb = pytest.importorskip("mteb", reason="mteb is not installed")
made = importlib.import_module("mteb_made")
PromptType = importlib.import_module("mteb.types").PromptType
MTEBEncoder = importlib.import_module("bertflow_jax.integrations.mteb").MTEBEncoder
MINI_BERT = Path(bertflow_jax.__file__).parent / "models" / "mini_bert"


@pytest.fixture(scope="module")
def mini_bert():
    # Of few shapes, so that little is compiled.
    return SentenceEncoder.from_pretrained("mini_bert", max_length=24)


@pytest.fixture(scope="module")
def encoders(mini_bert):
    u = mini_bert.encode(load_task("everyday").sentences[:500])
    flow = Flow(FlowConfig(levels=2, depth=1, width=8), train=TrainConfig(steps=20)).fit(u)
    return {
        "raw": mini_bert,
        "flow": mini_bert.with_postprocess(flow),
        "whitening": mini_bert.with_postprocess(Whitening(k=32).fit(u)),
    }


def main_score(encoder, task, **options):
    options = {"cache": None, "show_progress_bar": False, **options}
    return mteb.evaluate(encoder, task, **options).task_results[0].get_score()


def first_pairs(task, count):
    (pairs,) = task.subsets.values()
    kept = ScoredPairs(
        pairs.name, pairs.sentences1[:count], pairs.sentences2[:count], pairs.scores[:count]
    )
    return StsTask(task.name, {pairs.name: kept})


@pytest.mark.parametrize("kind", ["raw", "flow", "whitening"])
def test_the_score_of_the_bundled_pairs_is_ours(encoders, kind):
    """Vectors in another order, of the encoder without its flow, or compared by dot product."""
    task = first_pairs(load_task("everyday"), 150)
    ours = evaluate_task(task, encoders[kind].encode)["all"]["spearman"]
    assert 100 * main_score(MTEBEncoder(encoders[kind]), made.sts_task(task)) == pytest.approx(
        ours, abs=0.01
    )


@pytest.mark.parametrize(("name", "kind"), [("stsb", "flow"), ("sickr", "raw")])
def test_the_score_of_a_published_task_is_ours(encoders, shared, name, kind):
    """A gold scale or a pair lost on the way; SICK-R repeats most of its sentences."""
    task = first_pairs(load_task(name, shared / "sts"), 200)
    ours = evaluate_task(task, encoders[kind].encode)["all"]["spearman"]
    assert 100 * main_score(MTEBEncoder(encoders[kind]), made.sts_task(task)) == pytest.approx(
        ours, abs=0.01
    )


def test_small_batches_are_embedded_together(mini_bert, monkeypatch):
    """A device call for each of mteb's batches, and a text embedded again where it is repeated."""
    calls = []
    run = BatchEmbedder._run

    def counted(self, input_ids, mask, normalize):
        calls.append(mask.shape)
        return run(self, input_ids, mask, normalize)

    texts = [f"A man buys {number} apples." for number in range(40)]
    texts += texts[:10]
    expected = mini_bert.encode(texts)
    monkeypatch.setattr(BatchEmbedder, "_run", counted)
    mini_bert.encode(texts[:40])
    direct = calls.copy()
    calls.clear()
    batches = [{"text": texts[start : start + 4]} for start in range(0, len(texts), 4)]
    vectors = MTEBEncoder(mini_bert).encode(batches)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert vectors.dtype == np.float32
    assert calls == direct
    assert len(calls) < len(batches)


def test_no_texts_give_no_vectors(mini_bert):
    """An empty query set that ends in an index error."""
    assert MTEBEncoder(mini_bert).encode([]).shape == (0, mini_bert.dimension)


def test_documents_and_queries_of_a_retrieval_task(mini_bert):
    """prompt_type refused, or the title of a document left out: it alone tells these apart."""
    titles = ["A dog runs in the park.", "The stock market fell.", "She cooks soup."]
    corpus = [{"id": f"d{i}", "title": title, "text": "It."} for i, title in enumerate(titles)]
    queries = [{"id": f"q{i}", "text": f"{title} It."} for i, title in enumerate(titles)]
    relevant = {f"q{i}": {f"d{i}": 1} for i in range(len(titles))}
    task = made.retrieval_task(queries, corpus, relevant)
    assert main_score(MTEBEncoder(mini_bert), task) == pytest.approx(1.0)


def test_the_prompts_of_a_folder_are_those_that_mteb_chooses(mini_bert, tmp_path):
    """Queries embedded without the "query: " the encoder was trained with, under the same revision."""
    mini_bert.save_pretrained(tmp_path)
    prompts = {"query": "query: ", "document": "text: ", "LocalClassification": "topic: "}
    settings = {"prompts": prompts, "default_prompt_name": None, "similarity_fn_name": "cosine"}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(settings))
    encoder = MTEBEncoder.from_pretrained(tmp_path)
    batch, text = [{"text": ["A dog runs."]}], "A dog runs."
    labels = {"text": [text, "It rains."], "label": [0, 1]}
    retrieval = made.retrieval_task([], [], {}).metadata
    classes = made.classification_task(labels, labels).metadata
    for metadata, kind, before in [
        (retrieval, PromptType.query, "query: "),
        (retrieval, PromptType.document, "text: "),
        (classes, None, "topic: "),
        (retrieval, None, ""),
    ]:
        vectors = encoder.encode(batch, task_metadata=metadata, prompt_type=kind)
        np.testing.assert_allclose(vectors, mini_bert.encode([before + text]), atol=1e-5)
    settings |= {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(settings))
    for kind, before in [(PromptType.document, ""), (None, "query: ")]:  # as mteb's own wrapper
        vectors = MTEBEncoder.from_pretrained(tmp_path).encode(
            batch, task_metadata=retrieval, prompt_type=kind
        )
        np.testing.assert_allclose(vectors, mini_bert.encode([before + text]), atol=1e-5)
    assert encoder.mteb_model_meta.use_instructions
    plain = MTEBEncoder(mini_bert).mteb_model_meta
    assert not plain.use_instructions
    assert plain.revision != encoder.mteb_model_meta.revision


def test_the_accuracy_of_a_classification_task(mini_bert):
    """Training vectors that do not belong to their labels."""
    food = ["She cooks soup.", "He eats an apple.", "They bake bread.", "We had rice for lunch."]
    animals = ["A dog barks.", "The cat sleeps.", "A horse runs.", "Two birds sing."]
    tested = ["I boil some eggs.", "The cow eats grass.", "She roasts a duck.", "A wolf howls."]
    train = {"text": food + animals, "label": [0] * 4 + [1] * 4}
    test = {"text": tested, "label": [0, 1, 0, 1]}
    classifier = LogisticRegression(max_iter=100).fit(
        mini_bert.encode(train["text"]), train["label"]
    )
    expected = classifier.score(mini_bert.encode(tested), test["label"])
    assert main_score(MTEBEncoder(mini_bert), made.classification_task(train, test)) == expected


def test_the_metadata_are_those_of_the_files(encoders):
    """Counts of another thing: with the flow's parameters left out, or MB for MiB."""
    weights = load_file(MINI_BERT / "model.safetensors")
    config = json.loads((MINI_BERT / "config.json").read_text())
    # "cls." is the masked language model's head, which no vector depends on.
    numbers = sum(array.size for name, array in weights.items() if name.startswith("bert."))
    loaded = MTEBEncoder.from_pretrained("mini_bert", languages=["eng-Latn"], max_length=24)
    meta = loaded.mteb_model_meta
    assert meta.name == "bertflow_jax/mini_bert"
    assert meta.languages == ["eng-Latn"]
    assert meta.n_parameters == numbers
    assert meta.n_embedding_parameters == config["vocab_size"] * config["hidden_size"]
    assert meta.memory_usage_mb == pytest.approx(4 * numbers / 1024**2)
    assert meta.max_tokens == 24
    assert meta.embed_dim == config["hidden_size"]
    assert meta.framework == ["JAX"]
    assert meta.similarity_fn_name.value == "cosine"
    white = MTEBEncoder(encoders["whitening"]).mteb_model_meta
    assert white.name == "bertflow_jax/encoder-whitening"
    assert white.embed_dim == 32
    # Whitening of 256 dimensions to 32: a mean in two parts and a matrix.
    assert white.n_parameters == numbers + 2 * 256 + 256 * 32


def test_a_run_is_scored_with_its_flow(mini_bert, tmp_path):
    """The encoder of a workdir without its flow, or the name of every run the same."""
    text = "".join(f"A man buys {number} apples.\n" for number in range(30))
    (tmp_path / "text.txt").write_text(text)
    config = Config(
        encoder=EncoderConfig(max_length=24),
        data=DataConfig(path=str(tmp_path / "text.txt")),
        flow=FlowConfig(levels=2, depth=1, width=8),
        train=TrainConfig(steps=3, batch_size=8, tensorboard=False),
        cache_dir=str(tmp_path / "cache"),
    )
    train(config, tmp_path / "run")
    encoder = MTEBEncoder.from_checkpoint(tmp_path / "run", batch_size=8)
    texts = ["A dog runs.", "It rains."]
    expected = SentenceEncoder.from_checkpoint(tmp_path / "run").encode(texts)
    np.testing.assert_allclose(encoder.encode([{"text": texts}]), expected, atol=1e-4)
    assert np.abs(expected - mini_bert.encode(texts)).max() > 0.1
    assert encoder.mteb_model_meta.name == "bertflow_jax/run-flow"


def test_the_revision_tells_what_decides_the_vectors(encoders):
    """Equal revisions of other vectors: mteb would report a kept score of another model."""
    others = [
        *encoders.values(),
        SentenceEncoder.from_pretrained("mini_bert", pooling="cls", max_length=24),
        SentenceEncoder.from_pretrained("mini_bert", max_length=16),
    ]
    revisions = [MTEBEncoder(encoder).mteb_model_meta.revision for encoder in others]
    assert len(set(revisions)) == len(others)
    again = MTEBEncoder.from_pretrained("mini_bert", max_length=24, name="another name")
    assert again.mteb_model_meta.revision == revisions[0]


def test_a_kept_score_is_not_taken_for_that_of_another_flow(encoders, tmp_path):
    """One name for two flows, and mteb's own cache answers for the second."""
    cache = mteb.ResultCache(cache_path=tmp_path)
    task = first_pairs(load_task("everyday"), 150)
    scores = {
        kind: main_score(MTEBEncoder(encoders[kind], name="mine"), made.sts_task(task), cache=cache)
        for kind in ("raw", "whitening")
    }
    ours = {k: evaluate_task(task, encoders[k].encode)["all"]["spearman"] / 100 for k in scores}
    assert scores == pytest.approx(ours, abs=1e-4)
    assert abs(ours["raw"] - ours["whitening"]) > 0.01


@pytest.mark.parametrize(
    ("name", "full"), [("mine", "bertflow_jax/mine"), ("lab/model", "lab/model")]
)
def test_names(mini_bert, name, full):
    """A name without an organisation is refused by mteb with a page of pydantic."""
    assert MTEBEncoder(mini_bert, name).mteb_model_meta.name == full


@pytest.mark.parametrize("name", ["", " ", "/", 3])
def test_no_name(mini_bert, name):
    """Results filed under nothing."""
    with pytest.raises(ConfigError, match="name="):
        MTEBEncoder(mini_bert, name)


def test_a_path_is_not_an_encoder():
    """`MTEBEncoder("mini_bert")` that ends in an AttributeError."""
    with pytest.raises(InputError, match="from_pretrained"):
        MTEBEncoder("mini_bert")


def test_a_batch_without_text_names_the_task(mini_bert):
    """A KeyError from inside for a task of images."""
    metadata = made.sts_task(load_task("everyday")).metadata
    with pytest.raises(InputError, match=r"Localeveryday hands over image, not text"):
        MTEBEncoder(mini_bert).encode([{"image": [1, 2]}], task_metadata=metadata)


def test_a_precision_that_is_not_given_is_refused(mini_bert):
    """float32 vectors whose score mteb files under int8."""
    encoder = MTEBEncoder(mini_bert)
    with pytest.raises(InputError, match="precision='int8'"):
        encoder.encode([{"text": ["a"]}], precision="int8")
    assert encoder.encode([{"text": ["a"]}], precision="float32").shape == (1, 256)


def test_an_argument_without_effect_is_named(mini_bert):
    """A misspelt argument that nobody hears of."""
    with pytest.warns(UserWarning, match="normalise"):
        MTEBEncoder(mini_bert).encode([{"text": ["a"]}], normalise=True)


def test_without_mteb_the_error_says_what_to_install(monkeypatch):
    """A bare ModuleNotFoundError that does not name the extra."""
    for name in [name for name in sys.modules if name.split(".")[0] == "mteb"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mteb", None)
    monkeypatch.delitem(sys.modules, "bertflow_jax.integrations.mteb")
    with pytest.raises(
        MissingPackageError, match=r"pip install 'mteb>=2.12,<3' \(the extra mteb\)"
    ) as caught:
        importlib.import_module("bertflow_jax.integrations.mteb")
    assert isinstance(caught.value, ImportError)
    assert isinstance(caught.value, BertFlowError)
