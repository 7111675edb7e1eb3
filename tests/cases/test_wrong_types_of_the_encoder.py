"""Arguments of the encoder and of a push with values of wrong types: one line that names each."""

import numpy as np
import pytest
from encoder.conftest import write_bert

from bertflow_jax import Flow, FlowConfig, SentenceEncoder, Standardize, TrainConfig, Whitening
from bertflow_jax.encoder_spec import EncoderSpec
from bertflow_jax.errors import BertFlowError, ConfigError, InputError
from bertflow_jax.flow.glow import init_variables
from bertflow_jax.hub_access import HubAccess
from bertflow_jax.integrations.hub import CardFields
from bertflow_jax.integrations.hub_upload import Target
from bertflow_jax.integrations.ray_spec import RayJob
from bertflow_jax.integrations.senteval import cosine, make_batcher

U = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)


class Rude:
    """What can be neither shown nor compared."""

    __hash__ = None

    def __repr__(self):
        raise RuntimeError

    def __eq__(self, other):
        raise RuntimeError


class OfAnArray:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError


# Neither a number >= 1 that fits, nor a switch, a path, a str or None.
WRONG = [
    *(-(10**5000), 1.5, float("nan"), 1j, b"abc", bytearray(b"abc"), memoryview(b"abc")),
    *([None], [Rude()], {"a": 1}, {1: 2}, {"a"}, range(3), len, int, object(), Rude(), OfAnArray()),
    *(U, U[0], U > 0, U.astype(complex), np.array(["a", "b"]), np.array([[Rude()]], object)),
    *(np.zeros(3, [("a", "f4")]), np.ma.masked_less(U, 0), (x for x in "ab")),
]
IDS = [f"{number}-{type(value).__name__}" for number, value in enumerate(WRONG)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("types") / "bert")


@pytest.fixture(scope="module")
def encoder(folder):
    return SentenceEncoder.from_pretrained(folder)


def said_of(calls, fields):
    """Return what every call says, name -> text, after checks of the form."""
    said = {}
    for name, call in calls.items():
        try:
            call()
        except BertFlowError as error:
            said[name] = str(error)
        except Exception as error:
            pytest.fail(f"{name} raises {error!r}")
        else:
            pytest.fail(f"{name} is taken")
    for name, text in said.items():
        assert len(text.splitlines()) == 1, f"{name}: {text}"
        assert len(text) < 1000, f"{name}: {text}"
        assert name not in fields or name in text, f"{name}: {text}"


@pytest.mark.parametrize("wrong", WRONG, ids=IDS)
def test_arguments_of_the_encoder(folder, encoder, wrong, tmp_path):
    """Bug: "the truth value of an array", an array in the message, ValueError of 5,000 digits."""
    load, encode = SentenceEncoder.from_pretrained, encoder.encode
    loading = ("pooling", "max_length", "dtype", "do_lower_case", "revision", "local_files_only")
    encoding = (
        *("batch_size", "normalize", "show_progress", "on_overflow", "truncate_dim", "prompt"),
        *("prompt_name", "convert_to_numpy", "convert_to_tensor", "device", "precision"),
        *("output_value", "pool", "chunk_size"),
    )
    calls = {
        **{name: lambda name=name: load(folder, **{name: wrong}) for name in loading},
        **{name: lambda name=name: encode(["a"], **{name: wrong}) for name in encoding},
        "window": lambda: encoder.encode_stream(["a"], window=wrong),
        "first_row": lambda: encoder.encode_stream(["a"], first_row=wrong),
        "workdir": lambda: SentenceEncoder.from_checkpoint(wrong),
        "step": lambda: SentenceEncoder.from_checkpoint(folder, wrong),
        "cache_dir": lambda: load(folder, cache_dir=wrong),
        "folder": lambda: encoder.save_pretrained(wrong),
        "card": lambda: encoder.save_pretrained(tmp_path / "saved", card=wrong),
        "processor": lambda: SentenceEncoder(encoder.encoder, None, wrong),
        "no encoder": lambda: SentenceEncoder(wrong),
        "a text": lambda: encode(["a", wrong]),
        "no path": lambda: load(wrong),
        "no post-processor": lambda: encoder.with_postprocess(wrong),
    }
    said_of(calls, {*loading, *encoding, "window", "first_row", "card", "processor"})


@pytest.mark.parametrize("wrong", WRONG, ids=IDS)
def test_arguments_of_a_push(wrong):
    """Bug: TypeError of huggingface_hub half way; private=[] made a public repository."""
    target = {"repo_id": "org/x", "token": "hf_x"}
    of_target = ("repo_id", "private", "revision", "commit_message", "exist_ok")
    of_card = ("license", "language", "base_model", "config", "data")
    calls = {
        **{n: lambda n=n: Target(**{**target, n: wrong}) for n in of_target},
        **{n: lambda n=n: CardFields(**{n: wrong}) for n in of_card},
        "access": lambda: HubAccess(local_files_only=wrong),
    }
    if isinstance(wrong, dict) and "a" in wrong:  # settings by their names
        del calls["config"], calls["data"]
    said_of(calls, {*of_target, *of_card})


@pytest.mark.parametrize("empty", ["", 0, [], {}, "no"])
def test_what_python_takes_for_false_is_no_switch(empty):
    """Bug: private="" was a public repository, exist_ok="no" a commit to one that is there."""
    for name in ("private", "exist_ok"):
        with pytest.raises(InputError, match=f"{name}=.*: must be True or False"):
            Target("org/x", "hf_x", **{name: empty})
    if empty not in ("", "no"):
        for name in ("language", "base_model"):
            if (name, empty) != ("language", []):  # no language at all
                with pytest.raises(InputError, match=name):
                    CardFields(**{name: empty})


@pytest.mark.parametrize("revision", ["", " ", "a\0b", "\ud800", "a b", "../x", "x" * 300, b"main"])
def test_a_revision_that_names_nothing(folder, revision, tmp_path):
    """Bug: "embedded null byte" of the cache, and a TypeError for a post-processor's."""
    access = {"revision": revision, "cache_dir": tmp_path, "local_files_only": True}
    for call in (
        lambda: SentenceEncoder.from_pretrained(folder, **access),
        lambda: SentenceEncoder.from_pretrained("org/x", **access),
        lambda: Whitening.from_pretrained("org/x", **access),
        lambda: Target("org/x", "hf_x", revision=revision),
    ):
        with pytest.raises(InputError, match="must be a branch, a tag or a commit"):
            call()


def test_half_a_surrogate_pair_in_a_path(encoder):
    """Bug: UnicodeEncodeError of the system's call; names of other bytes are ones that it has."""
    for call in (
        encoder.save_pretrained,
        SentenceEncoder.from_checkpoint,
        lambda path: HubAccess(cache_dir=path),
        lambda path: CardFields(metrics=path).card(encoder, "org/x"),
    ):
        with pytest.raises(ConfigError, match="a path cannot hold half of a surrogate pair"):
            call("\ud800x")


@pytest.mark.parametrize("bytes_like", [b"ab", bytearray(b"ab"), memoryview(b"ab"), [b"ab"]])
def test_bytes_are_no_embeddings(encoder, bytes_like):
    """Bug: a bytearray was one vector of as many dimensions as it has bytes."""
    for call in (
        lambda: encoder.similarity(bytes_like, bytes_like),
        lambda: encoder.similarity_pairwise(bytes_like, bytes_like),
        lambda: Standardize().fit(bytes_like),
    ):
        with pytest.raises(InputError, match="must be a numeric array"):
            call()


def test_a_scalar_of_pyarrow_is_what_it_holds(encoder):
    """Bug: of a text the bytes were taken for a vector."""
    arrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    text = arrow.scalar("a")
    with pytest.raises(InputError, match="must be a numeric array"):
        encoder.similarity(text, text)
    row = arrow.array([[3.0, 4.0]])[0]
    np.testing.assert_allclose(encoder.similarity(row, [[3.0, 0.0]]), [[0.6]], rtol=1e-6)


def test_a_file_is_not_closed(encoder, tmp_path):
    """Bug: the `detach` of a file was taken for that of a tensor, and the file was lost."""
    with (tmp_path / "a.txt").open("w") as file:
        with pytest.raises(InputError, match="embeddings1"):
            encoder.similarity(file, file)
        file.write("a")
    assert (tmp_path / "a.txt").read_text() == "a"


@pytest.mark.parametrize(
    ("name", "value"),
    [("alpha", 7), ("alpha", float("nan")), ("alpha", None), ("k", -1), ("k", 1.5), ("kind", "x")],
)
def test_settings_that_were_set_later_are_checked(name, value):
    """Bug: a fit with alpha=7, NaN for alpha=nan, pca for a kind that there is not."""
    white = Whitening(k=2)
    setattr(white, name, value)
    with pytest.raises(InputError if name != "kind" else ConfigError, match=f"{name}="):
        white.fit(U)
    assert white.features is None


def test_settings_of_a_flow_that_were_set_later_are_checked():
    """Bug: AttributeError of the module that reads them; seed=True counted as 1."""
    for name, value in (("config", 3), ("train", U), ("seed", True), ("seed", -1)):
        flow = Flow(FlowConfig(levels=1, depth=1, width=4), train=TrainConfig(steps=1))
        setattr(flow, name, value)
        with pytest.raises(ConfigError, match="must be"):
            flow.fit(U)
    fine = FlowConfig(levels=1, depth=1, width=4)
    fitted = Flow.from_variables(fine, init_variables(fine, 8, 0), 8)
    assert fitted.transform(U).shape == U.shape  # a check at the fit alone forgets nothing
    for batches in (np.array(3), np.float32(3), "ab"):
        with pytest.raises(InputError, match=r"batches=.*must be an iterable"):
            Standardize().fit_batches(batches)


@pytest.mark.parametrize("wrong", WRONG, ids=IDS)
def test_what_a_job_on_ray_is_made_of(wrong):
    """Bug: AttributeError of a spec or a column that is none, ValueError of 5,000 digits."""
    whole = {"input": "in", "output": "out", "spec": EncoderSpec(encoder="mini_bert")}
    fields = ("encoder", "workdir", "revision", "flow", "pooling", "dtype")
    calls = {
        **{n: lambda n=n: RayJob(**{**whole, n: wrong}).check() for n in ("spec", "workers")},
        **{n: lambda n=n: RayJob(**whole, **{n: wrong}).check() for n in ("column", "on_overflow")},
        **{n: lambda n=n: EncoderSpec(**{"encoder": "x", n: wrong}).check() for n in fields[2:]},
        **{n: lambda n=n: EncoderSpec(**{n: wrong}).check() for n in fields[:2]},
    }
    said_of(calls, set(calls))


def test_arrays_of_no_dimension_for_senteval(encoder):
    """Bug: TypeError: iteration over a 0-d array; a tensor with a gradient has no cosine."""
    prepare, batcher = make_batcher(encoder)
    for call in (lambda: prepare(None, np.array(3)), lambda: batcher(None, np.array("a"))):
        with pytest.raises(InputError, match="a list of sentences is expected, not ndarray"):
            call()
    with pytest.raises(InputError, match="sentence 0 is ndarray, not a list of words"):
        batcher(None, [np.array("a")])
    with pytest.raises(InputError, match="vectors are not an array of numbers"):
        cosine([[1.0], [1.0, 2.0]], [1.0])
    assert cosine([3.0, 4.0], np.array([3.0, 0.0])) == pytest.approx(0.6)
