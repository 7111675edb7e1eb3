"""Every command: its version, its place in the lists, and the flags that docs/commands.md names."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bertflow_jax.__main__ import COMMANDS
from bertflow_jax.version import __version__

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "commands.md"
# Runs a command and says whether JAX was loaded when it ended.
WATCH = """
import runpy, sys
words, sys.argv = sys.argv[1].split(), [sys.argv[1].split()[-1], *sys.argv[2:]]
try:
    if words[0] == "-m":
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(words[0], run_name="__main__")
finally:
    print("jax" in sys.modules)
"""


def run(program: list[str]):
    return subprocess.run(
        [sys.executable, *program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def help_of(command: str) -> str:
    parts = ["fit", "apply"] if command.endswith("postprocess") else [""]
    return "\n".join(run([*f"{command} {part}".split(), "--help"]).stdout for part in parts)


@pytest.mark.parametrize("command", [*COMMANDS, "-m bertflow_jax"])
def test_version_before_jax_loads(command):
    """Seconds of loading, or an error about a missing flag, for who asks for the version."""
    done = run(["-c", WATCH, command, "--version"])
    assert done.returncode == 0, done.stderr
    line, loaded = done.stdout.splitlines()
    assert line.startswith(f"bertflow_jax {__version__} (jax ")
    assert loaded == "False"


def test_the_list_has_every_command():
    """A command that nobody finds."""
    files = [*ROOT.glob("*.py"), *ROOT.glob("bertflow_jax/**/*.py")]
    runs = {f for f in files if re.search(r"^ +cli\.run\(", f.read_text("utf-8"), re.MULTILINE)}
    runs.remove(ROOT / "bertflow_jax" / "__main__.py")
    names = set()
    for file in runs:
        parts = file.relative_to(ROOT).with_suffix("").parts
        module = ".".join(part for part in parts if part != "__main__")
        names.add(f"{module}.py" if len(parts) == 1 else f"-m {module}")
    assert set(COMMANDS) == names
    shown = run(["-m", "bertflow_jax"])
    assert shown.returncode == 0
    assert all(f"python {command} " in shown.stdout for command in COMMANDS)


def test_a_command_given_as_an_argument():
    """A bare usage error where one character decides."""
    done = run(["-m", "bertflow_jax", "embd", "--input=x"])
    assert done.returncode == 2
    assert "did you mean python -m bertflow_jax.embed?" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_names_flags_that_are_there(command):
    """A flag of an example that was renamed, or a command that the page leaves out."""
    page = PAGE.read_text("utf-8").replace("\\\n", " ")
    section = next(s for s in page.split("\n## ") if s.startswith(f"`python {command}`"))
    assert re.search(rf"^python {re.escape(command)}.* --", section, re.MULTILINE) or (
        command.endswith("doctor")
    )
    known = set(re.findall(r"^  --(?:\[no\])?([\w.]+)", help_of(command), re.MULTILINE))
    named = set(re.findall(r"--(\w+)", section)) - {"config", "help"}
    assert named <= {*known, *(name.split(".")[0] for name in known)}, named - known


def test_the_page_has_every_exit_code():
    """A code that a scheduler sees and the page does not explain."""
    table = PAGE.read_text("utf-8").partition("## Exit codes")[2]
    codes = re.findall(r"^\| (\d+) \|", table, re.MULTILINE)
    assert codes == ["0", "1", "2", "75", "130", "143"]
