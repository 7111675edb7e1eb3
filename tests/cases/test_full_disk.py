"""Outputs on a disk that is full: one line that names them, and nothing half written stays."""

import numpy as np
import pytest
from small_disk import mounted

from bertflow_jax import SentenceEncoder, Whitening
from bertflow_jax.data.rows import open_rows
from bertflow_jax.embed_job import EmbedJob, run_job
from bertflow_jax.errors import WorkdirError, refusal
from bertflow_jax.postprocess.apply_files import ApplyOptions, run_apply
from bertflow_jax.postprocess.fit_files import FitOptions, run_fit_files


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """A file system of 40 KiB."""
    with mounted(tmp_path_factory.mktemp("small"), "40k") as folder:
        yield folder


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Vectors, a map and texts on a disk with room."""
    folder = tmp_path_factory.mktemp("given")
    u = np.random.default_rng(0).normal(size=(5000, 16)).astype(np.float32)
    np.save(folder / "v.npy", u)
    Whitening().fit(u).save(folder / "model")
    np.save(folder / "wide.npy", np.random.default_rng(0).normal(size=(200, 100)))
    (folder / "t.txt").write_text("".join(f"Sentence {n}\n" for n in range(200)))
    return folder


@pytest.mark.parametrize("name", ["o.npy", "o.parquet"])
def test_apply(disk, given, name):
    output = disk / name
    with pytest.raises(WorkdirError) as caught:
        run_apply(ApplyOptions(str(given / "model"), str(given / "v.npy"), str(output)))
    assert str(caught.value) == f"--output={output} cannot be written: No space left on device"
    assert not list(disk.iterdir())


def test_fit(disk, given):
    """Bug: the message named a folder of a chance name, which is gone, and spoke of serializing."""
    output = disk / "fitted"
    with pytest.raises(WorkdirError) as caught:
        run_fit_files(FitOptions("natsv", str(given / "wide.npy"), str(output)))
    assert str(caught.value) == (
        f"{output}/postprocess.safetensors cannot be written: No space left on device"
    )
    assert not list(output.iterdir())
    output.rmdir()


@pytest.mark.parametrize("name", ["o.npy", "o.parquet"])
def test_embed(disk, given, name):
    """Bug: a hidden folder, without a row to go on with, that filled the disk."""
    job = EmbedJob(open_rows(given / "t.txt"), disk / name)
    with pytest.raises(WorkdirError) as caught:
        run_job(SentenceEncoder.from_pretrained("mini_bert"), job)
    assert str(caught.value) == f"--output={disk / name} cannot be written: No space left on device"
    assert not list(disk.iterdir())


def test_the_reason_of_a_library():
    """As tensorstore and pyarrow say it, and what they say otherwise."""
    long = 'RESOURCE_EXHAUSTED: Error writing "a" [OS error 28: No space left on device]\n[x=1]'
    assert refusal(ValueError(long)) == "No space left on device"
    assert refusal(OSError(13, "Permission denied", "x")) == "Permission denied"
    assert refusal(ValueError("one\ntwo")) == "one"
    assert refusal(ValueError()) == "ValueError"
