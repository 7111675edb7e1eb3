"""Ctrl-C and SIGTERM: exit codes 130 and 143 whatever catches them; no row lost while embedding."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bertflow_jax.interrupt import Interrupt, heeded, held

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


def run(program):
    return subprocess.run(
        [sys.executable, "-c", HEAD + program],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


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
    done = run(program)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


TERM = "signal.raise_signal(signal.SIGTERM)"


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        # A scheduler's second one came while the first was tidied up after.
        (
            f"try:\n    {TERM}\n  finally:\n    {TERM}\n    print('tidied', flush=True)",
            -15,
            "tidied\n",
        ),
        # As the first of the programs above.
        ("s = Swallows()\n  del s\n  time.sleep(20)\n  print('went on')", -15, ""),
        # An interrupted import.
        (f"try:\n    {TERM}\n  except KeyboardInterrupt:\n    raise ImportError('x')", -15, ""),
        # In a call that lets no Python run: nobody could end a wait for other processes.
        (
            "import ctypes, os, sys, threading\n  interrupt._PATIENCE = 0.1\n"
            "  sys.setswitchinterval(1000)  # the other one runs once this one is in the call\n"
            "  go = threading.Event()\n"
            "  def other():\n    go.wait()\n    os.kill(os.getpid(), signal.SIGTERM)\n"
            "  threading.Thread(target=other, daemon=True).start()\n"
            "  mutex, lock = ctypes.create_string_buffer(64), ctypes.CDLL(None).pthread_mutex_lock\n"
            "  lock(mutex)\n  go.set()\n  lock(mutex)",
            143,
            "",
        ),
    ],
)
def test_sigterm_ends_a_command_that_has_nothing_to_save(program, code, said):
    """143 for a shell, after what tidies up and without a word, and no command that goes on."""
    swallows = "Swallows.__del__ = lambda self: signal.raise_signal(signal.SIGTERM)\n"
    head = f"from bertflow_jax import interrupt\n{swallows}def main():\n  "
    done = run(f"{head}{program}\ncli.run(main)")
    assert (done.returncode, done.stdout, done.stderr) == (code, said, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_belongs_together_is_not_cut_in_two(number):
    """A first file in its new place and the second in none."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    steps = []

    def both():
        with held():
            signal.raise_signal(number)
            steps.append("second")
        steps.append("not reached")

    with heeded(), pytest.raises(KeyboardInterrupt):
        both()
    assert steps == ["second"]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


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
