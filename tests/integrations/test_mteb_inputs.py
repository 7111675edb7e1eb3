"""What mteb, or who calls its protocol, may hand over: the vectors of `encode`, or an error of ours."""

import importlib
import json

import numpy as np
import pyarrow
import pytest

from bertflow_jax import SentenceEncoder
from bertflow_jax.data.sts import load_task
from bertflow_jax.errors import BertFlowError, ConfigError, InputError

mteb = pytest.importorskip("mteb", reason="mteb is not installed")
made = importlib.import_module("mteb_made")
MTEBEncoder = importlib.import_module("bertflow_jax.integrations.mteb").MTEBEncoder
PromptType = importlib.import_module("mteb.types").PromptType
Dataset = importlib.import_module("datasets").Dataset
DataLoader = importlib.import_module("torch.utils.data").DataLoader
tensor = importlib.import_module("torch").tensor
pandas = importlib.import_module("pandas")

TEXTS = ["A dog runs.", "It rains.", "A dog runs.", "", "She cooks soup in the big kitchen."]
NAN = float("nan")


@pytest.fixture(scope="module")
def mini_bert():
    return SentenceEncoder.from_pretrained("mini_bert", max_length=16)


@pytest.fixture(scope="module")
def wrapped(mini_bert):
    return MTEBEncoder(mini_bert)


@pytest.mark.parametrize(
    "inputs",
    [
        DataLoader(Dataset.from_dict({"text": TEXTS}), batch_size=2),
        DataLoader(Dataset.from_dict({"text": TEXTS, "id": list("abcde")}), batch_size=3),
        ({"text": [text]} for text in TEXTS),
        [{"text": np.array(TEXTS)}],
        [{"text": np.array(TEXTS, object)}],
        [{"text": pandas.Series(TEXTS, index=[7, 1, 1, 0, 2])}],
        [{"text": pyarrow.array(TEXTS)}],
        [{"text": tuple(TEXTS[:2])}, {"text": []}, {"text": iter(TEXTS[2:])}],
        [{"text": TEXTS, "title": [None] * 5, "body": [""] * 5, "query": [5] * 5}],
    ],
    ids=["loader", "ids", "generator", "numpy", "object", "series", "arrow", "tuple", "document"],
)
def test_batches_of_every_layout_give_the_vectors_of_encode(wrapped, mini_bert, inputs):
    """Rows in another order, a batch that is passed over, a column other than `text`."""
    np.testing.assert_allclose(wrapped.encode(inputs), mini_bert.encode(TEXTS), atol=1e-5)


@pytest.mark.parametrize("inputs", [[], iter(()), [{"text": []}], [{"text": []}] * 2])
def test_no_text_is_no_vector(wrapped, inputs):
    assert wrapped.encode(inputs).shape == (0, 256)


NO_BATCHES = [
    *(None, 5, NAN, "a dog", b"a dog", {}, {"text": ["a"]}, tensor([[1.0]]), np.ones((2, 2))),
    *(["a dog"], [["a dog"]], [None], [5], [NAN], [b"a"], [{"text": "a dog"}], np.array(["a"])),
    *(pandas.DataFrame({"text": ["a"]}), Dataset.from_dict({"text": ["a"]}), [{}], [{5: ["a"]}]),
    *([{"text": None}], [{"text": 5}], [{"text": {"a"}}], [{"text": b"a"}], [{"text": NAN}]),
    *([{"text": np.array([["a"]])}], [{"text": [None]}], [{"text": [b"a"]}], [{"text": [NAN]}]),
    *([{"text": tensor([5])}], [{"text": [["turn"]]}], [{"text": [{"role": "user"}]}]),
]


@pytest.mark.parametrize("inputs", NO_BATCHES, ids=[repr(inputs)[:40] for inputs in NO_BATCHES])
def test_what_is_no_batches_of_texts(wrapped, inputs):
    """ "argument of type 'NoneType' is not iterable"; the letters of a text taken for columns."""
    with pytest.raises(InputError) as raised:
        wrapped.encode(inputs)
    said = str(raised.value)
    assert "\n" not in said
    assert any(words in said for words in ("batches {", "a list of str", ", not str", "not text"))


def test_a_batch_is_named(wrapped):
    metadata = made.retrieval_task([], [], {}).metadata
    with pytest.raises(InputError, match=r"^LocalRetrieval, batch 1: batches .*, not list$"):
        wrapped.encode([{"text": ["a"]}, ["b"]], task_metadata=metadata)
    with pytest.raises(InputError, match="row 2 is NoneType, not str"):
        wrapped.encode([{"text": ["a"]}, {"text": ["b", None]}])


@pytest.fixture
def prompted(mini_bert, tmp_path):
    """An encoder with a prompt for queries."""
    mini_bert.save_pretrained(tmp_path)
    settings = {"prompts": {"query": "query: "}, "default_prompt_name": None}
    settings["similarity_fn_name"] = "cosine"
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(settings))
    return MTEBEncoder.from_pretrained(tmp_path)


def test_a_prompt_type_by_its_name(prompted, mini_bert):
    """ "'str' object has no attribute 'value'" out of mteb."""
    metadata = made.retrieval_task([], [], {}).metadata
    for kind, before in (("query", "query: "), (PromptType.query, "query: "), ("document", "")):
        found = prompted.encode([{"text": ["Rain?"]}], task_metadata=metadata, prompt_type=kind)
        np.testing.assert_allclose(found, mini_bert.encode([f"{before}Rain?"]), atol=1e-5)


@pytest.mark.parametrize("kind", ["Query", 5, b"query", [], {}, NAN, True])
def test_a_prompt_type_that_is_none(prompted, wrapped, kind):
    """A misspelt one that is taken for none: queries without their prompt."""
    metadata = made.retrieval_task([], [], {}).metadata
    for encoder in (prompted, wrapped):
        with pytest.raises(InputError, match=r"prompt_type=.*: one of query, document, or None"):
            encoder.encode([{"text": ["a"]}], task_metadata=metadata, prompt_type=kind)


@pytest.mark.parametrize("metadata", [5, "STS16", [], {}, object()])
def test_metadata_that_name_no_task(prompted, metadata):
    with pytest.raises(InputError, match=r"task_metadata=.*of a task of mteb are needed"):
        prompted.encode([{"text": ["a"]}], task_metadata=metadata, prompt_type="query")


@pytest.mark.parametrize("prompts", [5, "x", ["query"], {"query": 5}, {"query": "q: "}, {}])
def test_prompts_that_were_set_from_outside(mini_bert, prompts):
    """Prompts without effect, or scores with them under the revision of the encoder without."""
    encoder = MTEBEncoder(mini_bert)
    encoder.model_prompts = prompts
    metadata = made.retrieval_task([], [], {}).metadata
    with pytest.raises(InputError, match=r"model_prompts=.*config_sentence_transf"):
        encoder.encode([{"text": ["a"]}], task_metadata=metadata, prompt_type=PromptType.query)


@pytest.mark.parametrize("prompts", [{"query": 5}, {"query": ["a"]}, ["a"], "a", 5])
def test_prompts_of_a_folder_that_are_no_strings(mini_bert, tmp_path, prompts):
    mini_bert.save_pretrained(tmp_path)
    settings = {"prompts": prompts, "default_prompt_name": None, "similarity_fn_name": "cosine"}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(settings))
    with pytest.raises(ConfigError, match="prompts must be an object, name -> text"):
        MTEBEncoder.from_pretrained(tmp_path)


@pytest.mark.parametrize("precision", [np.ones(2), tensor([1.0, 2.0]), "int8", 5, NAN, [], True])
def test_a_precision_of_any_type(wrapped, precision):
    """ "The truth value of an array is ambiguous"."""
    with pytest.raises(InputError, match="precision="):
        wrapped.encode([{"text": ["a"]}], precision=precision)


@pytest.mark.parametrize(
    "languages",
    ["eng", b"eng", 5, NAN, [5], [None], {}, {"eng-Latn"}, [b"eng"], ["zzz-Zzzz"], [""]],
)
def test_languages_that_are_none(mini_bert, languages):
    """A page of pydantic; a TypeError."""
    with pytest.raises(ConfigError, match=r"^languages=[^\n]*$"):
        MTEBEncoder(mini_bert, languages=languages)


@pytest.mark.parametrize(
    "name",
    [
        "a\nb",
        "\0",
        "\ud800",
        "x" * 300,
        "é" * 150,
        "lab/",
        "/model",
        "lab/ model",
        "a\\b",
        np.ones(2),
    ],
)
def test_names_that_no_folder_can_have(mini_bert, name):
    """An evaluation whose scores cannot be written, once it is through."""
    with pytest.raises(ConfigError, match=r"^name=[^\n]*$"):
        MTEBEncoder(mini_bert, name)


def test_similarities_are_cosines(wrapped):
    rows = np.random.default_rng(0).normal(size=(5, 256)).astype(np.float32)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for given in (rows, rows.astype(np.float64), tensor(rows), rows.tolist()):
        found = wrapped.similarity(given, rows[:3]).numpy()
        np.testing.assert_allclose(found, unit @ unit[:3].T, atol=1e-6)
        pairs = wrapped.similarity_pairwise(given, rows[::-1].copy()).numpy()
        np.testing.assert_allclose(pairs, (unit * unit[::-1]).sum(1), atol=1e-6)


@pytest.mark.parametrize(
    "vectors", [None, 5, "a", np.ones((2, 3)), np.full((2, 256), NAN), np.ones((1, 2, 256)), [[]]]
)
def test_similarities_to_what_is_no_vector(wrapped, vectors):
    """NaN among the scores, and PyTorch's words about matrices."""
    for compare in (wrapped.similarity, wrapped.similarity_pairwise):
        with pytest.raises(BertFlowError):
            compare(vectors, np.ones((2, 256), np.float32))


def test_the_score_of_a_retrieval_task_is_that_of_encode(wrapped, mini_bert):
    """Documents in another order than their ids, or without their titles."""
    texts = load_task("everyday").sentences[:80]
    queries = [{"id": f"q{i}", "text": text} for i, text in enumerate(texts[:40])]
    # The title is the first word of what would be found at once.
    corpus = [
        {"id": f"d{i}", "title": text.split()[0], "text": " ".join(texts[40 + i].split()[1:])}
        for i, text in enumerate(texts[:40])
    ]
    relevant = {f"q{i}": {f"d{i}": 1} for i in range(40)}
    u = mini_bert.encode(texts[:40], normalize=True)
    v = mini_bert.encode([f"{d['title']} {d['text']}" for d in corpus], normalize=True)
    cosines = u @ v.T
    ranks = (cosines > np.diag(cosines)[:, None]).sum(1)
    expected = np.where(ranks < 10, 1 / np.log2(2 + ranks), 0).mean()
    assert 0.1 < expected < 0.9
    task = made.retrieval_task(queries, corpus, relevant)
    result = mteb.evaluate(wrapped, task, cache=None, show_progress_bar=False)
    assert result.task_results[0].get_score() == pytest.approx(expected, abs=1e-4)


def test_an_empty_corpus_scores_nothing(wrapped):
    task = made.retrieval_task([{"id": "q", "text": "A dog."}], [], {"q": {"d": 1}})
    result = mteb.evaluate(wrapped, task, cache=None, show_progress_bar=False)
    assert result.task_results[0].get_score() == 0


def test_an_encoder_that_was_changed_since_is_refused():
    """Scores of other vectors, which mteb files under the revision of those before."""
    inputs = [{"text": [" ".join("abcdefghijklmnop")]}]
    encoder = SentenceEncoder.from_pretrained("mini_bert", max_length=16)
    wrapped = MTEBEncoder(encoder)
    before = wrapped.encode(inputs)
    encoder.max_seq_length = 8
    assert np.abs(encoder.encode(inputs[0]["text"]) - before).max() > 0.01
    assert MTEBEncoder(encoder).mteb_model_meta.revision != wrapped.mteb_model_meta.revision
    with pytest.raises(InputError, match=r"max_seq_length=8 .* was 16 .*MTEBEncoder.* anew"):
        wrapped.encode(inputs)
    encoder.max_seq_length = 16
    np.testing.assert_array_equal(wrapped.encode(inputs), before)
    wrapped.model = SentenceEncoder.from_pretrained("mini_bert", "cls", max_length=16)
    with pytest.raises(InputError, match=r"model is another .*MTEBEncoder.* anew"):
        wrapped.encode(inputs)
