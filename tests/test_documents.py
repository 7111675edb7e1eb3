"""The documents hold no unfilled figure and name no file that is not there."""

import re
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax import SentenceEncoder
from bertflow_jax.data.rows import open_rows
from bertflow_jax.embed_job import EmbedJob, run_job
from bertflow_jax.evaluation.tasks import evaluate_task

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
    names = ("embed_flags.py", "model_flags.py", "distributed_flags.py")
    source = "".join((ROOT / "bertflow_jax" / name).read_text("utf-8") for name in names)
    known = set(re.findall(r'DEFINE_\w+\(\s*"(\w+)"', source))
    text = path.read_text("utf-8").replace("\\\n", " ")
    for command in re.findall(r"-m bertflow_jax\.embed ([^`\n]*)", text):
        assert set(re.findall(r"--(\w+)", command)) <= known, command


def test_the_example_that_loads_parts_gives_the_rows_in_order(tmp_path, monkeypatch):
    """An index whose fields have other names than the example says."""
    text = (ROOT / "docs" / "tpu.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    texts = ["A man sleeps.", "It rains.", "Two dogs run."]
    (tmp_path / "in.txt").write_text("\n".join(texts) + "\n")
    encoder = SentenceEncoder.from_pretrained("mini_bert")
    rows = open_rows(tmp_path / "in.txt")
    run_job(encoder, EmbedJob(rows, tmp_path / "vectors", shard_rows=2))
    monkeypatch.chdir(tmp_path)
    space = {}
    exec(example, space)
    np.testing.assert_allclose(space["vectors"], encoder.encode(texts), atol=1e-5)


def test_the_example_of_ones_own_method_runs(capsys):
    """An example that uses a name that is not there, or prints another score than it says."""
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "evaluation.md").read_text("utf-8"), re.DOTALL
    )
    (example,) = [block for block in blocks if "load_task" in block]
    space = {}
    exec(example, space)
    scored = evaluate_task(space["tasks"][0], space["embed"])["wmean"]["spearman"]
    assert space["scores"]["words"]["everyday"]["wmean"]["spearman"] == scored
    printed = float(capsys.readouterr().out)
    assert printed == pytest.approx(scored)
    assert np.isfinite(printed)
    said = re.search(r"print\(.*# ([\d.]+)", example)
    assert printed == pytest.approx(float(said[1]), abs=0.05)
