"""Complete parts whose bytes are not those that were made, as an interrupted copy leaves them."""

import hashlib
import json
import os

import numpy as np
import pytest

from bertflow_jax import embed_parts
from bertflow_jax.data.rows import open_rows
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.embed_job import EmbedJob, run_job
from bertflow_jax.errors import DataError
from bertflow_jax.postprocess.vector_files import open_vectors

NAMES = [f"part-{i:05d}-of-00003" for i in range(3)]


@pytest.fixture
def encoder(bert_folder):
    return SentenceEncoder.from_pretrained(bert_folder())


@pytest.fixture
def job(tmp_path):
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in "abcdefghijkl"))
    return EmbedJob(open_rows(tmp_path / "in.txt"), tmp_path / "parts", shard_rows=4)


def zeros(folder):
    path = folder / f"{NAMES[1]}.npy"
    np.save(path, np.zeros_like(np.load(path)))


def exchanged(folder):
    first, second = folder / f"{NAMES[0]}.npy", folder / f"{NAMES[1]}.npy"
    os.rename(first, folder / "between")
    os.rename(second, first)
    os.rename(folder / "between", second)


def one_number(folder):
    path = folder / f"{NAMES[1]}.npy"
    vectors = np.load(path)
    vectors[3, 5] += 1
    np.save(path, vectors)


@pytest.mark.parametrize("damage", [zeros, exchanged, one_number])
@pytest.mark.parametrize("index", [True, False])
def test_a_complete_part_with_other_numbers_is_made_again(encoder, job, damage, index, caplog):
    """Bug: taken by shape and size, "is complete already", and listed in index.json, rc 0."""
    run_job(encoder, job)
    damage(job.output)
    if not index:
        (job.output / "index.json").unlink()
    run_job(encoder, job)
    whole = np.concatenate([np.load(job.output / f"{name}.npy") for name in NAMES])
    np.testing.assert_allclose(whole, encoder.encode([*"abcdefghijkl"]), atol=1e-5)
    assert f"{NAMES[1]}.npy does not hold the vectors that were made" in caplog.text
    assert (job.output / "index.json").exists()


def test_the_digest_is_that_of_the_file(encoder, job):
    """Bug: another digest than `sha256sum` gives, so that a copy cannot be checked without us."""
    run_job(encoder, job)
    listed = json.loads((job.output / "index.json").read_text())["parts"]
    assert [part["file"] for part in listed] == [f"{name}.npy" for name in NAMES]
    for part in listed:
        digest = hashlib.sha256((job.output / part["file"]).read_bytes()).hexdigest()
        sidecar = (job.output / part["file"]).with_suffix(".json")
        assert part["sha256"] == json.loads(sidecar.read_text())["sha256"] == digest


def test_parts_are_read_back_once_where_another_process_made_them(encoder, job, monkeypatch):
    """Bug: every start reads the whole folder twice, or the parts it has just written."""
    read, real = [], embed_parts.file_sha256

    def counted(path):
        read.append(path.stem)
        return real(path)

    monkeypatch.setattr(embed_parts, "file_sha256", counted)
    run_job(encoder, job)
    assert read == []
    (job.output / f"{NAMES[2]}.npy").unlink()
    run_job(encoder, job)
    assert read == NAMES[:2]


def test_a_part_without_a_digest_is_made_again(encoder, job, caplog):
    """Bug: parts of an older version are trusted, with a digest made of whatever lies there."""
    run_job(encoder, job)
    sidecar = job.output / f"{NAMES[0]}.json"
    state = json.loads(sidecar.read_text())
    del state["sha256"]
    sidecar.write_text(json.dumps(state))
    zeros(job.output)
    np.save(job.output / f"{NAMES[0]}.npy", np.zeros((4, encoder.dimension), np.float32))
    run_job(encoder, job)
    whole = np.concatenate([np.load(job.output / f"{name}.npy") for name in NAMES])
    np.testing.assert_allclose(whole, encoder.encode([*"abcdefghijkl"]), atol=1e-5)
    assert f"{NAMES[0]}.json has no sha256" in caplog.text


@pytest.mark.parametrize("damage", [zeros, exchanged, one_number])
def test_vectors_of_a_damaged_part_are_not_read_to_the_end(encoder, job, damage):
    """Bug: `postprocess apply` maps zeros, or rows in another order, with exit code 0."""
    run_job(encoder, job)
    good = np.concatenate([block.vectors for block in open_vectors(job.output).blocks()])
    np.testing.assert_allclose(good, encoder.encode([*"abcdefghijkl"]), atol=1e-5)
    damage(job.output)
    bad = NAMES[0] if damage is exchanged else NAMES[1]
    with pytest.raises(DataError, match=rf"{bad}\.npy does not hold the vectors .* copy it again"):
        list(open_vectors(job.output).blocks())


def test_an_index_without_digests_is_read_with_a_warning(encoder, job, caplog):
    """Bug: a folder of an older version is refused, or believed without a word."""
    run_job(encoder, job)
    path = job.output / "index.json"
    index = json.loads(path.read_text())
    for part in index["parts"]:
        del part["sha256"]
    path.write_text(json.dumps(index))
    assert len(list(open_vectors(job.output).blocks())) == 3
    assert "lists no sha256" in caplog.text
    index["parts"][0]["sha256"] = 7
    path.write_text(json.dumps(index))
    with pytest.raises(DataError, match="lists no parts"):
        open_vectors(job.output)
