"""Several processes: however one ends, the others end too, soon and with a message of ours.

Real processes that meet as the training loops do, without the seconds that training takes.
"""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bertflow_jax import distributed
from bertflow_jax.interrupt import Interrupt, Preempted
from bertflow_jax.training.processes import check_together

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
_DEVICES = "--xla_force_host_platform_device_count="
_JOIN = """
import sys, time
from bertflow_jax import cli
address, process = sys.argv[1], int(sys.argv[2])
del sys.argv[1:]  # absl knows no such arguments
def join(patience=60, **how):
    from bertflow_jax import distributed
    distributed._PATIENCE = patience
    distributed.initialize(address, 2, process, **how)
    return distributed
"""
_STEPS = """
def main():
    distributed = join()
    for step in range(10**6):
        distributed.any_process(False)
        print(step, flush=True)
        time.sleep(0.02)
        if step == 5 and process in {failing}:
            raise {error}
from bertflow_jax.errors import DataError
cli.run(main)
"""
_APART = """
def main():
    join(patience=2, apart=True)
    time.sleep(6 * process)
cli.run(main)
"""


@pytest.fixture
def pair():
    """Start two processes of a program; both are gone afterwards."""
    started = []

    def start(program, devices=(1, 1)):
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{found.getsockname()[1]}"
        started.extend(
            subprocess.Popen(
                [sys.executable, "-c", _JOIN + program, address, str(process)],
                env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"{_DEVICES}{count}"},
                cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for process, count in enumerate(devices)
        )  # fmt: skip
        return started

    yield start
    for process in started:
        process.kill()
        process.communicate()


def _ends(processes):
    errors = [process.communicate(timeout=200)[1] for process in processes]
    return [process.returncode for process in processes], errors


def test_a_killed_process_ends_the_other_with_a_message(pair):
    """A traceback, then a minute at JAX's barrier for one that was gone, then SIGABRT."""
    processes = pair(_STEPS.format(failing=(), error="None"))
    for _ in range(3):
        assert processes[1].stdout.readline()
    processes[1].kill()
    codes, errors = _ends(processes)
    assert codes == [2, -signal.SIGKILL], errors
    assert "error: another process of this run has ended" in errors[0]
    assert "Traceback" not in errors[0]
    assert "Fatal" not in errors[0]


def test_an_error_of_one_process_alone_ends_both(pair):
    """It waited for the other at the barrier, and the other for it in a step, for a minute."""
    codes, errors = _ends(pair(_STEPS.format(failing=(1,), error="RuntimeError('a bug')")))
    assert codes == [2, 1], errors
    assert "RuntimeError: a bug" in errors[1]
    assert "error: another process of this run has ended" in errors[0]


def test_an_error_that_all_have_met_is_told_by_all(pair):
    """The first one, which serves the others, went first, and JAX aborted them."""
    codes, errors = _ends(pair(_STEPS.format(failing=(0, 1), error="DataError('one text')")))
    assert codes == [2, 2], errors
    assert [text.splitlines()[-1] for text in errors] == ["error: one text"] * 2


def test_processes_that_share_nothing_may_end_far_apart(pair):
    """Of an embedding job the last process was aborted a minute after the first had done its part."""
    codes, errors = _ends(pair(_APART))
    assert codes == [0, 0], errors


def test_a_signal_while_the_processes_agree_is_not_lost(monkeypatch):
    """The answer of the others overwrote it: Ctrl-C and SIGTERM did nothing, now and then."""
    rounds = []

    def any_process(*flags):
        rounds.append(flags)
        if len(rounds) == 1:
            signal.raise_signal(signal.SIGTERM)
        return list(flags)

    monkeypatch.setattr(distributed, "several", lambda: True)
    monkeypatch.setattr(distributed, "any_process", any_process)
    with Interrupt(alone=False) as interrupt:
        check_together(interrupt)  # nobody had asked when the round began: all make this step
        with pytest.raises(Preempted):
            check_together(interrupt)
    assert rounds == [(False, False), (True, True)]


def test_processes_with_unequal_devices_are_told(pair):
    """A traceback out of JAX in each: cannot reshape array of size 3 into shape (2,2)."""
    codes, errors = _ends(pair(_STEPS.format(failing=(), error="None"), devices=(2, 1)))
    assert codes == [2, 2], errors
    assert all("have 2 in process 0, 1 in process 1" in text for text in errors)
