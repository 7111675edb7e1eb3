"""Files and folders that may not be read: one message that names them. Each test names the bug."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from unprivileged import as_a_user

from bertflow_jax import Flow, SentenceEncoder, Whitening, cli
from bertflow_jax.checkpoint import CheckpointStore
from bertflow_jax.config import Config, DataConfig
from bertflow_jax.convert.run import ConvertOptions, run_convert
from bertflow_jax.data.embedding_cache import embed_cached
from bertflow_jax.data.rows import open_rows
from bertflow_jax.data.sts import load_task
from bertflow_jax.data.text import load_text
from bertflow_jax.data.tfds_builders.prepare import prepare
from bertflow_jax.encoder.hub import resolve_folder
from bertflow_jax.encoder_spec import EncoderSpec
from bertflow_jax.errors import BertFlowError, ConfigError, WorkdirError
from bertflow_jax.evaluation.fitted_rows import load_fit_texts
from bertflow_jax.evaluation.options import EvalOptions, expanded
from bertflow_jax.paths import user_path
from bertflow_jax.postprocess.fit_files import FitOptions, run_fit_files
from bertflow_jax.postprocess.kinds import load
from bertflow_jax.reproduce.options import Options
from bertflow_jax.restore import load_run
from bertflow_jax.training.run import absolute_paths

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def place(monkeypatch):
    """A folder of the user who is to be refused; it is the current one."""
    resolve_folder("mini_bert")  # what Python loads for it may lie where that user cannot read
    with as_a_user(), tempfile.TemporaryDirectory() as folder:
        monkeypatch.chdir(folder)
        yield Path(folder)
        monkeypatch.undo()
        for path, _, _ in os.walk(folder):
            for inside in Path(path).iterdir():
                if not inside.is_symlink():
                    inside.chmod(0o755)


# What reads -> (how it is called with a path, what its message begins with).
READERS = {
    "encoder": (resolve_folder, "encoder"),
    "pre-trained": (SentenceEncoder.from_pretrained, "encoder"),
    "a command's encoder": (lambda path: EncoderSpec(encoder=path).absolute(), "encoder"),
    "a command's flow": (
        lambda path: EncoderSpec(encoder="mini_bert", flow=path).load(),
        "flow",
    ),
    "a post-processor": (load, "folder"),
    "a whitening": (Whitening.load, "folder"),
    "a flow": (Flow.load, "folder"),
    "text": (lambda path: load_text(DataConfig(path=path)), "data.path"),
    "the text of a run": (
        lambda path: absolute_paths(Config(data=DataConfig(path=path))),
        "data.path",
    ),
    "the text of rows": (lambda path: load_fit_texts(path, (), ["stsb"], None), "--fit"),
    "rows": (open_rows, "--input"),
    "vectors": (lambda path: run_fit_files(FitOptions("center", path, "out")), "--input"),
    "tasks": (lambda path: load_task("stsb", path), "--data_dir"),
    "prepared tasks": (lambda path: load_task("stsb", f"tfds:{path}"), "--data_dir"),
    "an archive": (lambda path: prepare(["stsb"], "out", path), "--manual_dir"),
    "a run": (load_run, "--workdir"),
    "an evaluation": (lambda path: expanded(EvalOptions(workdir=path)), "--workdir"),
    "a port": (lambda path: run_convert(ConvertOptions(flow=path, output="out")), "--flow"),
    "a release": (
        lambda path: run_convert(ConvertOptions(checkpoint=path, output="out")),
        "--checkpoint",
    ),
    "a table": (
        lambda path: Options(table=2, data_dir=path, output="out").checked(),
        "--data_dir",
    ),
}


@pytest.mark.parametrize("mode", [0o000, 0o444, 0o111])
@pytest.mark.parametrize("reader", READERS)
def test_a_folder_that_may_not_be_read(reader, mode, place):
    """PermissionError of pathlib, or "holds no ..." of a folder that could not be looked into."""
    act, name = READERS[reader]
    (place / "shut").mkdir()
    (place / "shut" / "in.txt").write_text("a\nb\n")
    (place / "shut").chmod(mode)
    said = rf"^{name}=./shut cannot be read: Permission denied; mend its permissions"
    with pytest.raises(ConfigError, match=said):
        act("./shut")
    if mode == 0o111:
        return
    said = rf"^{name}=./shut/x cannot be read: Permission denied \(in {place}/shut\); mend"
    with pytest.raises(ConfigError, match=said):
        act("./shut/x")


def row_of(given):
    """Return the pieces of the message in a row of docs/errors.md."""
    lines = (ROOT / "docs" / "errors.md").read_text("utf-8").splitlines()
    (row,) = [line for line in lines if f"| {given} |" in line]
    return [piece.strip() for piece in row.split("`")[1].split("…")]


def test_the_row_of_the_page(place, capsys):
    """A message that has changed."""
    (place / "shut").mkdir(0o000)
    assert cli._call(lambda: print(open_rows("shut/in.txt"))) == 2
    said = row_of("an input that may not be read")
    assert capsys.readouterr().err == f"error: {said[0]} {place}{said[1]}\n"


@pytest.mark.parametrize("reader", ["text", "rows", "vectors"])
def test_a_file_that_may_not_be_read(reader, place):
    """PermissionError, and for some formats "not a readable .npy file"."""
    act, name = READERS[reader]
    for file in ("x.txt", "x.npy"):
        np.save(place / "x.npy", np.ones((2, 3), np.float32))
        (place / "x.txt").write_text("a\nb\n")
        (place / file).chmod(0)
        with pytest.raises(ConfigError, match=rf"^{name}={file} cannot be read: Permission den"):
            act(file)
        (place / file).chmod(0o644)


def test_what_can_be_read_is_not_refused(place, monkeypatch):
    """Absent paths, files below files and pipes are for others to tell; a name is no path."""
    (place / "file").touch()
    os.mkfifo(place / "pipe", 0o000)
    (place / "shut").mkdir(0o000)
    for given in ("none", "none/x", "file", "file/x", "pipe", "x" * 300, ".", "/dev/null"):
        assert user_path(given, "--input") == Path(given)
    assert user_path("shut/x", "--output", reading=False) == Path("shut/x")
    # The current folder may be another user's, as after sudo.
    (place / "home").mkdir()
    monkeypatch.chdir(place / "home")
    (place / "home").chmod(0o000)
    assert resolve_folder("mini_bert").name == "mini_bert"
    assert EncoderSpec(encoder="org/model").absolute().encoder == "org/model"
    monkeypatch.chdir(place)


@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_the_checkpoints_of_a_run(mode, place):
    """PermissionError of --resume and of evaluate.py."""
    (place / "run" / "checkpoints" / "4").mkdir(parents=True)
    (place / "run" / "checkpoints").chmod(mode)
    for act in (CheckpointStore("run").steps, lambda: load_run("run")):
        with pytest.raises(WorkdirError, match=r"/run/checkpoints cannot be read: Permission den"):
            act()


def test_a_folder_among_the_tasks(place):
    """ "holds no data of stsb"."""
    for folder in ("STSBenchmark", "STS/STSBenchmark"):
        (place / "data" / folder).mkdir(parents=True)
        (place / "data" / folder.partition("/")[0]).chmod(0)
        with pytest.raises(BertFlowError, match=rf"{folder} cannot be read: Permission denied"):
            load_task("stsb", "data")
        (place / "data" / folder.partition("/")[0]).chmod(0o755)
        shutil.rmtree(place / "data")


def test_a_cache_that_may_not_be_searched(place):
    """PermissionError of the look for an entry, before --cache_dir was named."""
    (place / "cache").mkdir(0o000)
    with pytest.raises(WorkdirError, match=r"^cache_dir=.*cache/x/embeddings is not writable"):
        embed_cached(lambda texts: 1 / 0, {}, ["a"], place / "cache" / "x")


def test_what_nothing_of_ours_looks_at(place, capsys):
    """The traceback of a PermissionError, as of a bug of ours; of one without a file it stays."""
    (place / "shut").mkdir(0o000)
    assert cli._call(lambda: (place / "shut" / "x").write_text("x")) == 2
    assert capsys.readouterr().err == (f"error: {place}/shut/x cannot be used: Permission denied\n")

    def of_a_process():
        raise PermissionError(1, "Operation not permitted")

    with pytest.raises(PermissionError):
        cli._call(of_a_process)


@pytest.mark.parametrize("file", ["shut.py", "shut/x.py"])
def test_a_config_that_may_not_be_read(file, tmp_path):
    """ "no such file", and a traceback in the middle of the message."""
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("needs setpriv, for the superuser may read everything")
    (tmp_path / "shut").mkdir(0o000)
    (tmp_path / "shut.py").touch(0o000)
    drop = "-dac_override,-dac_read_search"
    user = ["setpriv", f"--bounding-set={drop}", "--inh-caps=-all"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*user, sys.executable, str(ROOT / "train.py"), f"--config={file}", "--workdir=run"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    (tmp_path / "shut").chmod(0o755)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: --config={file} cannot be read: Permission denied")
    assert len(done.stderr.splitlines()) == 1
