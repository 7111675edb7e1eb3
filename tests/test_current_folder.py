"""Commands in a folder that was deleted meanwhile, as the output of another command is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bertflow_jax.__main__ import COMMANDS
from bertflow_jax.doctor.places import find_places

ROOT = Path(__file__).resolve().parents[1]
ROW = next(
    line
    for line in (ROOT / "docs" / "errors.md").read_text("utf-8").splitlines()
    if "| a current folder that was deleted |" in line
)
SAID = ROW.split("`")[1]


def run_lost(words, folder):
    """Return (exit code, stdout, stderr) of python WORDS in a folder that is gone."""
    folder.mkdir()
    script = 'cd "$0" && rmdir "$0" && exec "$@"'
    done = subprocess.run(
        ["bash", "-c", script, str(folder), sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"-m bertflow_jax.doctor"}))
def test_a_command_without_a_current_folder(command, tmp_path):
    """FileNotFoundError of os.getcwd(), or "no such file" of one that is there."""
    name = command.removeprefix("-m ").split()[0]
    words = [str(ROOT / name)] if name.endswith(".py") else ["-m", name]
    words += ["fit"] if name.endswith("postprocess") else []
    code, out, err = run_lost([*words, "--workdir=x", "--input=x"], tmp_path / "gone")
    assert (code, out, err) == (2, "", f"error: {SAID}\n")


def test_help_without_a_current_folder(tmp_path):
    """A question that needs no folder, refused."""
    for flag, said in (("--help", "--input"), ("--version", "bertflow_jax 0")):
        code, out, err = run_lost(["-m", "bertflow_jax.embed", flag], tmp_path / "gone")
        assert (code, err) == (0, "")
        assert said in out


def test_the_doctor_finds_that_it_is_gone(tmp_path, monkeypatch):
    """All is well, said the doctor where no command could start."""
    assert "current folder" not in {finding.name for finding in find_places()}
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert [finding.problem for finding in find_places() if finding.value == "gone"] == [SAID]
    code, out, err = run_lost(["-m", "bertflow_jax.doctor"], tmp_path / "lost")
    assert code == 2
    assert "! current folder           gone" in out
    assert SAID in err
    assert "Traceback" not in err
