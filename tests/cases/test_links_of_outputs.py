"""Outputs that are links: one rule for all commands. Each test names the bug."""

import os
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax import Whitening
from bertflow_jax.data.rows import open_rows
from bertflow_jax.embed_job import EmbedJob
from bertflow_jax.errors import WorkdirError
from bertflow_jax.evaluation.options import EvalOptions, check_options
from bertflow_jax.integrations.ray_inputs import open_place
from bertflow_jax.integrations.ray_manifest import check_output
from bertflow_jax.postprocess.apply_files import ApplyOptions, run_apply
from bertflow_jax.postprocess.fit_files import FitOptions, run_fit_files
from bertflow_jax.remote.output import Output
from bertflow_jax.staging import files_together


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with vectors, texts, a model, and a file that links lead to."""
    monkeypatch.chdir(tmp_path)
    u = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    np.save("v.npy", u)
    Whitening().fit(u).save("white")
    Path("in.txt").write_text("a\nb\n")
    Path("real").mkdir()
    Path("real", "old").write_text("old")
    Path("out").mkdir()
    return tmp_path


def apply(output):
    run_apply(ApplyOptions("white", "v.npy", str(output)))


def embed(output):
    EmbedJob(open_rows("in.txt"), output).check()


def fit(output):
    run_fit_files(FitOptions("whitening", "v.npy", str(output)))


def figure(output):
    check_options(EvalOptions(encoder="mini_bert", figure=str(output)))


def ray_job(output):
    check_output(open_place(str(output), "--output"))


WRITERS = {
    "ray": (lambda path: ray_job(path.parent), "out/in.parquet"),
    "apply .npy": (apply, "link.npy"),
    "apply .parquet": (apply, "link.parquet"),
    "embed .npy": (embed, "link.npy"),
    "embed .parquet": (embed, "link.parquet"),
    "embed, index.json": (lambda path: embed(path.parent), "out/index.json"),
    "embed, a part": (lambda path: embed(path.parent), "out/part-00000-of-00001.npy"),
    "embed, a sidecar": (lambda path: embed(path.parent), "out/part-00000-of-00001.json"),
    "fit, settings": (lambda path: fit(path.parent), "out/postprocess.json"),
    "fit, arrays": (lambda path: fit(path.parent), "out/postprocess.safetensors"),
    "evaluate, results": (lambda path: Output(str(path.parent)), "out/results.json"),
    "evaluate, report": (lambda path: Output(str(path.parent)), "out/report.html"),
    "evaluate, table": (lambda path: Output(str(path.parent)), "out/table.tex"),
    "figure": (figure, "out/effect.svg"),
}


@pytest.mark.parametrize("target", ["old", "none", "circle"])
@pytest.mark.parametrize("writer", WRITERS)
def test_an_output_file_that_is_a_link(here, writer, target):
    """Bug: replaced by a file, and what it led to, where the user looks, kept the old numbers."""
    write, name = WRITERS[writer]
    if name.endswith("parquet"):  # pyarrow writes it
        pytest.importorskip("pyarrow")
    link = Path(name)
    link.symlink_to(here / (link if target == "circle" else Path("real", target)))
    said = {"none": ", which is not there", "circle": ", in a circle"}.get(target, "")
    words = rf"{link.name} is a link to \S+{said}; name what it leads to, or delete the link"
    with pytest.raises(WorkdirError, match=words):
        write(link)
    assert link.is_symlink()
    assert os.listdir("real") == ["old"]
    assert Path("real", "old").read_text() == "old"


def test_files_that_move_together_replace_no_link():
    """Bug: save_pretrained and convert, as above; some files had moved already."""
    Path("out", "b.json").symlink_to("../real/old")

    def write():
        with files_together(Path("out")) as new:
            for name in ("a.json", "b.json"):
                (new / name).write_text("new")

    with pytest.raises(WorkdirError, match=r"b\.json is a link"):
        write()
    assert os.listdir("out") == ["b.json"]
    assert Path("real", "old").read_text() == "old"


@pytest.mark.parametrize("write", [fit, embed, lambda path: Output(str(path))])
def test_an_output_folder_may_be_a_link(write):
    """Bug: a folder on another disk is refused with the files."""
    Path("elsewhere").symlink_to("real")
    write(Path("elsewhere"))
    assert Path("elsewhere").is_symlink()
