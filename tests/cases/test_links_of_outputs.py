"""Outputs that are links: one rule for all commands. Each test names the bug."""

import os
from pathlib import Path

import numpy as np
import pytest
from sts_made import write_senteval

from bertflow_jax import Compose, Whitening
from bertflow_jax.data.rows import open_rows
from bertflow_jax.data.tfds_builders.prepare import prepare
from bertflow_jax.embed_job import EmbedJob
from bertflow_jax.errors import WorkdirError
from bertflow_jax.evaluation.options import EvalOptions, check_options
from bertflow_jax.evaluation.plot_data import RowPlot
from bertflow_jax.evaluation.plots import effect_figure
from bertflow_jax.integrations.ray_inputs import open_place
from bertflow_jax.integrations.ray_manifest import check_output
from bertflow_jax.postprocess.apply_files import ApplyOptions, run_apply
from bertflow_jax.postprocess.fit_files import FitOptions, run_fit_files
from bertflow_jax.postprocess.standardize import Center
from bertflow_jax.remote.output import Output
from bertflow_jax.reproduce.options import Options
from bertflow_jax.reproduce.run import reproduce
from bertflow_jax.staging import files_together
from bertflow_jax.text_output import write_text
from bertflow_jax.weight_output import write_safetensors
from bertflow_jax.workdir import prepare_workdir


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


def compose(output):
    Compose([Center(), Center()]).fit(np.eye(2)).save(output)


def workdir(output):
    prepare_workdir(output, resume=True, overwrite=False)


def table(output):
    reproduce(Options(6, data_dir=".", output=str(output)))


def tfds(output):
    prepare(["stsb"], output, write_senteval(Path("text")), check_sizes=False)


def draw(output):
    effect_figure(output, [RowPlot("raw", *[np.zeros(2)] * 4, 0.0)], "title")


WRITERS = {
    "text": (lambda path: write_text(path, "new"), "link.txt"),
    "weights": (lambda path: write_safetensors(path, {"a": np.eye(2)}), "link.safetensors"),
    "drawn": (draw, "link.png"),
    "several": (lambda path: compose(path.parent), "out/compose.json"),
    "several, a step": (lambda path: compose(path.parent), "out/1"),
    "several, a file of a step": (lambda path: compose(path.parents[1]), "out/1/postprocess.json"),
    "train, metrics": (lambda path: workdir(path.parent), "out/metrics.jsonl"),
    "train, new metrics": (lambda path: workdir(path.parent), "out/metrics.tmp"),
    "train, encoder": (lambda path: workdir(path.parent), "out/encoder"),
    "train, new encoder": (lambda path: workdir(path.parent), "out/encoder.new"),
    "reproduce": (lambda path: table(path.parent), "out/table6.json"),
    "reproduce, as text": (lambda path: table(path.parent), "out/table6.md"),
    "reproduce, a score": (lambda path: table(path.parents[1]), "out/table6/raw.stsb.json"),
    "tfds": (lambda path: tfds(path.parents[1]), "out/stsb/1.0.0"),
    "ray, pieces": (lambda path: ray_job(path.parent), "out/_pieces"),
    "ray, manifest": (lambda path: ray_job(path.parent), "out/._manifest.json"),
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
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(here / (link if target == "circle" else Path("real", target)))
    said = {"none": ", which is not there", "circle": ", in a circle"}.get(target, "")
    words = rf"{link.name} is a link to \S+{said}; name what it leads to, or delete the link"
    with pytest.raises(WorkdirError, match=words):
        write(link)
    assert link.is_symlink()
    assert os.listdir("real") == ["old"]
    assert Path("real", "old").read_text() == "old"


@pytest.mark.parametrize(
    "writer",
    ["several, a step", "train, encoder", "train, new encoder", "tfds", "ray, pieces"],
)
def test_a_folder_in_the_output_that_is_a_link(here, writer):
    """Bug: what it led to was replaced, as the steps of another model are."""
    write, name = WRITERS[writer]
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).symlink_to(here / "real")
    with pytest.raises(WorkdirError, match=rf"{Path(name).name} is a link to \S+; name what it"):
        write(Path(name))
    assert os.listdir("real") == ["old"]


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


def test_files_that_move_together_enter_no_link():
    """Bug: the files of a folder that is a link went to where it leads, as into another model."""
    Path("out", "1_Pooling").symlink_to("../real")

    def write():
        with files_together(Path("out")) as new:
            (new / "a.json").write_text("new")
            (new / "1_Pooling").mkdir()
            (new / "1_Pooling" / "old").write_text("new")

    with pytest.raises(WorkdirError, match="1_Pooling is a link"):
        write()
    assert os.listdir("out") == ["1_Pooling"]
    assert Path("real", "old").read_text() == "old"


def test_a_refused_save_has_deleted_nothing():
    """Bug: the old steps were gone when the link was found."""
    compose(Path("out"))
    Path("out", "compose.json").rename("real/c.json")
    Path("out", "compose.json").symlink_to("../real/c.json")
    before = sorted(Path("out").rglob("*"))
    with pytest.raises(WorkdirError, match=r"compose\.json is a link"):
        compose(Path("out"))
    assert sorted(Path("out").rglob("*")) == before


def test_old_numbers_are_not_written_through_a_link_of_an_earlier_run():
    """Bug: --overwrite, which deletes links, is refused for one."""
    for name in ("metrics.jsonl", "encoder"):
        Path("out", name).symlink_to("../real/old")
    assert prepare_workdir("out", resume=False, overwrite=True) == Path("out").absolute()


@pytest.mark.parametrize("write", [fit, embed, workdir, compose, lambda path: Output(str(path))])
def test_an_output_folder_may_be_a_link(write):
    """Bug: a folder on another disk is refused with the files."""
    Path("elsewhere").symlink_to("real")
    write(Path("elsewhere"))
    assert Path("elsewhere").is_symlink()
