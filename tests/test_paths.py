"""Paths as users write them."""

from pathlib import Path

import pytest

from bertflow_jax.errors import ConfigError
from bertflow_jax.paths import user_path


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
