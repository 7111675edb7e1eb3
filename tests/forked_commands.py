"""Many command lines of one command, each as its own process, for the price of one start.

The commands are forked from a process that has imported the command's flags and no JAX: importing
them is most of what a refused flag costs.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run_commands(
    module: str, command_lines: Sequence[Sequence[str]], cwd: Path
) -> list[tuple[int, str]]:
    """Return (exit code, stdout and stderr) of each.

    Args:
      module: has the function `main` of a command, which `cli.run` takes.
      command_lines: arguments, without the program.
      cwd: folder in which they run.
    """
    done = subprocess.run(
        [sys.executable, __file__, module],
        input=json.dumps(command_lines),
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [(code, text) for code, text in json.loads(done.stdout)]


def _serve(module: str) -> None:
    command = importlib.import_module(module)
    from bertflow_jax import cli

    assert "jax" not in sys.modules  # a fork of its threads would hang
    results = []
    for arguments in json.load(sys.stdin):
        with tempfile.TemporaryFile() as file:
            child = os.fork()
            if child == 0:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
                sys.argv = [f"{module}.py", *arguments]
                cli.run(command.main)
            _, status = os.waitpid(child, 0)
            file.seek(0)
            results.append((os.waitstatus_to_exitcode(status), file.read().decode("utf-8")))
    print(json.dumps(results))


if __name__ == "__main__":
    _serve(sys.argv[1])
