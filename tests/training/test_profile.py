"""The trace of some steps: which steps, where its file lies, what a bad spec says."""

import jax
import jax.numpy as jnp
import pytest

from bertflow_jax.errors import BertFlowError, ConfigError
from bertflow_jax.training.profile import Profiler, parse_profile_steps


@pytest.mark.parametrize(
    ("text", "steps"), [("", None), ("  ", None), ("0:1", (0, 1)), (" 10 : 15 ", (10, 15))]
)
def test_specs(text, steps):
    assert parse_profile_steps(text, "profile_steps") == steps


@pytest.mark.parametrize(
    "text",
    [
        "10",
        "10:",
        ":15",
        "15:10",
        "10:10",
        "-1:3",
        "1:2:3",
        "a:b",
        "0:5000",
        "1.5:3",
        "\u0661:\u0663",
    ],
)
def test_bad_specs_name_the_field_and_the_value(text):
    """A spec that is silently taken as none would cost the run that was made for its trace."""
    with pytest.raises(ConfigError, match=r"train\.profile_steps") as error:
        parse_profile_steps(text, "train.profile_steps")
    assert repr(text) in str(error.value)


class Calls:
    """Stands for jax.profiler: what was called, in which order."""

    def __init__(self, monkeypatch):
        self.names: list[str] = []
        monkeypatch.setattr(jax.profiler, "start_trace", lambda folder: self.names.append("start"))
        monkeypatch.setattr(jax.profiler, "stop_trace", lambda: self.names.append("stop"))


def walk(profiler: Profiler, start: int, last: int, chunk: int) -> list[int]:
    """Make steps as a loop in chunks does; return the numbers of steps where it stopped."""
    done, stops = start, []
    profiler.at(done)
    while done < last:
        boundary = profiler.stop_before(done)
        done += min(chunk, last - done, *([] if boundary is None else [boundary - done]))
        stops.append(done)
        profiler.at(done)
    return stops


def test_a_loop_in_chunks_stops_at_both_ends(tmp_path, monkeypatch):
    """Chunks of 128 would trace 128 steps, or jump over the trace."""
    calls = Calls(monkeypatch)
    with Profiler("10:15", tmp_path) as profiler:
        assert walk(profiler, 0, 300, 128) == [10, 15, 143, 271, 300]
        assert calls.names == ["start", "stop"]


@pytest.mark.parametrize(
    ("start", "last", "names"),
    [
        (0, 300, ["start", "stop"]),
        (10, 300, ["start", "stop"]),  # resumed where it starts
        (12, 300, ["start", "stop"]),  # resumed inside
        (15, 300, []),  # resumed behind it
        (0, 12, ["start", "stop"]),  # the run ends inside
        (0, 9, []),  # the run ends before it
    ],
)
def test_runs_that_begin_or_end_anywhere(tmp_path, monkeypatch, start, last, names):
    """A trace that is never ended leaves no file, and blocks every later one in the process."""
    calls = Calls(monkeypatch)
    with Profiler("10:15", tmp_path) as profiler:
        walk(profiler, start, last, 4)
        profiler.at(last)  # called twice with one number: nothing more happens
    assert calls.names == names


def test_an_error_in_the_loop_ends_the_trace(tmp_path, monkeypatch):
    calls = Calls(monkeypatch)

    def run() -> None:
        with Profiler("0:9", tmp_path) as profiler:
            profiler.at(0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert calls.names == ["start", "stop"]


def test_one_process_writes_and_all_stop_at_the_same_steps(tmp_path, monkeypatch):
    """Processes with chunks of other lengths would wait for each other for ever."""
    calls = Calls(monkeypatch)
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    with Profiler("3:5", tmp_path) as profiler:
        assert walk(profiler, 0, 8, 8) == [3, 5, 8]
    assert calls.names == []


def test_steps_that_never_came_are_told(tmp_path, caplog):
    with Profiler("100:105", tmp_path) as profiler:
        profiler.at(0)
        profiler.at(50)
    assert "profile_steps=100:105: the run made no such steps" in caplog.text


def test_no_spec_does_nothing(tmp_path, monkeypatch, caplog):
    calls = Calls(monkeypatch)
    with Profiler("", tmp_path) as profiler:
        assert walk(profiler, 0, 5, 2) == [2, 4, 5]
    assert calls.names == []
    assert caplog.text == ""


def test_a_profiler_that_fails_does_not_end_the_run(tmp_path, monkeypatch, caplog):
    def fail(folder):
        raise RuntimeError("Profile has already been started.")

    monkeypatch.setattr(jax.profiler, "start_trace", fail)
    with Profiler("0:2", tmp_path) as profiler:
        assert walk(profiler, 0, 4, 4) == [2, 4]
    assert "no trace can be started (Profile has already been started.)" in caplog.text


def test_a_bad_spec_is_an_error_of_ours(tmp_path):
    with pytest.raises(BertFlowError, match="START:STOP"):
        Profiler("10-15", tmp_path)


def test_a_real_trace_holds_the_work_of_its_steps(tmp_path):
    """The file that TensorBoard looks for, and in it the program that the steps ran."""

    @jax.jit
    def profiled_program(x):
        return jnp.tanh(x) @ x

    x = jnp.ones((8, 8))
    with Profiler("2:4", tmp_path) as profiler:
        for done in range(6):
            profiler.at(done)
            x = profiled_program(x).block_until_ready()
    traces = list(tmp_path.glob("plugins/profile/*/*.xplane.pb"))
    assert len(traces) == 1
    assert b"profiled_program" in traces[0].read_bytes()
