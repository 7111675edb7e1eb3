"""metrics.jsonl and the TensorBoard event file."""

import json

import pytest

from bertflow_jax.errors import WorkdirError
from bertflow_jax.training.metrics import MetricsWriter


def _steps(workdir):
    lines = (workdir / "metrics.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["step"] for line in lines]


def test_resume_writes_every_step_once(tmp_path):
    """Lines after the resumed step, and the half line of a killed run, go."""
    with MetricsWriter(tmp_path, tensorboard=False) as sink:
        for step in (1, 2, 3):
            sink.write(step, {"bits_per_dim": 0.5})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "bits')
    with MetricsWriter(tmp_path, tensorboard=False, resume_step=2) as sink:
        sink.write(3, {"bits_per_dim": 0.25})
    assert _steps(tmp_path) == [1, 2, 3]
    assert json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1]) == {
        "step": 3,
        "bits_per_dim": 0.25,
    }


def test_event_file_holds_the_values(tmp_path):
    """TensorBoard reads a tag, a step and a value from every record."""
    from tensorboardX.proto import event_pb2

    with MetricsWriter(tmp_path, tensorboard=True) as sink:
        sink.write(7, {"bits_per_dim": 0.75})
    (path,) = (tmp_path / "tensorboard").iterdir()
    raw, found = path.read_bytes(), {}
    while raw:
        length = int.from_bytes(raw[:8], "little")  # TFRecord: length, crc, data, crc
        event = event_pb2.Event.FromString(raw[12 : 12 + length])
        raw = raw[16 + length :]
        for value in event.summary.value:
            found[event.step] = (value.tag, value.simple_value)
    assert found == {7: ("bits_per_dim", pytest.approx(0.75))}


class _FullDisk:
    def write(self, text):
        raise OSError(28, "No space left on device")

    flush = close = lambda self: None


@pytest.mark.parametrize("which", ["metrics.jsonl", "TensorBoard"])
def test_a_full_disk_costs_the_metrics_and_not_the_run(tmp_path, caplog, which):
    """A thread of tensorboardX died, and the run waited for it for ever, deaf to SIGTERM."""
    with MetricsWriter(tmp_path, tensorboard=True) as sink:
        sink.write(1, {"loss": 0.5})
        if which == "TensorBoard":
            sink._events._records._writer = _FullDisk()
        else:
            sink._file = _FullDisk()
        for step in range(2, 200):
            sink.write(step, {"loss": 0.5})
    assert [which in message for message in caplog.messages] == [True]
    assert _steps(tmp_path) == ([1] if which == "metrics.jsonl" else list(range(1, 200)))


@pytest.mark.parametrize("name", ["metrics.jsonl", "tensorboard"])
def test_what_is_in_the_way_is_named(tmp_path, name):
    """A traceback, with the wrong exit code."""
    place = tmp_path / name
    place.write_text("") if name == "tensorboard" else place.mkdir()
    with pytest.raises(WorkdirError, match=f"metrics cannot be written to .*{name}"):
        MetricsWriter(tmp_path, tensorboard=True)
