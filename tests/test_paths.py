"""Paths as users write them."""

import os
from pathlib import Path

import jax
import pytest

from bertflow_jax.compilation import use_compilation_cache
from bertflow_jax.doctor.places import find_places
from bertflow_jax.errors import ConfigError
from bertflow_jax.paths import default_cache_dir, file_kind, user_path
from bertflow_jax.workdir import prepare_workdir


def test_home_folder(monkeypatch):
    """Catches a folder named "~"."""
    monkeypatch.setenv("HOME", "/home/me")
    assert user_path("~/x", "--output") == Path("/home/me/x")
    assert user_path(Path("a/~"), "--output") == Path("a/~")
    # As the message about an unknown home folder has it.
    assert user_path("./~", "--output") == Path.cwd() / "~"
    assert user_path(user_path("./~nosuchuser/x", "x"), "x") == Path.cwd() / "~nosuchuser" / "x"


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


@pytest.mark.parametrize("home", ["", "somewhere", "./x", "/nonexistent/x", "/etc/passwd"])
@pytest.mark.parametrize("cache", [None, "", "relative", "./x"])
def test_no_cache_where_no_home_is(home, cache, monkeypatch):
    """/.cache, a cache in the current folder, or a home made by the superuser."""
    monkeypatch.setenv("HOME", home)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if cache is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", cache)
    named = f"HOME={home}" if not home.startswith("/") else f"{home} is no folder"
    with pytest.raises(ConfigError, match=rf"is not known \({named}\); set XDG_CACHE_HOME"):
        default_cache_dir()
    if not home.startswith("/"):
        with pytest.raises(ConfigError, match="--output=~/x: the home folder that ~ stands for is"):
            user_path("~/x", "--output")


def test_a_relative_cache_is_ignored(tmp_path, monkeypatch):
    """The specification of XDG_CACHE_HOME: a relative path is invalid, and ignored."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for given in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", given)
        assert default_cache_dir() == tmp_path / ".cache" / "bertflow_jax"
    monkeypatch.setenv("HOME", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/not/there/yet")
    assert default_cache_dir() == Path("/var/cache/not/there/yet/bertflow_jax")


def test_the_doctor_tells_of_a_home_that_is_not_known(homeless, monkeypatch):
    """RuntimeError of pathlib in the doctor, who is asked because of it."""
    monkeypatch.delenv("TFDS_DATA_DIR", raising=False)
    monkeypatch.delenv("BERTFLOW_COMPILATION_CACHE", raising=False)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    found = {finding.name: finding for finding in find_places()}
    for name in ("embeddings", "compiled programs", "TFDS data"):
        assert found[name].value == "unknown"
        assert "home folder" in found[name].problem


def test_what_lies_under_a_path(tmp_path):
    """`Path.is_file` raises for a name that is too long, and a pipe is no missing file."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("x")
    kinds = [file_kind(tmp_path / name) for name in ("file", ".", "pipe", "none", "file/x")]
    assert kinds == ["file", "folder", "other", "absent", "absent"]
    assert file_kind(tmp_path / ("x" * 300)) == "file name too long"
