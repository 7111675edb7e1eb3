"""Ctrl-C: exit code 130 whatever catches it, and no row lost in an embedding job."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bertflow_jax.interrupt import Interrupt, heeded

ROOT = Path(__file__).resolve().parents[1]
# A process that was started in the background inherits SIGINT as ignored.
HEAD = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from bertflow_jax import cli
from bertflow_jax.interrupt import end_at_once
class Swallows:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
"""


@pytest.mark.parametrize(
    "program",
    [
        # As in JAX's callback of the garbage collector: "Exception ignored in", and it went on.
        "def main():\n  s = Swallows()\n  del s\n  time.sleep(20)\n  print('went on')\ncli.run(main)",
        # An interrupted import of a C extension.
        "def main():\n  try:\n    signal.raise_signal(signal.SIGINT)\n"
        "  except KeyboardInterrupt:\n    raise ImportError('numpy')\ncli.run(main)",
        # Before the command runs.
        "end_at_once()\nsignal.raise_signal(signal.SIGINT)\nprint('went on')",
    ],
)
def test_ctrl_c_ends_a_command_with_130(program):
    done = subprocess.run(
        [sys.executable, "-c", HEAD + program],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_a_command_that_is_not_interrupted_leaves_the_handlers_alone():
    """Catches a handler of ours in the process of a notebook or of the tests."""
    before = signal.getsignal(signal.SIGINT), sys.unraisablehook
    with heeded(), Interrupt() as interrupt:
        interrupt.check()
    assert (signal.getsignal(signal.SIGINT), sys.unraisablehook) == before


def test_the_second_ctrl_c_is_raised_at_once(capfd):
    with Interrupt("one more\n") as interrupt:
        signal.raise_signal(signal.SIGINT)
        assert capfd.readouterr().err == "one more\n"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()


def test_the_command_stops_at_a_window_and_goes_on(tmp_path):
    """The whole of it, as a user meets it: the signal while rows are computed."""
    path = tmp_path / "in.txt"
    path.write_text("a man plays a guitar\n" * 40_000)
    command = [
        sys.executable, "-c",
        "import signal, runpy, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "runpy.run_module('bertflow_jax.embed', run_name='__main__', alter_sys=True)",
        "--encoder=mini_bert", f"--input={path}", f"--output={tmp_path / 'out.npy'}",
    ]  # fmt: skip
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    record = tmp_path / ".out.npy.partial" / "done.json"
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None and not (
            record.exists() and json.loads(record.read_text())["done"] >= 4096
        ):
            try:
                process.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "stopping after this window" in errors
    assert json.loads(record.read_text())["done"] < 40_000
    assert not list(tmp_path.glob("*.lock"))
