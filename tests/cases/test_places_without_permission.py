"""What permissions hide, and paths that checkpoints cannot be written to. Each test names the bug."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from bertflow_jax import SentenceEncoder, cli
from bertflow_jax.checkpoint import CheckpointStore, Records
from bertflow_jax.config import DataConfig
from bertflow_jax.data.text import load_text
from bertflow_jax.errors import ConfigError, WorkdirError
from bertflow_jax.paths import default_cache_dir
from bertflow_jax.postprocess import Center, load
from bertflow_jax.workdir import clear_workdir, prepare_workdir

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def place():
    """A folder that is not below one of root's alone, as pytest's are."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        yield Path(folder)
        for path, folders, _ in os.walk(folder):
            for name in folders:
                os.chmod(Path(path, name), 0o777)


@pytest.fixture
def unprivileged():
    """Return a function that gives up root's rights for the rest of the test."""
    was_root = os.geteuid() == 0
    yield lambda: os.seteuid(65534) if was_root else None
    if was_root:
        os.seteuid(0)


@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_what_may_not_be_looked_at_is_not_absent(mode, place, unprivileged):
    """Bug: "no such file", "holds no saved post-processor", or a PermissionError of pathlib."""
    Center().fit(np.eye(2)).save(place / "hidden" / "model")
    (place / "hidden" / "t.txt").write_text("a\nb\n")
    os.chmod(place / "hidden", mode)
    unprivileged()
    for name in ("hidden", "hidden/model"):
        with pytest.raises(ConfigError, match=rf"{name} cannot be read: Permission denied"):
            load(place / name)
        with pytest.raises(ConfigError, match=rf"{name} cannot be read: Permission denied"):
            SentenceEncoder.from_pretrained(place / name)
    with pytest.raises(ConfigError, match=r"t\.txt cannot be read: Permission denied"):
        load_text(DataConfig(path=str(place / "hidden" / "t.txt")))


def test_a_command_names_what_it_may_not_read(place, unprivileged, capsys):
    """Bug: a traceback where no reader looks at the path first."""
    (place / "hidden").mkdir(mode=0o000)
    unprivileged()
    assert cli._call(lambda: os.listdir(place / "hidden")) == 2
    assert capsys.readouterr().err == f"error: {place}/hidden: Permission denied\n"


def test_overwrite_deletes_all_or_nothing(place, unprivileged):
    """Bug: metrics.jsonl and one of two steps were gone when the other could not be deleted."""
    for step in ("3", "6"):
        (place / "run" / "checkpoints" / step / "state").mkdir(parents=True)
    (place / "run" / "metrics.jsonl").write_text("{}\n")
    os.chmod(place / "run" / "checkpoints" / "6", 0o555)
    if os.geteuid() == 0:
        for path in (place / "run").rglob("*"):
            os.chown(path, 65534, 65534)
        os.chown(place / "run", 65534, 65534)
    before = sorted((place / "run").rglob("*"))
    unprivileged()
    with pytest.raises(WorkdirError, match=r"nothing was deleted: \S+/checkpoints/6 is read-only"):
        clear_workdir(place / "run")
    assert sorted((place / "run").rglob("*")) == before
    os.chmod(place / "run" / "checkpoints" / "6", 0o755)
    clear_workdir(place / "run")
    assert os.listdir(place / "run") == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bs\\c", "a backslash"),
        ("[2024] mine/run", "a pair of brackets"),
        ("a[/b]", "a pair of brackets"),
        (os.fsdecode(b"b\xffd"), "a byte that is not UTF-8"),
    ],
)
def test_paths_that_checkpoints_cannot_be_written_to(name, said, tmp_path, monkeypatch):
    """Bug: steps in another folder, a run that ended at its first save, a traceback of orbax."""
    with pytest.raises(WorkdirError, match=rf"--workdir: the path .* has {said} in it"):
        prepare_workdir(tmp_path / name, resume=False, overwrite=False)
    assert os.listdir(tmp_path) == []
    (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / name)
    with pytest.raises(WorkdirError, match=said):
        prepare_workdir("run", resume=False, overwrite=False)
    store = CheckpointStore(Path("run").absolute())
    with pytest.raises(WorkdirError, match=said):
        store.save({"flow": {"a": jnp.ones(2)}}, Records({"step": 1}, {}, {}, {}))
    assert sorted(Path().rglob("*")) in ([], [Path("run")])


@pytest.mark.parametrize("name", ["a[b", "a]b[", "{a}", "*", "?", "%2F", "#"])
def test_other_names_are_as_good_as_any(name, tmp_path):
    """Catches a check that refuses what works, and a run in such a folder that cannot be read."""
    folder = prepare_workdir(tmp_path / name, resume=False, overwrite=False)
    with CheckpointStore(folder) as store:
        store.save({"flow": {"a": jnp.arange(3.0)}}, Records({"step": 1}, {}, {}, {}))
    # A run that is moved into a folder with brackets is read as everywhere.
    shutil.move(folder, tmp_path / "[w]")
    like = {"flow": {"a": jnp.zeros(3)}}
    arrays, _ = CheckpointStore(tmp_path / "[w]").restore(1, lambda records: like)
    np.testing.assert_array_equal(arrays["flow"]["a"], [0, 1, 2])


@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME"])
@pytest.mark.parametrize("value", ["", "relative", "./x"])
def test_a_cache_is_where_somebody_has_named(variable, value, tmp_path, monkeypatch):
    """Bug: /.cache for an empty HOME, a cache in every current folder for a relative one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv(variable, value)
    if variable == "HOME":
        with pytest.raises(ConfigError, match="by its absolute path"):
            default_cache_dir()
    else:
        assert default_cache_dir() == tmp_path / ".cache" / "bertflow_jax"
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with pytest.raises(ConfigError, match="by its absolute path"):
        default_cache_dir()


@pytest.mark.parametrize("program", ["train.py", "evaluate.py", "-m bertflow_jax.doctor"])
def test_a_current_folder_that_was_deleted(program, tmp_path):
    """Bug: FileNotFoundError of os.getcwd, and a doctor who said that all was well."""
    words = [str(ROOT / word) if word.endswith(".py") else word for word in program.split()]
    script = f"mkdir gone; cd gone; rmdir ../gone; exec {sys.executable} {' '.join(words)}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.endswith(
        "error: the current folder was deleted; change to one that is there\n"
    )
    assert "Traceback" not in done.stderr
