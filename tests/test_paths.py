"""Paths as users write them."""

import os
from pathlib import Path

import jax
import pytest

from bertflow_jax.compilation import use_compilation_cache
from bertflow_jax.errors import ConfigError
from bertflow_jax.paths import default_cache_dir, file_kind, user_path
from bertflow_jax.workdir import prepare_workdir


def test_home_folder(monkeypatch):
    """Catches a folder named "~"."""
    monkeypatch.setenv("HOME", "/home/me")
    assert user_path("~/x", "--output") == Path("/home/me/x")
    assert user_path(Path("a/~"), "--output") == Path("a/~")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("~nosuchuser/x", "--output=~nosuchuser/x: the home folder"),
        ("a\0b", "zero byte"),
        (None, "--output=None: a path is needed, not NoneType"),
        (b"x", "not bytes"),
    ],
)
def test_what_is_no_path(path, message):
    """Catches RuntimeError, TypeError and ValueError of pathlib."""
    with pytest.raises(ConfigError, match=message):
        user_path(path, "--output")


@pytest.fixture
def homeless(monkeypatch):
    """A container whose user has a number and nothing else."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])


def test_a_user_without_a_home_folder(homeless, caplog, tmp_path, no_compilation_cache):
    """RuntimeError from pathlib before the first text was embedded, and with --overwrite."""
    with pytest.raises(ConfigError, match="set XDG_CACHE_HOME"):
        default_cache_dir()
    use_compilation_cache()
    assert jax.config.jax_compilation_cache_dir is None
    assert "compiled programs are not kept" in caplog.text
    (tmp_path / "metrics.jsonl").write_text("x")
    (tmp_path / "notes").touch()
    assert prepare_workdir(tmp_path, resume=False, overwrite=True) == tmp_path


def test_what_lies_under_a_path(tmp_path):
    """`Path.is_file` raises for a name that is too long, and a pipe is no missing file."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("x")
    kinds = [file_kind(tmp_path / name) for name in ("file", ".", "pipe", "none", "file/x")]
    assert kinds == ["file", "folder", "other", "absent", "absent"]
    assert file_kind(tmp_path / ("x" * 300)) == "file name too long"
