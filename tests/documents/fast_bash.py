"""bash with a `python` that has loaded the packages of others already; see command_server.py."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from documents.command_server import SHIM

ROOT = Path(__file__).resolve().parents[2]
Bash = Callable[[str, Path], subprocess.CompletedProcess[str]]


@contextlib.contextmanager
def fast_bash() -> Iterator[Bash]:
    """Yield run(script, folder); stderr is in its stdout, as a user sees them."""
    with tempfile.TemporaryDirectory(prefix="bertflow-") as folder:
        address = str(Path(folder, "python.socket"))
        shims = Path(folder, "bin")
        shims.mkdir()
        (shims / "python").write_text(SHIM.format(python=sys.executable, address=address))
        (shims / "python").chmod(0o755)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        environment["PATH"] = f"{shims}:{os.environ['PATH']}"
        program = [sys.executable, str(Path(__file__).with_name("command_server.py")), address]
        server = subprocess.Popen(program, env=environment)
        while not Path(address).exists():
            assert server.poll() is None, "the server of commands ended"
            time.sleep(0.02)

        def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", script],
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                text=True,
                errors="replace",
            )

        yield run
        server.terminate()
        server.wait()
