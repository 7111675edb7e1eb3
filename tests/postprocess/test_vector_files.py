"""Fits and maps of files of vectors: the numbers of the classes, and what is refused."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax import (
    Compose,
    Flow,
    FlowConfig,
    SentenceEncoder,
    Standardize,
    TrainConfig,
    Whitening,
)
from bertflow_jax.data.parquet_rows import parquet_blocks
from bertflow_jax.data.rows import open_rows
from bertflow_jax.embed_job import EmbedJob, run_job
from bertflow_jax.errors import (
    BertFlowError,
    ConfigError,
    DataError,
    DataNotFoundError,
    WorkdirError,
)
from bertflow_jax.evaluation.metrics import mean_random_cosine
from bertflow_jax.integrations.ray_inputs import find_inputs, open_place
from bertflow_jax.postprocess import load, vector_files
from bertflow_jax.postprocess.apply_files import ApplyOptions, run_apply
from bertflow_jax.postprocess.fit_files import FitOptions, run_fit_files

D = 6
TINY = {"levels": 1, "depth": 1, "width": 4, "steps": 3, "batch_size": 8, "seed": 5}


def rows(n=100, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, D)) @ rng.normal(size=(D, D)) + np.arange(D)).astype(np.float32)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of 7 rows, so that a hundred rows are fifteen of them."""
    monkeypatch.setattr(vector_files, "_BLOCK_ROWS", 7)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("v.npy", rows())
    return tmp_path


def fit(source="v.npy", method="whitening", output="model", column="", **settings):
    return run_fit_files(FitOptions(method, str(source), str(output), column, settings))


def apply(source="v.npy", output="out.npy", model="model", **options):
    return run_apply(ApplyOptions(str(model), str(source), str(output), **options))


def table(vectors, **columns):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    kind = pyarrow.list_(pyarrow.float32())
    return pyarrow.table({"vector": pyarrow.array(list(vectors), kind), **columns})


def write_parquet(path, vectors, **columns):
    made = table(vectors, **columns)
    pytest.importorskip("pyarrow.parquet").write_table(made, path, row_group_size=40)
    return made


@pytest.mark.parametrize("form", ["c", "fortran", "float64", "big_endian", "parquet", "fixed"])
def test_fit_and_apply_give_the_numbers_of_the_class(here, form):
    """A block that is read twice, left out or transposed, or of the wrong byte order."""
    u, source = rows(), "v.npy"
    if form in ("parquet", "fixed"):
        made = write_parquet("v.parquet", u)
        if form == "fixed":
            pyarrow = pytest.importorskip("pyarrow")
            fixed = made["vector"].combine_chunks().cast(pyarrow.list_(pyarrow.float32(), D))
            pytest.importorskip("pyarrow.parquet").write_table(
                pyarrow.table({"vector": fixed}), "v.parquet"
            )
        source = "v.parquet"
    else:
        kinds = {"c": "<f4", "fortran": "<f4", "float64": "<f8", "big_endian": ">f4"}
        np.save("v.npy", np.array(u, kinds[form], order="F" if form == "fortran" else "C"))
    expected = Whitening(4).fit(u)
    fitted = fit(source, k=4)
    np.testing.assert_allclose(load("model").matrix, expected.matrix, rtol=1e-9, atol=1e-12)
    assert apply(source) == (100, 4)
    out = np.load("out.npy")
    assert (out.dtype, out.flags.c_contiguous) == (np.float32, True)
    np.testing.assert_allclose(out, expected.transform(u), atol=1e-6)
    assert (fitted.rows, fitted.features, fitted.sampled) == (100, D, 100)
    assert fitted.cosine_before == pytest.approx(mean_random_cosine(u), rel=1e-6)
    assert fitted.cosine_after == pytest.approx(mean_random_cosine(out), abs=1e-6)


def test_the_flow_of_a_file_is_that_of_the_array(here):
    """Settings that do not reach the flow, or a table with rows in another order."""
    fitted = fit(method="flow", coupling="affine", **TINY)
    flow = Flow(FlowConfig(1, 1, 4, "affine"), 5, TrainConfig(steps=3, batch_size=8)).fit(rows())
    np.testing.assert_allclose(
        load("model").transform(rows(9, 1)), flow.transform(rows(9, 1)), atol=1e-6
    )
    assert repr(fitted.processor) == repr(flow)
    np.save("wide.npy", rows().astype(np.float64))
    fit("wide.npy", "flow", "model2", coupling="affine", **TINY)
    np.testing.assert_array_equal(
        load("model2").transform(rows(9)), load("model").transform(rows(9))
    )


def test_the_sample_is_of_all_rows(here, monkeypatch):
    """Rows counted from the block instead of from the file."""
    from bertflow_jax.postprocess import fit_files

    monkeypatch.setattr(fit_files, "_SAMPLE", 30)
    sample = fit_files._Sample(100)
    for block in vector_files.open_vectors(here / "v.npy").blocks():
        sample.take(block.first, block.vectors)
    places = [int(np.flatnonzero((rows() == row).all(axis=1))[0]) for row in sample.rows()]
    assert len(set(places)) == 30
    assert (places == np.sort(places)).all()
    assert max(places) > 80


def test_inverse_and_normalize(here):
    np.save("v.npy", np.concatenate([rows(), rows().mean(axis=0, keepdims=True)]))
    fit()
    apply(output="z.npy")
    assert apply("z.npy", "back.npy", inverse=True) == (101, D)
    np.testing.assert_allclose(np.load("back.npy"), np.load("v.npy"), atol=1e-4)
    np.save("v.npy", np.add(load("model").mean, [[0.0], [1.0]]))
    apply(output="unit.npy", normalize=True)
    z = load("model").transform(np.load("v.npy"))
    np.testing.assert_allclose(
        np.load("unit.npy")[1], z[1] / np.linalg.norm(z[1].astype(np.float64)), rtol=1e-6
    )
    np.testing.assert_array_equal(np.load("unit.npy")[0], np.zeros(D))


def test_any_saved_post_processor_is_applied(here):
    """Folders of `Compose`, and of an inverse whose input is narrower than its output."""
    both = Compose([Standardize(), Whitening(2)]).fit(rows())
    both.save("model")
    assert apply(output="z.npy") == (100, 2)
    np.testing.assert_allclose(np.load("z.npy"), both.transform(rows()), atol=1e-6)
    assert apply("z.npy", "back.npy", inverse=True) == (100, D)
    np.testing.assert_allclose(
        np.load("back.npy"), both.inverse_transform(both.transform(rows())), atol=1e-5
    )


def test_the_other_columns_go_along(here):
    """Ids of other rows than their vectors, or columns in another place or type."""
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {
        "text": pyarrow.array([f"text {i}" if i % 9 else None for i in range(100)]),
        "tags": pyarrow.array([[i] * (i % 3) for i in range(100)]),
        "day": pyarrow.array(range(100), pyarrow.date32()),
        "kind": pyarrow.array([str(i % 2) for i in range(100)]).dictionary_encode(),
    }
    made = write_parquet("v.parquet", rows(), **columns)
    fit(k=3)
    assert apply("v.parquet", "out.parquet") == (100, 3)
    out = parquet.read_table("out.parquet")
    assert out.column_names == made.column_names
    for name in columns:
        assert out.schema.field(name).type == made.schema.field(name).type
        assert out[name].to_pylist() == made[name].to_pylist()
    expected = load("model").transform(rows())
    np.testing.assert_allclose(np.stack(out["vector"].to_pylist()), expected, atol=1e-6)
    assert apply("v.npy", "ids.parquet") == (100, 3)
    ids = parquet.read_table("ids.parquet")
    assert ids["id"].to_pylist() == list(range(100))
    np.testing.assert_allclose(np.stack(ids["vector"].to_pylist()), expected, atol=1e-6)


def test_parts_of_an_embedding_job(here):
    """Parts in the order of their names' text, or a part left out."""
    texts = [f"Sentence number {i}." for i in range(23)]
    (here / "in.txt").write_text("\n".join(texts) + "\n")
    encoder = SentenceEncoder.from_pretrained("mini_bert")
    run_job(encoder, EmbedJob(open_rows(here / "in.txt"), here / "parts", shard_rows=2))
    vectors = encoder.encode(texts)
    blocks = vector_files.open_vectors(here / "parts").blocks()
    assert [(block.first, len(block.vectors)) for block in blocks][-2:] == [(20, 2), (22, 1)]
    fit("parts", "standardize")
    assert apply("parts") == (23, vectors.shape[1])
    expected = Standardize().fit(vectors)
    np.testing.assert_allclose(np.load("out.npy"), expected.transform(vectors), atol=1e-3)
    with pytest.raises(ConfigError, match="folder of the parts"):
        fit("parts", output="parts")
    part = next((here / "parts").glob("part-00003*.npy"))
    with pytest.raises(ConfigError, match="would overwrite --input=parts"):
        apply("parts", part)
    bad = np.load(part)
    bad[1] = np.nan
    np.save(part, bad)
    with pytest.raises(DataError, match=r"part-00003-of-00012\.npy, row 1: holds NaN"):
        apply("parts")
    index = json.loads((here / "parts" / "index.json").read_text())
    index["parts"][3]["file"] = "../v.npy"
    (here / "parts" / "index.json").write_text(json.dumps(index))
    with pytest.raises(DataError, match="lists no parts"):
        apply("parts")
    (here / "parts" / "index.json").unlink()
    with pytest.raises(DataNotFoundError, match=r"no index\.json.*finish the job"):
        apply("parts")


class Trap:
    def __reduce__(self):
        return open, ("unpickled", "w")


def test_nothing_is_unpickled(here):
    """A file of vectors that runs a program."""
    np.save("trap.npy", np.array([Trap()], object), allow_pickle=True)
    (here / "bare.npy").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(DataError, match="Python objects, which are never unpickled"):
        fit("trap.npy")
    with pytest.raises(DataError, match=r"bare\.npy is no \.npy file"):
        fit("bare.npy")
    assert not (here / "unpickled").exists()


def faulty(name):
    u = rows()
    if name == "nan":
        u[64, 1] = np.nan
    if name == "inf":
        u[99, 0] = np.inf
    arrays = {"flat": u[0], "strings": u.astype(str), "none": u[:0], "empty": u[:, :0]}
    np.save("bad.npy", arrays.get(name, u))
    if name in ("cut", "no_bytes"):
        with open("bad.npy", "r+b") as file:
            file.truncate(1000 if name == "cut" else 0)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nan", r"bad\.npy, row 64: holds NaN or infinity"),
        ("inf", r"bad\.npy, row 99: holds NaN or infinity"),
        ("flat", r"holds an array float32\[6\]; a numeric one of shape \[N, D\]"),
        ("strings", r"bad\.npy holds an array <U\d+\[100, 6\]"),
        ("none", r"bad\.npy holds no vectors.*\[0, 6\]"),
        ("empty", r"bad\.npy holds no vectors.*\[100, 0\]"),
        ("cut", r"bad\.npy is cut short: it has 1000 bytes, and 2528 are needed"),
        ("no_bytes", r"bad\.npy is empty"),
    ],
)
def test_faults_of_arrays_are_named(here, name, words):
    """Row numbers of a block, tracebacks of numpy, or an output of zero rows."""
    fit()
    faulty(name)
    for work in (lambda: fit("bad.npy", "standardize", "other"), lambda: apply("bad.npy")):
        with pytest.raises(DataError, match=words):
            work()
    assert sorted(path.name for path in here.iterdir() if path.is_file()) == ["bad.npy", "v.npy"]


@pytest.mark.parametrize(
    ("row", "vector", "words"),
    [
        (0, None, "row 0: column 'vector' holds null"),
        (0, [], "row 0: column 'vector' holds an empty list"),
        (51, None, "row 51: the vector in column 'vector' is null"),
        (
            51,
            [1.0] * 5,
            "row 51: the vector in column 'vector' has 5 dimensions, the first one has 6",
        ),
        (51, [1.0] * 5 + [None], "row 51: a number of the vector in column 'vector' is null"),
        (51, [1.0] * 5 + [float("nan")], "row 51: holds NaN"),
    ],
)
def test_faults_of_parquet_rows_are_named(here, row, vector, words):
    """A ragged row that shifts all those after it."""
    vectors = [list(map(float, u)) for u in rows()]
    vectors[row] = vector
    write_parquet("v.parquet", vectors)
    with pytest.raises(DataError, match=words):
        fit("v.parquet")


@pytest.mark.parametrize("within", ["a column", "a struct"])
def test_a_column_whose_name_is_no_text(here, within):
    """The fuzz run's find: pyarrow's UnicodeDecodeError. For a text's column the values got it."""
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    named = {"zzzz": range(100)} if within == "a column" else {"s": [{"zzzz": 1}] * 100}
    table = pyarrow.table({"vector": list(rows()), "text": ["a"] * 100, **named})
    parquet.write_table(table, "v.parquet", store_schema=False)
    written = Path("v.parquet").read_bytes()
    Path("v.parquet").write_bytes(written.replace(b"zzzz", b"z\xffzz"))
    for read in (
        lambda: fit("v.parquet"),
        lambda: list(parquet_blocks(Path("v.parquet"), "text", "")),
        lambda: find_inputs(open_place("v.parquet", "--input")),
    ):
        with pytest.raises(DataError, match=r"v\.parquet: the name of a column is not UTF-8"):
            read()


def test_columns_of_parquet(here):
    """The first column of lists taken for the vectors, whatever it holds."""
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    u = list(rows())
    write_parquet("v.parquet", u, other=pyarrow.array(u), n=pyarrow.array(range(100)))
    fit("v.parquet")
    fit("v.parquet", column="other")
    with pytest.raises(DataError, match="no column 'nope' among 'vector', 'other', 'n'"):
        fit("v.parquet", column="nope")
    with pytest.raises(DataError, match="column 'n' holds int64, not lists of numbers"):
        fit("v.parquet", column="n")
    renamed = parquet.read_table("v.parquet").rename_columns(["a", "b", "n"])
    parquet.write_table(renamed, "two.parquet")
    with pytest.raises(DataError, match=r"2 columns hold lists of numbers \('a', 'b'\); set --col"):
        fit("two.parquet")
    parquet.write_table(renamed.select(["n"]), "none.parquet")
    with pytest.raises(DataError, match=r"no columns hold lists of numbers \('n'\)"):
        fit("none.parquet")
    parquet.write_table(renamed.slice(0, 0).select(["a"]), "empty.parquet")
    with pytest.raises(DataError, match=r"empty\.parquet holds no rows"):
        fit("empty.parquet")
    (here / "text.parquet").write_text("hello")
    with pytest.raises(DataError, match=r"text\.parquet cannot be read as Parquet"):
        fit("text.parquet")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"source": "no.npy"}, DataNotFoundError, r"--input=no\.npy: no such file"),
        ({"source": "."}, DataNotFoundError, r"no index\.json in this folder"),
        ({"source": "v.txt"}, ConfigError, r"vectors are read from \.npy, \.parquet"),
        ({"column": "a"}, ConfigError, r"--column goes with a \.parquet file"),
        ({"output": "v.npy"}, ConfigError, r"--output=v\.npy would overwrite --input=v\.npy"),
        ({"output": "link.npy"}, ConfigError, "would overwrite"),
        ({"output": "out.csv"}, ConfigError, r"vectors go into a \.npy or \.parquet file"),
        ({"output": "folder.npy"}, WorkdirError, "is a folder; name a file"),
        ({"output": "v.npy/out.npy"}, WorkdirError, "is a file; name a folder"),
        ({"output": "/proc/out.npy"}, WorkdirError, "is not writable"),
        ({"model": "no"}, DataNotFoundError, "no: no such folder of a saved flow"),
        ({"inverse": True}, DataError, "vectors of 6 dimensions, the inverse of the whitening in"),
        (
            {"source": "narrow.npy"},
            DataError,
            "vectors of 5 dimensions, the whitening in --model=m",
        ),
        ({"source": "far.npy"}, DataError, r"far\.npy, from row 7 on: row 2: what whitening makes"),
        (
            {"source": "farther.npy"},
            DataError,
            r"farther\.npy, row 9: holds 1e\+300, beyond float32",
        ),
    ],
)
def test_what_cannot_be_applied(here, options, error, words):
    """Work for nothing, an input that is gone, or an error that names no file."""
    fit(k=4)
    (here / "v.txt").write_text("1 2 3\n")
    (here / "folder.npy").mkdir()
    (here / "link.npy").symlink_to("v.npy")
    np.save("narrow.npy", rows()[:, :5])
    far = rows().astype(np.float64)
    white = Whitening.load("model")
    white._matrix = 100 * white.matrix  # for 3e38, which float32 holds
    white.save("model")
    for name, value in (("far.npy", 3e38), ("farther.npy", 1e300)):
        far[9] = value
        np.save(name, far)
    before = (here / "v.npy").read_bytes()
    with pytest.raises(error, match=words):
        apply(**options)
    assert (here / "v.npy").read_bytes() == before
    assert not [path for path in here.iterdir() if path.name.startswith((".", "out"))]


def test_an_output_is_there_whole_or_not_at_all(here):
    """A failed row in the middle that leaves half a file, or deletes the last good one."""
    fit()
    apply(output="out.npy")
    before = np.load("out.npy")
    bad = rows()
    bad[90] = np.nan
    np.save("bad.npy", bad)
    write_parquet("bad.parquet", list(bad))
    for source in ("bad.npy", "bad.parquet"):
        for output in ("out.npy", "out.parquet"):
            with pytest.raises(DataError, match="row 90"):
                apply(source, output)
    np.testing.assert_array_equal(np.load("out.npy"), before)
    names = {path.name for path in here.iterdir()}
    assert names == {"v.npy", "model", "out.npy", "bad.npy", "bad.parquet"}


@pytest.mark.parametrize(
    ("method", "settings", "words"),
    [
        ("natsv", {"alpha": 0.5}, "--alpha goes with --method=whitening"),
        ("standardize", {"k": 2}, "--k goes with --method=natsv or whitening or reduce"),
        ("whitening", {"steps": 2}, "--steps goes with --method=flow"),
        ("reduce", {}, "--method=reduce needs --k"),
        ("flow", {"dropout": 1.0}, r"flow\.dropout=1\.0: must be in \[0, 1\)"),
        ("pca", {}, "--method=pca: must be one of center, standardize"),
        ("whitening", {"k": 7}, r"k=7, but the embeddings vary in 6 direction\(s\) only"),
    ],
)
def test_what_cannot_be_fitted(here, method, settings, words):
    """Flags without effect; an output folder with half a fit."""
    with pytest.raises(BertFlowError, match=words):
        fit(method=method, **settings)
    assert not list(here.glob("model/*"))


def test_a_fit_takes_the_place_of_another(here, caplog):
    fit()
    fit(method="natsv", k=2)
    assert "holds a saved post-processor, which will be replaced" in caplog.text
    assert repr(load("model")) == "NATSV(k=2)"
