"""Paths below which checkpoints are written elsewhere, or not at all. Each test names the bug."""

import os
import shutil
import tempfile

import pytest

from bertflow_jax.checkpoint import CheckpointStore
from bertflow_jax.errors import WorkdirError
from bertflow_jax.reproduce.options import Options
from bertflow_jax.reproduce.run import reproduce
from bertflow_jax.workdir import prepare_workdir

NOT_UTF8 = os.fsdecode(b"x\xff")
BAD = {
    "a\\b": "holds a backslash",
    "run[1]": r"holds \[ and, later, \]",
    "a[/b]c": r"holds \[ and, later, \]",
    NOT_UTF8: "is not valid UTF-8",
    "logs:": "has a folder whose name ends in gs:",
}
GOOD = ["run[1", "a]b[", "a%5Bb", "a*b?", "a\nb", "{x}", "gs:x", "é"]


@pytest.mark.parametrize("name", BAD)
def test_a_path_that_cannot_be_saved_below(name, tmp_path, monkeypatch, saved):
    """The text was embedded, and the first save failed, or went into another folder."""
    wanted = rf"{BAD[name]}, and below such a path no checkpoint can be saved"
    for given in (tmp_path / name, str(tmp_path / name / "run")):
        with pytest.raises(WorkdirError, match=f"^--workdir=.*{wanted}"):
            prepare_workdir(given, resume=False, overwrite=False)
    monkeypatch.chdir(tmp_path / name)
    for resume in (False, True):
        with pytest.raises(WorkdirError, match=f"^--workdir=run: .*{wanted}"):
            prepare_workdir("run", resume=resume, overwrite=False)
    with (
        pytest.raises(WorkdirError, match=f"^checkpoints in .*{wanted}"),
        CheckpointStore("run") as store,
    ):
        saved(store, 1)
    assert not os.path.lexists(tmp_path / "a")


@pytest.mark.parametrize("name", GOOD)
def test_a_path_that_looks_odd_and_is_not(name, tmp_path, saved, read, made):
    """A path that is refused without need."""
    folder = prepare_workdir(tmp_path / name, resume=False, overwrite=False)
    with CheckpointStore(folder) as store:
        saved(store, 1)
    step, arrays = read(CheckpointStore(folder))
    assert step == 1
    assert arrays["flow"]["params"]["a3"][7] == made(1)["flow"]["params"]["a3"][7]


@pytest.mark.parametrize("name", BAD)
def test_a_good_run_that_was_moved_there(name, tmp_path, saved, read):
    """ "damaged or incomplete" of a run that is whole; below brackets it can be read."""
    with CheckpointStore(tmp_path / "good") as store:
        saved(store, 3)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    shutil.copytree(tmp_path / "good", tmp_path / name)
    moved = CheckpointStore(tmp_path / name)
    if "[" in name:
        assert read(moved)[0] == 3
        return
    with pytest.raises(WorkdirError, match=rf"^checkpoints in .*{BAD[name]}.* can be read; rename"):
        read(moved)


def test_the_runs_of_a_table(tmp_path):
    """The raw scores were computed before the first run was refused."""
    with pytest.raises(WorkdirError, match=r"^--output=.*/t\[1\]: the path .* can be saved"):
        reproduce(Options(table=2, data_dir=str(tmp_path), output=str(tmp_path / "t[1]")))


def test_temporary_files_of_a_run_in_a_bucket(tmp_path, monkeypatch):
    """A run in a bucket saves in TMPDIR first."""
    pytest.importorskip("google.cloud.storage", reason="needs the extra gcs")
    from bertflow_jax.remote.address import remote_address
    from bertflow_jax.remote.workdir import ReadWorkdir

    (tmp_path / "t[1]").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "t[1]"))
    address = remote_address("gs://bucket/run", "--workdir")
    with pytest.raises(WorkdirError, match=r"\(TMPDIR\): the path .*/t\[1\] holds \[ and"):
        ReadWorkdir(address)
    assert list((tmp_path / "t[1]").iterdir()) == []
