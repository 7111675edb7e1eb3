"""One device, eight, two processes, pmap, split parameters, pieces of a batch: the same numbers.

Dropout is on everywhere: masks that depend on where a row lies would show at once.
"""

import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from bertflow_jax.checkpoint import CheckpointStore
from bertflow_jax.config import (
    CheckpointConfig,
    Config,
    DataConfig,
    EncoderConfig,
    FlowConfig,
    SupervisionConfig,
    TrainConfig,
)
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.errors import ConfigError
from bertflow_jax.restore import load_run
from bertflow_jax.training.run import train
from bertflow_jax.training.supervised_run import train_encoder

pytestmark = pytest.mark.slow

_SCRIPT = Path(__file__).with_name("run_on_devices.py")
_LABELS = ("entailment", "neutral", "contradiction")
KINDS = ("flow", "online", "siamese", "joint")
EIGHT = [(kind, mode) for kind in KINDS[:3] for mode in ("jit", "pmap")]
EIGHT += [("siamese", "fsdp"), ("joint", "jit")]
TWO = [("flow", "jit"), ("online", "jit"), ("siamese", "fsdp"), ("siamese", "pmap")]
# The first updates of Adam without bias correction are 3 learning rates of a sign: the flow of
# joint, whose embeddings change too, carries their rounding furthest.
TOLERANCE = {"joint": 5e-5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("devices")
    encoder = SentenceEncoder.from_pretrained("mini_bert", pooling="mean").encoder
    one_layer = dataclasses.replace(
        encoder,
        config=dataclasses.replace(encoder.config, num_hidden_layers=1),
        pooling=dataclasses.replace(encoder.pooling, layers=(1,)),
        params={
            **encoder.params,
            "layers": jax.tree.map(lambda x: x[:1], encoder.params["layers"]),
        },
    )
    SentenceEncoder(one_layer).save_pretrained(path / "encoder")
    texts = [f"sentence {i} {'of words ' * (i % 4)}" for i in range(40)]
    (path / "text.txt").write_text("\n".join(texts) + "\n")
    rows = [f"{texts[i]}\t{texts[-i]}\t{_LABELS[i % 3]}\t{i % 6}" for i in range(24)]
    (path / "pairs.tsv").write_text("\n".join(["sentence1\tsentence2\tlabel\tscore", *rows]) + "\n")
    return path


def config(folder, kind, **fields):
    """An experiment: 20 steps of a flow, 5 of an encoder."""
    supervised = kind in ("siamese", "joint")
    train_fields = {
        "steps": 5 if supervised else 20,
        "batch_size": 16,
        "log_every": 1,
        "tensorboard": False,
        "mode": "online" if kind == "online" else "cached",
        **fields.pop("train", {}),
    }
    pairs = str(folder / "pairs.tsv")
    section = SupervisionConfig(
        path=pairs,
        dev_path=pairs,
        dev_label_column="score" if kind == "joint" else "label",
        label_column="score" if kind == "joint" else "label",
        dev_metric="loss",
    )
    made = Config(
        objective=kind if supervised else "flow",
        encoder=EncoderConfig(
            path=str(folder / "encoder"), pooling="mean", remat=fields.pop("remat", False)
        ),
        flow=FlowConfig(levels=2, depth=2, width=8, dropout=0.1),
        data=DataConfig(path=str(folder / "text.txt"), held_out=0.1),
        train=TrainConfig(**train_fields),
        checkpoint=CheckpointConfig(every=1000),
        supervision=section if supervised else SupervisionConfig(),
        cache_dir=str(folder / "cache"),
    )
    return dataclasses.replace(made, **fields)


def run(made, workdir):
    (train if made.objective == "flow" else train_encoder)(made, workdir)
    return workdir


def start(runs, devices, *of_processes):
    """Start a process with so many CPU devices that makes these runs."""
    arguments = json.dumps([[made.to_dict(), str(workdir)] for made, workdir in runs])
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"
    return subprocess.Popen(
        [sys.executable, str(_SCRIPT), arguments, *map(str, of_processes)],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(*processes):
    try:
        ends = [process.communicate(timeout=500)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, text in zip(processes, ends, strict=True):
        assert process.returncode == 0, text[-4000:]


def free_address():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"


def losses(workdir):
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    kept = ("bits_per_dim", "loss", "grad_norm", "held_out_bits_per_dim", "dev_loss")
    return [{k: v for k, v in line.items() if k in kept} for line in lines]


def arrays(workdir):
    """Every array of the last checkpoint, by item, as it was written."""
    store = CheckpointStore(workdir)
    step = store.steps()[-1]
    return {
        name: ocp.PyTreeCheckpointer().restore(store.folder / str(step) / name)
        for name in store.records(step).state["digests"]
    }


def assert_same_run(workdir, reference, tolerance=1e-5):
    ours, theirs = losses(workdir), losses(reference)
    assert len(ours) == len(theirs) > 4
    for one, other in zip(ours, theirs, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            np.testing.assert_allclose(value, other[name], rtol=tolerance, atol=1e-6, err_msg=name)
    found, wanted = arrays(workdir), arrays(reference)
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for (path, value), other in zip(
        jax.tree_util.tree_leaves_with_path(found), jax.tree.leaves(wanted), strict=True
    ):
        distance = np.linalg.norm(np.subtract(value, other))
        assert distance <= tolerance * max(np.linalg.norm(other), 1e-3), jax.tree_util.keystr(path)


@pytest.fixture(scope="module")
def one_device(folder):
    assert jax.device_count() == 1
    return {kind: run(config(folder, kind), folder / f"one_{kind}") for kind in KINDS}


@pytest.fixture(scope="module")
def eight_devices(folder, one_device):
    """One process of eight devices makes all its runs: jit, pmap, fsdp."""
    runs = {name: config(folder, name[0], parallel=name[1]) for name in EIGHT}
    places = {name: folder / "_".join(("eight", *name)) for name in runs}
    finish(start([(made, places[name]) for name, made in runs.items()], 8))
    return places


@pytest.fixture(scope="module")
def two_processes(folder, one_device):
    """Two processes of four devices each; only the first one writes."""
    runs = {name: config(folder, name[0], parallel=name[1]) for name in TWO}
    places = {name: folder / "_".join(("two", *name)) for name in runs}
    address = free_address()
    made = [(made, places[name]) for name, made in runs.items()]
    finish(start(made, 4, address, 2, 0), start(made, 4, address, 2, 1))
    return places


@pytest.mark.parametrize("name", EIGHT)
def test_f03_eight_devices_give_the_numbers_of_one(one_device, eight_devices, name):
    assert_same_run(eight_devices[name], one_device[name[0]], TOLERANCE.get(name[0], 1e-5))


@pytest.mark.parametrize("name", TWO)
def test_two_processes_give_the_numbers_of_one(one_device, two_processes, name):
    assert_same_run(two_processes[name], one_device[name[0]])


def start_command(made, workdir, address, process, *flags):
    """Start train.py itself as one of two processes."""
    root = Path(__file__).resolve().parents[2]
    experiment = workdir.parent / f"{workdir.name}_{process}.py"
    experiment.write_text(
        "import json\nfrom bertflow_jax.config import Config\n\n\ndef get_config():\n"
        f"    return Config.from_dict(json.loads({json.dumps(made.to_dict())!r}))\n"
    )
    return subprocess.Popen(
        [sys.executable, str(root / "train.py"), f"--config={experiment}", f"--workdir={workdir}",
         f"--coordinator={address}", "--num_processes=2", f"--process_id={process}", *flags],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(root)},
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def test_sigterm_to_one_process_stops_both_and_the_first_saves(folder):
    """The other process would have waited for ever in the next step's all-reduce."""
    made = config(folder, "flow", train={"steps": 10**7})
    made = dataclasses.replace(made, checkpoint=CheckpointConfig(every=200))
    workdir, address = folder / "terminated", free_address()
    pair = [start_command(made, workdir, address, process) for process in (0, 1)]
    try:
        until = time.monotonic() + 300
        while not CheckpointStore(workdir).steps() and time.monotonic() < until:
            assert pair[0].poll() is None, pair[0].communicate()[1][-3000:]
            time.sleep(0.2)
        pair[1].send_signal(signal.SIGTERM)
        ends = [process.communicate(timeout=200)[1] for process in pair]
    finally:
        for process in pair:
            process.kill()
    assert [process.returncode for process in pair] == [75, 75], ends
    store = CheckpointStore(workdir)
    assert f"stopped after step {store.steps()[-1]}, which is saved" in ends[0]


@pytest.mark.parametrize("mistake", ["text", "flag"])
def test_what_one_process_lacks_ends_both(folder, mistake):
    """The one with the text (the flag) waited for the other, which had ended (went on)."""
    made, address = config(folder, "flow"), free_address()
    lacks = dataclasses.replace(made, data=DataConfig(path=str(folder / "nothing.txt")))
    second, flags = (lacks, []) if mistake == "text" else (made, ["--resume"])
    workdir = folder / f"lacks_{mistake}"
    first = start_command(made, workdir, address, 0)
    pair = [first, start_command(second, workdir, address, 1, *flags)]
    ends = [process.communicate(timeout=200)[1] for process in pair]
    assert [process.returncode for process in pair] == [2, 2], ends
    if mistake == "text":
        assert "another process of this run has stopped" in ends[0]
        assert "nothing.txt" in ends[1]
    else:
        assert all("give --resume or --overwrite to all processes" in text for text in ends)


def test_a_mistake_that_one_process_sees_ends_both(folder, one_device):
    """The others waited for one that had gone."""
    made, address = config(folder, "flow"), free_address()
    pair = [start_command(made, one_device["flow"], address, process) for process in (0, 1)]
    ends = [process.communicate(timeout=200)[1] for process in pair]
    assert [process.returncode for process in pair] == [2, 2], ends
    assert all("is not empty: give --resume" in text for text in ends)


def test_pieces_of_a_batch_give_its_gradient(folder):
    """Without dropout, whose masks a piece draws for itself; 4 pieces of 4, encoder and flow."""
    for kind in ("flow", "siamese"):
        section = {"dropout": False} if kind == "siamese" else {}
        whole = config(folder, kind)
        whole = dataclasses.replace(
            whole,
            flow=dataclasses.replace(whole.flow, dropout=0.0),
            supervision=dataclasses.replace(whole.supervision, **section),
        )
        pieces = dataclasses.replace(whole, train=dataclasses.replace(whole.train, accumulate=4))
        reference = run(whole, folder / f"whole_{kind}")
        assert_same_run(run(pieces, folder / f"pieces_{kind}"), reference)


def test_rematerialised_layers_give_the_same_numbers(folder, one_device):
    """The dropout masks of the second computation have to be those of the first."""
    workdir = run(config(folder, "siamese", remat=True), folder / "remat")
    assert_same_run(workdir, one_device["siamese"])


def test_a_checkpoint_of_eight_devices_and_of_two_processes_is_read_on_one(
    folder, eight_devices, two_processes
):
    """C01: the sharding of the writer was asked for again; values are equal and a run goes on."""
    for place in (eight_devices["flow", "jit"], two_processes["flow", "jit"]):
        restored = load_run(place)
        written = arrays(place)["flow"]
        for ours, theirs in zip(
            jax.tree.leaves(restored.flow.variables), jax.tree.leaves(written), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)
    longer = config(folder, "siamese", parallel="jit", train={"steps": 6})
    resumed = folder / "resumed"
    shutil.copytree(two_processes["siamese", "fsdp"], resumed)
    assert train_encoder(longer, resumed, resume=True).step == 6


def test_what_cannot_be_divided_is_said(folder):
    with pytest.raises(ConfigError, match=r"train\.accumulate=3: must divide train\.batch_size=16"):
        config(folder, "flow", train={"accumulate": 3}).validate()
    with pytest.raises(ConfigError, match=r"train\.accumulate=16 must divide the batch of 36"):
        train(config(folder, "flow", train={"batch_size": 64, "accumulate": 16}), folder / "bad")
