"""Places where outputs may not go, and what others put there meanwhile. Each test names the bug."""

import functools
import os
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax import Compose, SentenceEncoder
from bertflow_jax.convert.run import ConvertOptions, run_convert
from bertflow_jax.data.embedding_cache import embed_cached
from bertflow_jax.data.rows import open_rows
from bertflow_jax.data.tfds_builders.prepare import prepare
from bertflow_jax.embed_job import EmbedJob
from bertflow_jax.embed_partial import PartialPart
from bertflow_jax.embed_parts import Part
from bertflow_jax.errors import WorkdirError
from bertflow_jax.export.places import place_of
from bertflow_jax.output_places import output_folder
from bertflow_jax.postprocess.fit_files import FitOptions, run_fit_files
from bertflow_jax.postprocess.standardize import Center
from bertflow_jax.postprocess.vector_files import open_vectors
from bertflow_jax.postprocess.vector_output import check_output
from bertflow_jax.remote.output import Output
from bertflow_jax.staging import whole_folder
from bertflow_jax.workdir import prepare_workdir


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("v.npy", np.ones((2, 3), np.float32))
    Path("in.txt").write_text("a\nb\n")
    Path("run/checkpoints/10/state").mkdir(parents=True)
    Path("link").symlink_to("run/checkpoints")
    return tmp_path


def embed(output):
    EmbedJob(open_rows("in.txt"), output).check()


@functools.cache
def the_encoder():
    return SentenceEncoder.from_pretrained("mini_bert")


WRITERS = {
    "evaluate": Output,
    "embed, parts": embed,
    "embed, file": lambda place: embed(f"{place}/z.npy"),
    "apply": lambda place: check_output(Path(place, "z.npy"), open_vectors(Path("v.npy"))),
    "export": lambda place: place_of(f"{place}/new"),
    "train": lambda place: prepare_workdir(place, resume=False, overwrite=True),
    "train, a cache": lambda place: embed_cached(lambda texts: 1 / 0, {}, ["a"], place),
    "tfds": lambda place: prepare(["stsb"], place),
    "a post-processor": lambda place: Center().fit(np.eye(2)).save(place),
    "several": lambda place: Compose([Center()]).fit(np.eye(2)).save(place),
    "an encoder": lambda place: the_encoder().save_pretrained(place),
}


@pytest.mark.parametrize("place", ["run/checkpoints", "run/checkpoints/10", "link/10/state/new"])
@pytest.mark.parametrize("writer", WRITERS)
def test_no_output_among_checkpoints(writer, place):
    """Bug: results.json in the folder of a step, or where the next --resume looks for steps."""
    before = sorted(Path("run").rglob("*"))
    with pytest.raises(WorkdirError, match=r"lies in \S+/run/checkpoints, among the checkpoints"):
        WRITERS[writer](place)
    assert sorted(Path("run").rglob("*")) == before


@pytest.mark.parametrize("writer", ["a post-processor", "several", "an encoder", "fit", "convert"])
def test_no_model_among_the_files_of_a_run(writer):
    """Bug: a model saved in a workdir, which the next --overwrite deleted."""
    writers = {
        **WRITERS,
        "fit": lambda place: run_fit_files(FitOptions("center", "v.npy", place)),
        "convert": lambda place: run_convert(ConvertOptions(flow="v.npy", output=place)),
    }
    before = sorted(Path("run").rglob("*"))
    with pytest.raises(WorkdirError, match=r"=run is the folder of a run, whose next start with"):
        writers[writer]("run")
    assert sorted(Path("run").rglob("*")) == before


def test_other_folders_of_that_name():
    """Bug: a folder of downloaded models is refused for its name, or WORKDIR/eval is."""
    for name in ("models/checkpoints", "run/eval"):
        assert output_folder(name) == Path(name).absolute()


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(("target", "said"), [("one", ", in a circle"), ("none", ", which is not")])
def test_an_output_folder_that_leads_nowhere(writer, target, said):
    """Bug: "not writable (File exists)"."""
    Path("one").symlink_to(target if target == "none" else "two")
    Path("two").symlink_to("one")
    with pytest.raises(WorkdirError, match=rf"/one is a link to \w+{said}.*delete the link"):
        WRITERS[writer]("one")


def part():
    return Part(0, 2, Path("z.npy").absolute(), {"rows": 2}, 3)


FOREIGN = {
    "a file of the user's": lambda folder: (folder / "notes.txt").write_text("mine"),
    "a folder of the user's": lambda folder: (folder / "sub" / "deep").mkdir(parents=True),
    "a folder under a name of ours": lambda folder: (folder / "vectors.npy" / "x").mkdir(
        parents=True
    ),
    "a link under a name of ours": lambda folder: (folder / "vectors.npy").symlink_to("../in.txt"),
}


@pytest.mark.parametrize("what", [*FOREIGN, "a file", "a link"])
def test_a_partial_folder_with_files_of_others(what):
    """Bug: deleted with all that is in it, after "is of another job or unreadable"."""
    folder = Path(".z.npy.partial")
    if what == "a file":
        folder.write_text("mine")
    elif what == "a link":
        Path("elsewhere").mkdir()
        folder.symlink_to("elsewhere")
    else:
        folder.mkdir()
        FOREIGN[what](folder)
    before = sorted(Path.cwd().rglob("*"))
    words = r"\.z\.npy\.partial.* is not of an embed command; move it away, or name another output"
    for start in (lambda: embed("z.npy"), lambda: PartialPart(part())):
        with pytest.raises(WorkdirError, match=words):
            start()
    assert sorted(Path.cwd().rglob("*")) == before
    assert Path("in.txt").read_text() == "a\nb\n"


def test_what_a_killed_job_left_is_no_file_of_others():
    """Bug: a job that was killed at its start, or in its clean-up, can never be started again."""
    folder = Path(".z.npy.partial")
    for names in ([], ["vectors.npy"], ["vectors.npy", "vectors.parquet", ".done.json.ab12_xyz"]):
        folder.mkdir()
        for name in names:
            (folder / name).write_text("x")
        embed("z.npy")
        assert PartialPart(part()).done == 0
        assert sorted(os.listdir(folder)) == ["done.json", "vectors.npy"]
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def test_two_exports_at_once():
    """Bug: "[Errno 39] Directory not empty: '.../.ex.unfinished-x' -> '.../ex'"."""
    target = Path("ex").absolute()

    def write():
        with whole_folder(target) as new:
            (new / "a").write_text("second")
            target.mkdir()
            (target / "a").write_text("first")

    with pytest.raises(WorkdirError) as caught:
        write()
    assert str(caught.value) == (
        f"{target} was written by another command meanwhile and stays as it is; name another folder"
    )
    assert (target / "a").read_text() == "first"
    assert not list(Path.cwd().glob(".ex*"))
