"""Data of a stranger's run nothing, lead nowhere and fill no memory. Each test names its bug."""

import contextlib
import gzip
import io
import json
import sys
import tarfile
import zipfile

import numpy as np
import pytest

from benchmarks import fuzz_data_folders, fuzz_data_texts, fuzz_data_tfds
from bertflow_jax.data import lines
from bertflow_jax.data.embedding_cache import embed_cached
from bertflow_jax.data.rows import open_rows
from bertflow_jax.data.tfds_builders import archives
from bertflow_jax.embed_parts import Part
from bertflow_jax.errors import BertFlowError, DataError
from bertflow_jax.postprocess.vector_files import open_vectors

SOURCES = {
    source.name: source
    for source in (
        *fuzz_data_texts.SOURCES,
        *fuzz_data_folders.sources(),
        *fuzz_data_tfds.sources(),
    )
}
TFDS = ("tfds-sts", "tfds-snli", "tfds-qnli")


@pytest.fixture(scope="module", params=TFDS)
def prepared(request, tmp_path_factory):
    """(source, folder of its one version) of prepared data that a test may change and put back."""
    source = SOURCES[request.param]
    root = tmp_path_factory.mktemp("root") / "tfds"
    root.mkdir()
    source.write(root)
    source.read(root)
    (info,) = root.rglob("dataset_info.json")
    return source, root, info.parent


@pytest.fixture
def changed(prepared):
    """A function that changes one JSON file, (name, function of its content), for one test."""
    _, _, folder = prepared
    before = {path: path.read_bytes() for path in folder.glob("*.json")}

    def change(name, edit):
        content = json.loads((folder / name).read_text())
        edit(content)
        (folder / name).write_text(json.dumps(content))

    yield change
    for path, content in before.items():
        path.write_bytes(content)


def test_no_module_that_features_name_is_imported(prepared, changed, tmp_path, monkeypatch):
    """Bug: TFDS imports the module of every class that features.json names, wherever it lies."""
    source, root, _ = prepared
    marker = tmp_path / "imported"
    (tmp_path / "of_the_data.py").write_text(f"open({str(marker)!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for depth in range(2):

        def name_it(content, depth=depth):
            inner = (
                content if depth == 0 else next(iter(content["featuresDict"]["features"].values()))
            )
            inner["pythonClassName"] = "of_the_data.Feature"

        changed("features.json", name_it)
        with pytest.raises(DataError, match=r"features\.json: the class 'of_the_data\.Feature'"):
            source.read(root)
    assert not marker.exists()
    assert "of_the_data" not in sys.modules


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("filepathTemplate", "../../{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"),
        ("filepathTemplate", "/etc/{SPLIT}"),
        ("name", "../train"),
    ],
)
def test_no_file_beside_the_folder_is_read(prepared, changed, key, value):
    """Bug: the names in dataset_info.json lead to the files of another data set."""
    source, root, _ = prepared
    changed("dataset_info.json", lambda content: content["splits"][0].update({key: value}))
    with pytest.raises(DataError, match=rf"dataset_info\.json: {key} .* leads out of the folder"):
        source.read(root)


@pytest.mark.parametrize("name", ["../secret.npy", "/secret.npy", "..", "a/../../secret.npy", ""])
def test_an_index_lists_files_of_its_folder(tmp_path, name):
    """Bug: index.json names a file elsewhere, whose vectors are taken."""
    np.save(tmp_path / "secret.npy", np.ones((3, 2), np.float32))
    folder = tmp_path / "parts"
    folder.mkdir()
    named = name.replace("/secret", f"{tmp_path}/secret") if name.startswith("/") else name
    parts = [{"file": named, "start": 0, "stop": 3}]
    (folder / "index.json").write_text(json.dumps({"parts": parts}))
    with pytest.raises(DataError):
        open_vectors(folder)


def hostile_zip(path, name):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, "x")


def hostile_tar(path, name, kind=tarfile.REGTYPE, link=""):
    with tarfile.open(path, "w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = kind, link
        entry.size = 1 if kind == tarfile.REGTYPE else 0
        archive.addfile(entry, io.BytesIO(b"x"))


@pytest.mark.parametrize(
    "make",
    [
        lambda path, root: hostile_zip(path, "../escaped"),
        lambda path, root: hostile_zip(path, f"{root}/escaped"),
        lambda path, root: hostile_tar(path, "../escaped"),
        lambda path, root: hostile_tar(path, f"{root}/escaped"),
        lambda path, root: hostile_tar(path, "a", tarfile.SYMTYPE, "../escaped"),
        lambda path, root: hostile_tar(path, "a", tarfile.LNKTYPE, f"{root}/data.bin"),
        lambda path, root: hostile_tar(path, "a", tarfile.FIFOTYPE),
    ],
    ids=[
        "zip ..",
        "zip absolute",
        "tar ..",
        "tar absolute",
        "tar link",
        "tar hard link",
        "tar fifo",
    ],
)
def test_an_archive_stays_in_its_folder(tmp_path, make):
    """Bug: a member, or a link, that lies outside the folder that is unpacked into."""
    (tmp_path / "data.bin").write_bytes(b"mine")
    path, target = tmp_path / "archive", tmp_path / "in" / "target"
    target.mkdir(parents=True)
    make(path, tmp_path)
    with contextlib.suppress(DataError):
        archives.unpack("http://host/archive", path, target)
    for found in target.rglob("*"):
        assert found.resolve().is_relative_to(target)
        assert found.is_file() or found.is_dir()
        assert not found.is_symlink()
    outside = {p.name for p in tmp_path.rglob("*") if not p.is_relative_to(tmp_path / "in")}
    assert outside <= {"in", "archive", "data.bin"}
    assert (tmp_path / "data.bin").read_bytes() == b"mine"


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_archive_that_would_fill_the_disk_is_refused(tmp_path, monkeypatch, kind):
    """Bug: kilobytes that unpack to gigabytes, noticed when the disk is full."""
    monkeypatch.setattr(archives, "_LARGEST", 100_000)
    path, target = tmp_path / "archive", tmp_path / "target"
    target.mkdir()
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(3):
                archive.writestr(f"{number}", bytes(50_000))
    else:
        with tarfile.open(path, "w:gz") as archive:
            entry = tarfile.TarInfo("big")
            entry.size = 150_000
            archive.addfile(entry, io.BytesIO(bytes(150_000)))
    with pytest.raises(DataError, match="more than 100000 bytes, as no release has"):
        archives.unpack("http://host/archive", path, target)
    assert not list(target.iterdir())


def test_a_gz_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    """Bug: a file of 100 kB that decompresses to 100 MB is decompressed whole."""
    monkeypatch.setattr(lines, "_LEAST_BOMB", 1_000_000)
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"same line\n" * 400_000))
    with pytest.raises(DataError, match=r"a\.txt\.gz .* decompress to more than .*gunzip"):
        lines.read_lines(path)
    # Text of the same size is no bomb, and a stream of lines needs no more memory than one of them.
    text = np.random.default_rng(0).integers(97, 123, 3_000_000, np.uint8).tobytes()
    path.write_bytes(gzip.compress(text, 1))
    assert lines.read_lines(path) == [text.decode()]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_a_line_without_end_is_refused(tmp_path, monkeypatch, name):
    """Bug: a stream of lines that waits for a line end until the memory is full."""
    monkeypatch.setattr(lines, "_LONGEST", 1_000)
    content = b"short\n" + b"x" * 5_000 + b"\n"
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    with pytest.raises(DataError, match=r"line 2: has 1000 characters and more"):
        open_rows(path).survey()


class Trap:
    """What runs a program when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return open, (self.marker, "w")


def test_nothing_that_is_read_as_npy_is_unpickled(tmp_path):
    """Bug: np.load(allow_pickle=True) at one of the places that read arrays."""
    marker = tmp_path / "unpickled"
    trap = io.BytesIO()
    np.save(trap, np.array([[Trap(str(marker))]], object), allow_pickle=True)
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "a.npy").write_bytes(trap.getvalue())
    parts = [{"file": "a.npy", "start": 0, "stop": 1}]
    (folder / "index.json").write_text(json.dumps({"parts": parts}))
    for path in (folder, folder / "a.npy"):
        with pytest.raises(BertFlowError, match="never unpickled"):
            open_vectors(path)
    assert not Part(0, 1, folder / "a.npy", {}, 1).is_whole(folder / "a.npy")
    # The cache: an entry with a digest that fits is still no reason to unpickle it.
    vectors = np.ones((1, 2), np.float32)
    embed_cached(lambda texts: vectors, {}, ["a"], tmp_path / "cache")
    (entry,) = (tmp_path / "cache").rglob("*.npy")
    entry.write_bytes(trap.getvalue())
    entry.with_suffix(".sha256").write_text(lines.hashlib.sha256(trap.getvalue()).hexdigest())
    found = embed_cached(lambda texts: vectors, {}, ["a"], tmp_path / "cache")
    np.testing.assert_array_equal(found, vectors)
    assert not marker.exists()
