"""A cache of the Hub that was cut, cleaned or edited by hand; nothing is asked of a network."""

import hashlib
import os
import shutil
import warnings

import numpy as np
import pytest

from bertflow_jax import SentenceEncoder, Whitening
from bertflow_jax.errors import (
    BertFlowError,
    BertFlowWarning,
    DataError,
    DataNotFoundError,
    InputError,
)
from bertflow_jax.hub_access import fetch

ONE, TWO = "1" * 40, "2" * 40
TEXTS = ["the dog", "a b c"]


def git_digest(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def add_snapshot(repo, commit, source):
    """Put the files of a folder into a cache as huggingface_hub does."""
    snapshot = repo / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (repo / "blobs").mkdir(exist_ok=True)
    for file in source.iterdir():
        content = file.read_bytes()
        large = file.name.endswith(".safetensors")
        digest = hashlib.sha256(content).hexdigest() if large else git_digest(content)
        (repo / "blobs" / digest).write_bytes(content)
        (snapshot / file.name).symlink_to(f"../../blobs/{digest}")


@pytest.fixture
def cache(bert_folder, tmp_path):
    """A cache with two revisions of org/good; `refs` and `vectors` say which is which."""
    repo = tmp_path / "cache" / "models--org--good"
    (repo / "refs").mkdir(parents=True)
    for commit, ref, seed in ((ONE, "main", 0), (TWO, "v2", 1)):
        add_snapshot(repo, commit, bert_folder(f"bert{seed}", seed))
        (repo / "refs" / ref).write_text(commit)
    return repo


def load(cache, **arguments):
    return SentenceEncoder.from_pretrained(
        "org/good", cache_dir=cache.parent, local_files_only=True, **arguments
    )


def refused(cache, kind=DataNotFoundError, **arguments):
    """Return the text of the error, which must be of one line."""
    with pytest.raises(BertFlowError) as raised:
        load(cache, **arguments)
    assert type(raised.value) is kind, repr(raised.value)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("revision", "seed"), [(None, 0), ("main", 0), ("v2", 1), (ONE, 0), (TWO, 1)]
)
def test_a_revision_has_its_own_vectors(cache, tmp_path, revision, seed):
    """The main branch's weights under the name of another revision, whose files lie beside them."""
    expected = SentenceEncoder.from_pretrained(tmp_path / f"bert{seed}").encode(TEXTS)
    found = load(cache, revision=revision).encode(TEXTS)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("file", ["config.json", "vocab.txt", "tokenizer_config.json"])
@pytest.mark.parametrize("change", ["cut", "empty", "edited"])
def test_a_blob_that_is_not_what_was_downloaded(cache, file, change):
    """Half a vocabulary, whose words are then all [UNK]: other vectors, and no error."""
    blob = (cache / "snapshots" / ONE / file).resolve()
    content = blob.read_bytes()
    half = len(content) // 2
    blob.write_bytes({"cut": content[:half], "empty": b"", "edited": content + b"\n"}[change])
    said = refused(cache, DataError)
    assert f"'org/good': {cache}/snapshots/{ONE}/{file} is damaged" in said
    assert f"delete {blob} and load it once with the Hub in reach" in said
    if change == "edited":  # the other revision has this file too
        assert refused(cache, DataError, revision="v2").count(TWO) == 1


def test_a_byte_of_the_weights_that_was_changed(cache):
    blob = (cache / "snapshots" / ONE / "model.safetensors").resolve()
    content = bytearray(blob.read_bytes())
    content[-1] ^= 1
    blob.write_bytes(content)
    assert "model.safetensors is damaged: its content" in refused(cache, DataError)
    load(cache, revision="v2")


def test_large_weights_that_are_cut(cache, monkeypatch):
    """ "Download it again", upon which huggingface_hub takes the same file from its cache."""
    monkeypatch.setattr("bertflow_jax.hub_cache._READ_AGAIN", 2000)  # as if these were hundreds MB
    blob = (cache / "snapshots" / ONE / "model.safetensors").resolve()
    os.truncate(blob, blob.stat().st_size // 2)
    with pytest.raises(BertFlowError, match=f"is truncated .*; delete {blob} and download it"):
        load(cache)


@pytest.mark.parametrize("digest", ["md5", "sha1", None])
def test_a_mirror_names_blobs_otherwise(cache, digest, tmp_path):
    """A sound file refused, because another server than huggingface.co gave it its name."""
    link = cache / "snapshots" / ONE / "vocab.txt"
    content = link.read_bytes()
    name = "a-tag-of-its-own" if digest is None else hashlib.new(digest, content).hexdigest()
    (cache / "blobs" / name).write_bytes(content)
    link.unlink()
    link.symlink_to(f"../../blobs/{name}")
    expected = SentenceEncoder.from_pretrained(tmp_path / "bert0").encode(TEXTS)
    np.testing.assert_array_equal(load(cache).encode(TEXTS), expected)


def test_files_that_nobody_reads_may_be_anything(cache):
    (cache / "snapshots" / ONE / "README.md").symlink_to(f"../../blobs/{'0' * 40}")
    (cache / "blobs" / ("0" * 40)).write_text("another")
    load(cache)


@pytest.mark.parametrize("file", ["config.json", "vocab.txt", "model.safetensors"])
@pytest.mark.parametrize("kind", ["missing", "circle", "folder"])
def test_links_that_lead_nowhere(cache, file, kind):
    link = cache / "snapshots" / ONE / file
    blob = link.resolve()
    blob.unlink()
    if kind == "circle":
        blob.symlink_to(link)
    elif kind == "folder":
        blob.mkdir()
    with pytest.raises(BertFlowError) as raised:
        load(cache)
    said = {"missing": "which is not there", "circle": "symbolic links", "folder": "directory"}
    assert str(link.parent) in str(raised.value)
    assert said[kind] in str(raised.value)


def test_a_snapshot_that_lacks_files(cache):
    snapshot = cache / "snapshots" / ONE
    (snapshot / "model.safetensors").unlink()
    assert f"{snapshot} has no weights" in refused(cache)
    (snapshot / "config.json").unlink()
    assert f"{snapshot / 'config.json'} is missing" in refused(cache)
    shutil.rmtree(snapshot)
    said = refused(cache)
    assert f"it is not complete in the cache {cache.parent} (refs/main names the" in said
    assert f"commit '{ONE}')" in said


@pytest.mark.parametrize("known", ["", "trees", ".no_exist"])
def test_a_cache_that_another_program_filled(cache, known):
    """Bug: transformers fetches no modules.json, and the mean of a cls model was taken."""
    if known == "trees":
        (cache / "trees").mkdir()
        (cache / "trees" / f"{ONE}.json").write_text("{}")
    elif known:
        (cache / known / ONE).mkdir(parents=True)
        (cache / known / ONE / "modules.json").touch()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        load(cache)
    found = [str(w.message) for w in told if issubclass(w.category, BertFlowWarning)]
    assert len(found) == (not known), found
    assert known or "modules.json is not among the downloaded files" in found[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error", BertFlowWarning)
        load(cache, pooling="cls")  # then nothing depends on it


@pytest.mark.parametrize("way", ["relative", "home", "linked"])
def test_ways_to_a_cache(cache, tmp_path, monkeypatch, way):
    """Bug: huggingface_hub follows links and answers an absolute path; refs/main was blamed."""
    expected = load(cache).encode(TEXTS)
    (tmp_path / "away").symlink_to("cache")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = {"relative": "cache", "home": "~/cache", "linked": tmp_path / "away"}[way]
    found = SentenceEncoder.from_pretrained("org/good", cache_dir=folder, local_files_only=True)
    np.testing.assert_array_equal(found.encode(TEXTS), expected)


@pytest.mark.parametrize("content", ["", ".", "..", "../..", "{other}", "../snapshots/{two}"])
def test_a_reference_never_leads_to_another_folder(cache, bert_folder, content):
    """An encoder that lies elsewhere on the disk, loaded under the name of the Hub's."""
    other = bert_folder("elsewhere", 2)
    path = cache / "refs" / "main"
    path.write_text(content.format(other=other, two=TWO))
    assert f"{path} names no commit; delete it" in refused(cache)
    load(cache, revision=ONE)


@pytest.mark.parametrize("kind", ["bytes", "folder", "circle"])
def test_a_reference_that_cannot_be_read(cache, kind):
    """UnicodeDecodeError; "refs/main cannot be written", where nothing is."""
    path = cache / "refs" / "main"
    path.unlink()
    if kind == "bytes":
        path.write_bytes(b"\xff\xfe")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("main")
    assert f"{path} names no commit; delete it" in refused(cache)


@pytest.mark.parametrize("content", ["3" * 40, "garbage", f"{ONE}\n", "a\0b"])
def test_a_reference_to_what_is_not_there(cache, content):
    (cache / "refs" / "main").write_text(content)
    assert f"(refs/main names the commit {content!r})" in refused(cache)


@pytest.mark.parametrize(
    "revision", ["../refs/main", "..", ".", "/etc/passwd", "a//b", "a/", "a\\b", "a\0b", "\ud800"]
)
def test_revisions_that_are_no_name(cache, revision):
    """`revision="../refs/v2"` loads v2: a path into the cache, and on the way out of it."""
    assert f"revision={revision!r}: must be a branch" in refused(
        cache, InputError, revision=revision
    )
    with pytest.raises(InputError, match="must be a branch, a tag or a commit"):
        Whitening.from_pretrained("org/good", revision=revision, cache_dir=cache.parent)


def test_a_post_processor_of_a_damaged_cache(cache, tmp_path):
    """The sibling: a repository that holds one by itself."""
    rows = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    white = Whitening().fit(rows)
    white.save(tmp_path / "white")
    repo = cache.parent / "models--org--white"
    add_snapshot(repo, ONE, tmp_path / "white")
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(ONE)
    access = {"cache_dir": cache.parent, "local_files_only": True}
    found = Whitening.from_pretrained("org/white", **access).transform(rows)
    np.testing.assert_array_equal(found, white.transform(rows))
    blob = (repo / "snapshots" / ONE / "postprocess.json").resolve()
    blob.write_bytes(blob.read_bytes() + b" ")
    with pytest.raises(DataError, match=r"postprocess\.json is damaged"):
        Whitening.from_pretrained("org/white", **access)
    (repo / "refs" / "main").write_text("../../models--org--good/snapshots/" + ONE)
    with pytest.raises(DataNotFoundError, match="names no commit"):
        Whitening.from_pretrained("org/white", **access)


def test_with_the_hub_in_reach_the_advice_mends_it(hub, bert_folder, tmp_path):
    """A cut file that a new download leaves as it is, and advice that does not help."""
    source = bert_folder()
    files = {file.name: file.read_bytes() for file in source.iterdir()}
    hub.add("org/good", files)
    expected = SentenceEncoder.from_pretrained(source).encode(TEXTS)
    link = fetch("org/good", list(files)) / "vocab.txt"
    repo = link.parents[2]
    blob = link.resolve()
    blob.write_bytes(files["vocab.txt"][:20])
    with pytest.raises(DataError, match=r"vocab\.txt is damaged"):
        SentenceEncoder.from_pretrained("org/good")
    blob.unlink()
    np.testing.assert_array_equal(
        SentenceEncoder.from_pretrained("org/good").encode(TEXTS), expected
    )
    (repo / "refs" / "main").write_bytes(b"\xff\xfe")
    with pytest.raises(DataNotFoundError, match="refs/main names no commit; delete it"):
        SentenceEncoder.from_pretrained("org/good")
    (repo / "refs" / "main").unlink()
    np.testing.assert_array_equal(
        SentenceEncoder.from_pretrained("org/good").encode(TEXTS), expected
    )
