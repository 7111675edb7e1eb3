"""The documents hold no unfilled figure and name no file that is not there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_no_placeholder_is_left(path):
    """A figure that was to be measured and never was."""
    assert re.findall(r"@[A-Z0-9]+@|TODO|TBD", path.read_text("utf-8")) == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_linked_files_are_there(path):
    """A link to a document that was renamed or never written."""
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text("utf-8")):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_flags_of_embed_are_there(path):
    """A flag that was renamed, or never was."""
    source = (ROOT / "bertflow_jax" / "embed_flags.py").read_text("utf-8")
    known = set(re.findall(r'DEFINE_\w+\(\s*"(\w+)"', source))
    text = path.read_text("utf-8").replace("\\\n", " ")
    for command in re.findall(r"-m bertflow_jax\.embed ([^`\n]*)", text):
        assert set(re.findall(r"--(\w+)", command)) <= known, command
