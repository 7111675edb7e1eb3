"""Warnings: one category, and a line of a command's log like any other message of it."""

import ast
import json
import re
import shutil
import warnings
from pathlib import Path

import pytest
from documents.fast_bash import ROOT, fast_bash

from bertflow_jax import cli
from bertflow_jax.data.rows import open_rows
from bertflow_jax.errors import BertFlowWarning

PACKAGE = ROOT / "bertflow_jax"
LINE = r"^W\d{4} \S+ +\d+ \w+\.py:\d+\] "  # how absl shows a warning that was logged


@pytest.fixture
def bare_encoder(tmp_path) -> Path:
    """mini_bert with its vocabulary alone: nothing says whether to lower-case."""
    folder = tmp_path / "bare"
    shutil.copytree(PACKAGE / "models" / "mini_bert", folder)
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    return folder


def test_a_command_shows_warnings_as_its_other_messages(tmp_path, bare_encoder):
    """Bug: path and source line of the package, and "UserWarning", stood before the text."""
    (tmp_path / "mac.txt").write_bytes(b"a\rb\rc\r")
    flags = f"--encoder={bare_encoder} --input=mac.txt --output=vectors.npy"
    with fast_bash() as run:
        done = run(f"python -m bertflow_jax.embed {flags}", tmp_path)
    assert done.returncode == 0, done.stdout
    said = done.stdout
    told = [rf"{bare_encoder} does not say whether to lower-case", r"mac\.txt: no line ends with"]
    for text in told:
        assert len(re.findall(LINE + text, said, re.MULTILINE)) == 1, said
    assert "UserWarning" not in said
    assert "warnings.warn" not in said
    assert str(PACKAGE) not in said


def test_the_warnings_of_others_stay_what_they_are(recwarn, caplog):
    """What NumPy or JAX say must not look like ours, nor be lost, nor stay diverted."""
    before = warnings.showwarning

    def main() -> None:
        warnings.warn("of others", RuntimeWarning, stacklevel=1)
        warnings.warn("of ours", BertFlowWarning, stacklevel=1)

    assert cli._call(main) == 0
    assert [str(warning.message) for warning in recwarn] == ["of others"]
    assert caplog.messages == ["of ours"]
    assert warnings.showwarning is before


def test_in_python_one_category_has_them_all(tmp_path):
    """A user who silences ours must not silence those of others."""
    (tmp_path / "mac.txt").write_bytes(b"a\rb\rc\r")
    with pytest.warns(BertFlowWarning, match="the line ends of old Macs"):
        open_rows(tmp_path / "mac.txt").survey()
    assert issubclass(BertFlowWarning, UserWarning)


def test_every_warning_of_the_package_has_the_category():
    """A warning without it would come out raw again."""
    found = 0
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn":
                found += 1
                where = json.dumps([str(path.relative_to(ROOT)), node.lineno])
                assert ast.unparse(node.args[1]) == "BertFlowWarning", where
    assert found >= 10
