"""SIGTERM: the state is saved at the next step boundary; exit code 75, or 143 with nothing to save."""

import dataclasses
import signal
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from reference_flows import max_difference

from bertflow_jax.config import CheckpointConfig, Config, FlowConfig, SupervisionConfig, TrainConfig
from bertflow_jax.interrupt import Interrupt, Preempted
from bertflow_jax.training import loop, supervised_loop
from bertflow_jax.training.fit import initial_state, prepare_data
from bertflow_jax.training.order import ExampleOrder
from bertflow_jax.training.steps import StepMetrics
from bertflow_jax.training.supervised_steps import SupervisedMetrics, SupervisedState

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import signal, sys, time
from bertflow_jax import cli
from bertflow_jax.interrupt import Interrupt
def main():
    with Interrupt("saving\\n") as interrupt:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        print("saved", flush=True)
        try:
            interrupt.check()
        finally:
            print("closed", flush=True)
    print("went on")
def out_of_it():
    try:
        main()
    finally:
        signal.raise_signal(signal.SIGTERM)
        print("told", flush=True)
cli.run({call})
"""


def _config(steps, **fields):
    return Config(
        flow=FlowConfig(levels=1, depth=1, width=4),
        train=TrainConfig(steps=steps, batch_size=4, log_every=1, eval_every=10),
        checkpoint=CheckpointConfig(every=100),
        **fields,
    )


def _data():
    rows = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    return prepare_data(rows, np.arange(40)[:, None], held_out=0.25, seed=0)


def test_a_flow_fit_is_saved_and_goes_on_with_the_same_bits():
    data, saved, finished = _data(), [], []

    class Scheduler:
        def write(self, step, values):
            if step == 10:
                signal.raise_signal(signal.SIGTERM)
                signal.raise_signal(signal.SIGTERM)  # schedulers send it again

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Preempted):
        loop.run_fit(
            _config(40),
            data,
            initial_state(_config(40), data),
            sink=Scheduler(),
            save=lambda state, held_out: saved.append((state, held_out)),
            finish=lambda: finished.append(len(saved)),
        )
    assert signal.getsignal(signal.SIGTERM) is before
    assert [int(state.step) for state, _ in saved] == [10]
    assert finished == [1]  # complete before the process may end
    assert saved[0][1] == pytest.approx(loop.held_out_bits(_config(40), data)(saved[0][0]))
    resumed = loop.run_fit(_config(40), data, saved[0][0]).state
    straight = loop.run_fit(_config(40), data, initial_state(_config(40), data)).state
    assert max_difference(resumed, straight) == 0.0


def test_a_supervised_run_is_saved():
    saved, finished = [], []
    one = np.float32(1)

    def step(state, batch):
        if batch == 6:
            signal.raise_signal(signal.SIGTERM)
        metrics = SupervisedMetrics(one, one, one, one, one, np.bool_(True))
        return dataclasses.replace(state, step=state.step + 1), metrics

    config = _config(20, objective="siamese", supervision=SupervisionConfig(path="x"))
    with pytest.raises(Preempted):
        supervised_loop.run_supervised(
            config,
            ExampleOrder(80, 4, 0),
            lambda step: step,
            step,
            SupervisedState(jnp.zeros((), jnp.int32), {}, {}, {}, {}),
            save=lambda state, best, value: saved.append(int(state.step)),
            finish=lambda: finished.append(list(saved)),
        )
    assert (saved, finished) == ([7], [[7]])


@pytest.mark.parametrize("call", ["main", "out_of_it"])
def test_exit_code_75(call):
    """Neither 143, which is a death without a save, nor the code of Ctrl-C. A second SIGTERM, in
    the save or on the way out, changes nothing."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("{call}", call)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    told = "told\n" if call == "out_of_it" else ""
    assert (done.returncode, done.stdout) == (75, f"saved\nclosed\n{told}")
    assert done.stderr == "saving\nstopped by SIGTERM\n"


def test_with_nothing_at_stake_it_ends_at_once():
    """While a model loads or texts are embedded nothing can be saved: no waiting for a step."""
    code = PROGRAM.replace("{call}", "lambda: signal.raise_signal(signal.SIGTERM)")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")


def test_a_fit_that_saves_nothing_leaves_sigterm_alone():
    """Flow.fit in somebody's service must not take its way of ending."""
    with Interrupt(preemptible=False):
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    mine = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        handler = signal.getsignal(signal.SIGTERM)
        with Interrupt():
            assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, mine)


def test_slow_steps_come_in_short_chunks(monkeypatch):
    """A request waited for 128 steps with BERT inside, minutes; saves stay where they were."""
    clock, chunks, saved = [0.0], [], []
    monkeypatch.setattr(loop.time, "perf_counter", lambda: clock[0])
    data = _data()
    start = initial_state(_config(1), data)
    seconds = {}  # of a step, from a step on

    def make_runner(order):
        def run(state, first, count):
            chunks.append(count)
            clock[0] += count * max(s for step, s in seconds.items() if first >= step)
            ones = np.ones(count, np.float32)
            after = dataclasses.replace(state, step=state.step + count)
            return after, StepMetrics(ones, ones, ones, ones)

        return run

    config = _config(12)
    config.train.eval_every, config.checkpoint.every = 0, 6
    seconds[0] = 0.9
    loop.run_fit(
        config, data, start, make_runner=make_runner,
        save=lambda state, held_out: saved.append(int(state.step)),
    )  # fmt: skip
    assert chunks == [1, 2, 2, 1, 2, 2, 2]
    assert saved == [6, 12]
    chunks.clear()
    seconds[0] = 1e-4
    config.train.steps, config.checkpoint.every = 300, 300
    loop.run_fit(config, data, start, make_runner=make_runner)
    assert chunks == [1, 128, 128, 43]
    assert [loop._chunk_limit(rate) for rate in (1e-3, 3.0, 1e9)] == [1, 6, 128]
