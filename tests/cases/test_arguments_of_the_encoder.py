"""Every argument of the embedding side with values that it cannot have: an error that names it."""

import dataclasses
import importlib.util

import jax
import numpy as np
import pytest
from encoder.conftest import write_bert

from bertflow_jax import Flow, FlowConfig, SentenceEncoder, Standardize
from bertflow_jax.data.rows import open_rows
from bertflow_jax.embed_job import EmbedJob, run_job
from bertflow_jax.encoder_spec import EncoderSpec
from bertflow_jax.errors import BertFlowError, ConfigError, InputError, NotFittedError
from bertflow_jax.export.artifact import export_encoder
from bertflow_jax.flow.glow import init_variables

NAN = float("nan")
NO_NUMBERS = [None, "8", b"8", [], {}, NAN, float("inf"), 2.0, True, np.array([3, 4])]
NO_COUNTS = [*NO_NUMBERS, 0, -1]
NO_SWITCHES = ["no", "", 0, 1, 2.5, [], np.array([True])]
NO_PATHS = [None, 5, 1.5, True, b"x", [], {}, "a\0b", "", "  "]
TEXTS = ["a", "the dog"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("arguments") / "bert")


@pytest.fixture(scope="module")
def encoder(folder):
    return SentenceEncoder.from_pretrained(folder)


def refused(call, name, value):
    """Check that a call ends in an error of ours that names the argument."""
    with pytest.raises(BertFlowError) as caught:
        call()
    text = str(caught.value)
    assert name in text, f"{name}={value!r}: {text}"
    assert len(text) < 6000


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("pooling", [5, True, False, 0, 1.5, NAN, b"mean", [], "", " ", "MEAN", "avearge", "last99"]),
        ("pooling", ["last" + "9" * 5000, "layers=(" + "9" * 5000 + ")", "layers=(1,1)"]),
        ("max_length", [*NO_COUNTS[1:], 1, 2, 41, 10**9, 10**30, np.int64(0)]),
        ("dtype", [None, 5, True, "", "int8", "float16", "float64", "FLOAT32", np.float32, []]),
        ("do_lower_case", NO_SWITCHES),
        ("revision", [5, True, b"x", [], "", " "]),
        ("token", [5, 1.5, "", "two words"]),
        ("cache_dir", NO_PATHS[1:]),
        ("local_files_only", [None, *NO_SWITCHES]),
    ],
)  # fmt: skip
def test_arguments_of_from_pretrained(folder, name, values):
    """A folder's pooling for 0, a lower-cased text for "no", the current folder for ""."""
    for value in values:
        refused(lambda v=value: SentenceEncoder.from_pretrained(folder, **{name: v}), name, value)


def test_numbers_of_numpy_are_numbers(folder, encoder):
    """A max_length that was computed is refused as if it were none."""
    cut = SentenceEncoder.from_pretrained(folder, max_length=np.int64(4))
    assert cut.max_seq_length == 4
    vectors = encoder.encode(TEXTS, np.int32(2), np.True_, truncate_dim=np.int64(3))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1], rtol=1e-6)
    assert vectors.shape == (2, 3)


@pytest.mark.parametrize("place", NO_PATHS, ids=repr)
def test_paths_that_are_none(folder, encoder, place):
    """TypeError of os, a file descriptor read, or the current folder used as if named."""
    processor = Standardize().fit(np.eye(16, dtype=np.float32))
    rows = open_rows(folder / "vocab.txt", "txt")
    for call in (
        SentenceEncoder.from_pretrained,
        SentenceEncoder.from_checkpoint,
        encoder.save_pretrained,
        encoder.with_postprocess(processor).save_pretrained,
        lambda path: export_encoder(encoder, path),
        lambda path: EncoderSpec(encoder=path).load(),
        lambda path: EncoderSpec(workdir=path).load(),
        open_rows,
        lambda path: EmbedJob(rows, path),
    ):
        with pytest.raises(BertFlowError, match=r"path|blank|either"):
            call(place)


@pytest.mark.parametrize("step", [True, 1.5, [], -1, "newest", "best ", b"1", NAN], ids=repr)
def test_a_step_that_is_none(folder, step):
    """True read as step 1, or an AttributeError once the run was found."""
    for call in (
        lambda: SentenceEncoder.from_checkpoint(folder, step),
        lambda: EncoderSpec(workdir=str(folder), step=step).load(),
    ):
        refused(call, "step", step)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("batch_size", NO_COUNTS[1:]),
        ("truncate_dim", NO_COUNTS[1:]),
        ("normalize", [None, *NO_SWITCHES]),
        ("show_progress", NO_SWITCHES),
        ("on_overflow", [None, 5, True, [], b"warn", "WARN", "drop"]),
        ("prompt", [5, True, [], b"x", NAN]),
        ("prompt_name", [5, True, [], "nope"]),
        ("convert_to_numpy", [None, *NO_SWITCHES]),
        ("convert_to_tensor", [None, *NO_SWITCHES]),
        ("device", [5, True, [], "cuda", "nope", "cpu:0"]),
        ("precision", [5, ["float32"], "int8"]),
        ("output_value", [None, 5, "token_embeddings"]),
        ("batchsize", [8]),
        ("window", [8]),
    ],
)
def test_arguments_of_encode(encoder, name, values):
    """An argument swallowed, or refused only after everything is embedded."""
    for value in values:
        refused(lambda v=value: encoder.encode(TEXTS, **{name: v}), name, value)
        refused(lambda v=value: encoder.encode_query([], **{name: v}), name, value)


@pytest.mark.parametrize("enormous", [10**9, 2**63, 10**30])
def test_enormous_numbers_are_as_good_as_all(encoder, enormous):
    """Gigabytes for a batch that is mostly padding, or an OverflowError of int64."""
    expected = encoder.encode(TEXTS)
    np.testing.assert_allclose(encoder.encode(TEXTS, enormous), expected, atol=1e-6)
    np.testing.assert_array_equal(encoder.encode(TEXTS, truncate_dim=enormous), expected)
    stream = encoder.encode_stream(TEXTS, window=enormous, first_row=enormous)
    np.testing.assert_array_equal(next(stream), expected)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("batch_size", NO_COUNTS[1:]),
        ("window", NO_COUNTS[1:]),
        ("first_row", [*NO_NUMBERS, -1]),
        ("normalize", [None, *NO_SWITCHES]),
        ("on_overflow", [None, 5, [], "drop"]),
    ],
)
def test_arguments_of_a_stream_are_refused_at_the_call(encoder, name, values):
    """An error at the first row, when the caller has opened files for the vectors."""
    for value in values:
        refused(lambda v=value: encoder.encode_stream(TEXTS, **{name: v}), name, value)
    for value in NO_COUNTS[1:]:
        refused(lambda v=value: encoder.warmup(v), "batch_size", value)


@pytest.mark.parametrize("value", NO_COUNTS[1:], ids=repr)
def test_max_seq_length_stays_what_it_was(encoder, value):
    """A limit that is half set."""
    with pytest.raises(ConfigError, match="max_length="):
        encoder.max_seq_length = value
    assert encoder.max_seq_length == 40


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (None, "float.N, E. is needed"),
        (5, "float.N, E. is needed"),
        (np.zeros((2, 2, 16)), "float.N, E. is needed"),
        ("abc", "must be a numeric array"),
        (TEXTS, "must be a numeric array"),
        ({}, "vectors are needed"),
        (iter([]), "vectors are needed"),
        ([[1.0, 2.0], [3.0]], "are not an array of numbers"),
        (np.ones((2, 16), complex), "are complex, and the imaginary part"),
        (np.zeros((2, 0)), "dimensions|matching rows"),
        ([None] * 16, "row 0 is not finite"),
        (np.vstack([np.ones(16), np.full(16, NAN)]), "row 1 is not finite"),
        (np.vstack([np.ones(16), np.full(16, np.inf)]), "row 1 is not finite"),
        (np.full((2, 16), 1e300), "row 0 is not finite .NaN, inf or beyond float32"),
    ],
)
def test_embeddings_that_are_none(encoder, rows, words):
    """NaN for a NaN, a complex number cut to its real part, 1e300 taken for infinity."""
    good = encoder.encode(TEXTS)
    for similarity in (encoder.similarity, encoder.similarity_pairwise):
        with pytest.raises(InputError, match=words):
            similarity(good, rows)
        with pytest.raises(InputError, match=words):
            similarity(rows, good)


def test_no_embeddings_at_all(encoder):
    """[] counted as one vector, whose cosine to [] was 0."""
    good = encoder.encode(TEXTS)
    assert encoder.similarity(good, []).shape == (2, 0)
    assert encoder.similarity(encoder.encode([]), good).shape == (0, 2)
    assert encoder.similarity([], []).shape == (0, 0)
    assert encoder.similarity_pairwise([], np.zeros((0, 16))).shape == (0,)


@pytest.mark.parametrize("kind", ["dot", "euclidean", "manhattan"])
def test_a_similarity_beyond_float32(encoder, kind):
    """inf, and NaN for two of them, of vectors that are finite."""
    usage = dataclasses.replace(encoder.encoder.usage, similarity=kind)
    other = SentenceEncoder(dataclasses.replace(encoder.encoder, usage=usage))
    huge = np.full((1, 16), 3e38, np.float32)
    for similarity in (other.similarity, other.similarity_pairwise):
        with pytest.raises(InputError, match=f"a {kind} similarity is beyond float32"):
            similarity(huge, -huge)


@pytest.mark.parametrize(
    ("processor", "error", "words"),
    [
        (None, InputError, "not NoneType"),
        ("flow", InputError, "not str"),
        (np.zeros(3), InputError, "not ndarray"),
        (Standardize, InputError, "not the class Standardize"),
        (Standardize(), NotFittedError, "not fitted yet"),
        (Flow(), NotFittedError, "not fitted yet"),
        (Standardize().fit(np.eye(8, dtype=np.float32)), InputError, "fitted on 8 dimensions"),
    ],
)
def test_post_processors_that_are_none(encoder, processor, error, words):
    """A TypeError about a missing self, or a matrix product that does not fit."""
    with pytest.raises(error, match=words):
        encoder.with_postprocess(processor)


@pytest.mark.parametrize("bad", [NAN, np.inf])
def test_parameters_that_are_not_finite(encoder, bad):
    """A folder saved that nobody can load, or "the weights are broken" for a broken flow."""
    config = FlowConfig(levels=1, depth=1, width=4)
    variables = init_variables(config, 16, 0)
    broken = {**variables, "params": jax.tree.map(lambda x: x * bad + bad, variables["params"])}
    with pytest.raises(
        InputError, match=r"variables: 'params/\S+ holds a number that is not finite"
    ):
        Flow.from_variables(config, broken, 16)
    flow = Flow.from_variables(config, variables, 16)
    flow._variables = broken  # as a fit that went wrong would leave them
    with pytest.raises(
        InputError, match=r"the flow's params/\S+ holds a number that is not finite"
    ):
        encoder.with_postprocess(flow)


@pytest.mark.parametrize("value", [None, "mini_bert", 5, {}], ids=repr)
def test_what_is_no_encoder(encoder, folder, tmp_path, value):
    """AttributeError: 'str' object has no attribute 'params'; how sentence-transformers is called."""
    with pytest.raises(InputError, match=r"from_pretrained takes a folder or a Hub id"):
        SentenceEncoder(value)
    with pytest.raises(
        InputError, match=f"a SentenceEncoder is needed, not {type(value).__name__}"
    ):
        export_encoder(value, tmp_path / "out")
    job = EmbedJob(open_rows(folder / "vocab.txt", "txt"), tmp_path / "out.npy")
    with pytest.raises(
        InputError, match=f"a SentenceEncoder is needed, not {type(value).__name__}"
    ):
        run_job(value, job)
    with pytest.raises(InputError, match="must be what open_rows returns"):
        EmbedJob(value, tmp_path / "out.npy")
    with pytest.raises(InputError, match="with_postprocess takes a fitted"):
        SentenceEncoder(encoder.encoder, value or 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("file_format", [None, 5, "", "pdf"]),
        ("column", [None, 5, True, [], b"text", "nope", "9"]),
        ("id_column", [None, 5, [], "nope"]),
        ("encoding", [None, 5, [], "", "nope", "hex", "idna"]),
    ],
)
def test_arguments_of_open_rows(tmp_path, name, values):
    """AttributeError of an int, for which a column number may well be given."""
    (tmp_path / "in.tsv").write_text("id\ttext\n1\ta\n")
    settings = {"file_format": "tsv", "column": "text"}
    for value in values:
        with pytest.raises(BertFlowError, match=r"format|column|encoding"):
            open_rows(tmp_path / "in.tsv", **{**settings, name: value}).survey()


def test_an_output_may_be_a_str(encoder, tmp_path):
    """AttributeError: 'str' object has no attribute 'suffix'."""
    (tmp_path / "in.txt").write_text("a\nthe dog\n")
    job = EmbedJob(open_rows(str(tmp_path / "in.txt")), str(tmp_path / "out.npy"))
    assert run_job(encoder, job) == 2
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), encoder.encode(TEXTS), atol=1e-6)


@pytest.mark.parametrize(
    "platforms", [None, 5, True, "cpu", [], [5], [None], [["cpu"]], [b"cpu"], {"cpu"}, ["gpu"]]
)
def test_platforms_of_an_export(encoder, tmp_path, platforms):
    """TypeError of a join, after which nobody knows which argument it was."""
    with pytest.raises(ConfigError, match=r"platforms=.*must be some of cpu, cuda"):
        export_encoder(encoder, tmp_path / "out", platforms)
    with pytest.raises(InputError, match="normalize='no': must be True or False"):
        export_encoder(encoder, tmp_path / "out", ["cpu"], normalize="no")
    assert list(tmp_path.iterdir()) == []


def test_arguments_of_the_exported_loader(encoder, tmp_path):
    """One vector a letter for a bare str (E01), and rows of zeros for a batch_size of -1."""
    pytest.importorskip("flatbuffers", reason="jax.export writes with flatbuffers")
    export_encoder(encoder, tmp_path / "out", ["cpu"])
    spec = importlib.util.spec_from_file_location("loader", tmp_path / "out" / "load.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    loader = module.Encoder(tmp_path / "out")
    for texts in ("abc", b"abc", None, 5, NAN):
        with pytest.raises(
            TypeError, match=f"a list of str is expected, not {type(texts).__name__}"
        ):
            loader.encode(texts)
    for row in (None, b"a", NAN, 5, ["a"]):
        with pytest.raises(TypeError, match=f"row 1 is {type(row).__name__}, not str"):
            loader.encode(["a", row])
    for batch_size in NO_COUNTS:
        with pytest.raises(ValueError, match=r"batch_size=.*must be an integer >= 1"):
            loader.encode(TEXTS, batch_size)
    for batch_size in (1, 10**9):
        np.testing.assert_allclose(
            loader.encode(TEXTS, batch_size), encoder.encode(TEXTS), atol=1e-5
        )
    assert loader.encode(iter(TEXTS)).shape == (2, 16)


def test_arguments_of_the_adapters(encoder):
    """Letters scored as texts, a batch_size refused only after a benchmark is downloaded."""
    from bertflow_jax.integrations.senteval import make_batcher

    for name, values in (("batch_size", NO_COUNTS[1:]), ("cache_mib", [*NO_NUMBERS, -1])):
        for value in values:
            refused(lambda n=name, v=value: make_batcher(encoder, **{n: v}), name, value)
    prepare, batcher = make_batcher(encoder)
    for samples in ("abc", None, 5):
        for call in (prepare, batcher):
            with pytest.raises(InputError, match="a list of sentences is expected"):
                call(None, samples)
    pytest.importorskip("mteb", reason="not installed")
    from bertflow_jax.integrations.mteb import MTEBEncoder

    for value in NO_COUNTS[1:]:
        refused(lambda v=value: MTEBEncoder(encoder, batch_size=v), "batch_size", value)
    with pytest.raises(ConfigError, match=r"languages='eng-Latn': a list is needed"):
        MTEBEncoder(encoder, languages="eng-Latn")
    with pytest.raises(InputError, match=r'batches .* are needed, .* not \{"text": str\}'):
        MTEBEncoder(encoder).encode([{"text": "abc"}])
