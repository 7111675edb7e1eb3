"""What permissions hide, and folders that nobody has named. Each test names the bug."""

import os
import shutil
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
