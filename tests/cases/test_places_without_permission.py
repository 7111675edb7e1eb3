"""What permissions hide, and folders that nobody has named. Each test names the bug."""

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
from bertflow_jax.errors import ConfigError
from bertflow_jax.paths import default_cache_dir
from bertflow_jax.postprocess import Center, load
from bertflow_jax.workdir import prepare_workdir

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
