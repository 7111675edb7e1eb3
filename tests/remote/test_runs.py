"""Runs whose workdir is in a bucket: the same as local ones, and what breaks on the way.

Real encoder, a small flow; the bucket is on 127.0.0.1.
"""

import dataclasses
import hashlib
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from reference_flows import max_difference

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
from bertflow_jax.errors import CheckpointError, ConfigError, DataNotFoundError, WorkdirError
from bertflow_jax.evaluation.options import EvalOptions
from bertflow_jax.evaluation.run import run_evaluation
from bertflow_jax.restore import load_run
from bertflow_jax.training.run import train
from bertflow_jax.training.supervised_run import train_encoder

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
WORKDIR = "gs://bucket/runs/mine"
STEPS = "runs/mine/checkpoints"
LINES = [
    "The cat sleeps on the warm stove.",
    "A dog barks at the postman every morning.",
    "Rain is expected in the hills tonight.",
    "The train to the coast leaves at nine.",
    "She repaired the bicycle in an hour.",
    "Two children build a tower of bricks.",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("remote")
    (path / "text.txt").write_text("\n".join(LINES), "utf-8")
    rows = [f"{a}\t{b}\t{i % 5}" for i, (a, b) in enumerate(itertools.pairwise(LINES))]
    (path / "pairs.tsv").write_text("\n".join(["sentence1\tsentence2\tlabel", *rows]) + "\n")
    return path


def config(folder, steps, every=2, keep=2, **train_fields):
    fields = {"batch_size": 4, "log_every": 1, "tensorboard": False, **train_fields}
    return Config(
        encoder=EncoderConfig(path="mini_bert", pooling="mean"),
        flow=FlowConfig(levels=1, depth=1, width=4),
        data=DataConfig(path=str(folder / "text.txt")),
        train=TrainConfig(steps=steps, **fields),
        checkpoint=CheckpointConfig(every=every, keep=keep),
        cache_dir=str(folder / "cache"),
    )


@pytest.fixture(scope="module")
def straight(folder):
    """A finished local run of 8 steps."""
    train(config(folder, 8), folder / "straight")
    return folder / "straight"


@pytest.fixture(scope="module")
def first_half(folder, service):
    """What a run of 4 steps leaves in the bucket: checkpoints 2 and 4."""
    with service() as fake:
        train(config(folder, 4), WORKDIR)
        return dict(fake.objects)


@pytest.fixture
def begun(gcs, first_half):
    """A bucket with the run of 4 steps."""
    gcs.objects.update(first_half)
    return gcs


@pytest.fixture
def copied(gcs, straight):
    """A bucket that a local run was copied into: `gcloud storage cp -r` makes no markers."""
    for path in straight.rglob("*"):
        if path.is_file():
            gcs.objects[f"runs/mine/{path.relative_to(straight)}"] = path.read_bytes()
    return gcs


def leftovers():
    return sorted(path.name for path in Path(tempfile.gettempdir()).iterdir())


def losses(text):
    return {line["step"]: line["bits_per_dim"] for line in map(json.loads, text.splitlines())}


def assert_as_straight(straight, gcs):
    """The run in the bucket has ended as the local one."""
    ours, reference = load_run(WORKDIR), load_run(straight)
    assert ours.step == reference.step == 8
    assert max_difference(ours.flow.variables, reference.flow.variables) == 0.0
    metrics = gcs.objects["runs/mine/metrics.jsonl"].decode()
    assert losses(metrics) == losses((straight / "metrics.jsonl").read_text())


def test_stopped_and_resumed_it_is_bit_identical_to_a_local_run(begun, folder, straight):
    """Nothing of the first half is left on the machine. Pruned steps are gone in the bucket."""
    assert leftovers() == []
    assert {name.split("/")[3] for name in begun.names(STEPS)} == {
        *("2", "2.commit.json"),
        *("4", "4.commit.json"),
    }
    train(config(folder, 8, tensorboard=True), WORKDIR, resume=True)
    assert_as_straight(straight, begun)
    assert {name.split("/")[3] for name in begun.names(STEPS)} == {
        *("6", "6.commit.json"),
        *("8", "8.commit.json"),
    }
    assert len(begun.names("runs/mine/tensorboard/events")) == 1
    assert leftovers() == []


def test_a_reader_leaves_the_optimizer_in_the_bucket(begun):
    """It is two thirds of a large checkpoint; the step before is not fetched either."""
    begun.calls.clear()
    encoder = SentenceEncoder.from_checkpoint(WORKDIR)
    read = {name for method, name in begun.calls if method == "GET"}
    assert any(name.startswith(f"{STEPS}/4/flow/") for name in read)
    assert not [n for n in read if n.startswith((f"{STEPS}/4/optimizer/", f"{STEPS}/2"))]
    assert np.isfinite(encoder.encode(LINES)).all()
    assert leftovers() == []


def test_an_upload_killed_before_its_marker_does_not_count(begun, folder, straight, caplog):
    """The bucket has all files of step 6, but the run ended before it said so."""

    def no_marker(method, name):
        return 403 if (method, name) == ("POST", f"{STEPS}/6.commit.json") else None

    begun.faults = no_marker
    with pytest.raises(WorkdirError, match=r"6\.commit\.json cannot be written") as caught:
        train(config(folder, 8), WORKDIR, resume=True)
    begun.faults = lambda method, name: None
    assert begun.names(f"{STEPS}/6/")
    assert load_run(WORKDIR).step == 4
    train(config(folder, 8), WORKDIR, resume=True)
    assert f"{WORKDIR}/checkpoints/6 is what a stopped run left of an upload" in caplog.text
    assert_as_straight(straight, begun)
    assert f"{STEPS}/6.unfinished" not in begun.objects
    # The message names the local copy of what did not get through, and it is there.
    kept = Path(str(caught.value).split("is kept in ")[1].split(",")[0])
    assert (kept / "flow").is_dir()
    assert kept.name == "6"


def test_a_server_error_ends_the_run_and_older_steps_stay(gcs, folder):
    """The object is named; the steps before it can be restored."""

    def refuse(method, name):
        return 400 if method == "POST" and name.startswith(f"{STEPS}/6/flow/") else None

    gcs.faults = refuse
    with pytest.raises(WorkdirError, match=f"^gs://bucket/{STEPS}/6/flow/.* cannot be written"):
        train(config(folder, 8), WORKDIR)
    gcs.faults = lambda method, name: None
    assert [load_run(WORKDIR, step).step for step in (2, 4)] == [2, 4]
    with pytest.raises(DataNotFoundError, match=r"no checkpoint of step 6 in gs://.*\[2, 4\]"):
        load_run(WORKDIR, 6)


def test_a_damaged_object_is_noticed(begun, folder, straight, caplog):
    """One flipped bit in the newest step: the one before is taken, and the run ends the same."""
    name = max(begun.names(f"{STEPS}/4/flow/"), key=lambda n: len(begun.objects[n]))
    content = bytearray(begun.objects[name])
    content[len(content) // 2] ^= 1
    begun.objects[name] = bytes(content)
    inside = name.removeprefix(f"{STEPS}/4/")
    with pytest.raises(CheckpointError, match=f"checkpoints/4 is damaged.*{inside} differs"):
        load_run(WORKDIR, 4)
    assert load_run(WORKDIR).step == 2
    assert f"{WORKDIR}/checkpoints/4 is damaged or incomplete ({inside} differs" in caplog.text
    train(config(folder, 8), WORKDIR, resume=True)
    assert_as_straight(straight, begun)
    # Set aside, as on a disk.
    assert begun.objects[f"{STEPS}/4.passed_over/{inside}"] == bytes(content)


@pytest.mark.parametrize("lost", ["4/state/metadata", "4/flow/manifest.ocdbt", "4.commit.json"])
def test_a_lost_object(begun, lost, caplog):
    """A step without its marker is one that was copied here: its own digests prove it."""
    del begun.objects[f"{STEPS}/{lost}"]
    assert load_run(WORKDIR).step == (4 if "commit" in lost else 2)
    assert ("state/metadata is missing" in caplog.text) == ("state" in lost)


def test_no_name_is_written_outside_the_folder_without_a_marker(begun):
    """Bug: of a step that was copied there the objects' names were taken as they are."""
    del begun.objects[f"{STEPS}/4.commit.json"]
    begun.objects[f"{STEPS}/4/state/../../../../evil"] = b"evil"
    with pytest.raises(CheckpointError, match="an object of it is named outside the step"):
        load_run(WORKDIR, 4)
    assert load_run(WORKDIR).step == 2
    assert leftovers() == []


def test_a_marker_cannot_write_outside_the_folder(begun):
    """Whoever can write to the bucket could have written anywhere on the reader's disk."""
    name = "state/../../../../evil"
    begun.objects[f"{STEPS}/4/{name}"] = b"evil"
    marker = json.loads(begun.objects[f"{STEPS}/4.commit.json"])
    marker["files"][name] = {"size": 4, "sha256": hashlib.sha256(b"evil").hexdigest()}
    begun.objects[f"{STEPS}/4.commit.json"] = json.dumps(marker).encode()
    with pytest.raises(CheckpointError, match="names a file outside the step"):
        load_run(WORKDIR, 4)
    assert load_run(WORKDIR).step == 2
    assert leftovers() == []


def test_a_local_run_copied_into_the_bucket(copied, straight):
    """Nothing in it is taken for what a killed upload left."""
    assert_as_straight(straight, copied)


def test_a_second_run_takes_the_workdir_and_the_first_one_ends(gcs, folder):
    """Two runs wrote the same steps in turn, and neither knew."""

    def takes_over(method, name):
        if (method, name) == ("POST", f"{STEPS}/2.commit.json"):
            gcs.generations["bucket", "runs/mine/.owner"] += 1
        return None

    gcs.faults = takes_over
    with pytest.raises(WorkdirError, match=r"another run began there.*runs/mine/\.owner"):
        train(config(folder, 8), WORKDIR)
    gcs.faults = lambda method, name: None
    assert load_run(WORKDIR).step == 2


def test_rules_of_a_workdir_that_is_not_empty(begun, folder, straight):
    """Neither flag: an error before any work; --overwrite deletes this run and no other."""
    begun.objects["runs/mine2/notes"] = b"another run"
    begun.objects["runs/mine/notes"] = b"mine"
    with pytest.raises(WorkdirError, match=r"gs://bucket/runs/mine is not empty.*--resume"):
        train(config(folder, 8), WORKDIR)
    with pytest.raises(DataNotFoundError, match=r"no checkpoint in gs://bucket/runs/none/"):
        train(config(folder, 8), "gs://bucket/runs/none", resume=True)
    train(config(folder, 8), WORKDIR, overwrite=True)
    assert_as_straight(straight, begun)
    assert "runs/mine/notes" not in begun.objects
    assert begun.objects["runs/mine2/notes"] == b"another run"


def test_killed_while_it_embedded_a_run_starts_anew(gcs, folder, straight, monkeypatch, tmp_path):
    """Bug: what it left was an owner alone, as every run does, so that --resume was refused."""
    made = dataclasses.replace(config(folder, 8), cache_dir=str(tmp_path / "cache"))

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SentenceEncoder, "encode", killed)
        with pytest.raises(KeyboardInterrupt):
            train(made, WORKDIR)
    assert gcs.objects["runs/mine/metrics.jsonl"] == b""
    train(made, WORKDIR, resume=True)
    assert_as_straight(straight, gcs)


def test_overwrite_deletes_nothing_but_a_run(gcs, folder):
    """A mistyped address with other data below it."""
    gcs.objects["runs/mine/notes"] = b"keep me"
    with pytest.raises(WorkdirError, match="would delete objects that are no run's"):
        train(config(folder, 8), WORKDIR, overwrite=True)
    assert gcs.objects == {"runs/mine/notes": b"keep me"}


def test_no_permission_to_write_is_told_before_any_work(gcs, folder):
    gcs.faults = lambda method, name: 403 if method == "POST" else None
    with pytest.raises(WorkdirError, match=r"cannot be written.*Storage Object Admin"):
        train(config(folder, 8), WORKDIR)
    assert gcs.objects == {}
    assert leftovers() == []


@pytest.mark.slow
def test_evaluation_gives_the_numbers_of_the_local_workdir(copied, folder, straight, capsys):
    """results.json and the report, with the run's curves, are written into the bucket."""
    local = EvalOptions(workdir=str(straight), output=str(folder / "eval"), report=False)
    expected = run_evaluation(local)["rows"]
    remote = run_evaluation(EvalOptions(workdir=WORKDIR))
    assert remote["rows"] == expected
    assert remote["rows"]["flow"]["average"] is not None
    assert remote["model"]["workdir"] == WORKDIR
    assert json.loads(copied.objects["runs/mine/eval/results.json"]) == remote
    assert {"report.html", "results.json", "table.md", "table.tex"} == {
        name.rpartition("/")[2] for name in copied.names("runs/mine/eval/")
    }
    assert b"bits per dim" in copied.objects["runs/mine/eval/report.html"].lower()
    assert f"scores: {WORKDIR}/eval/results.json" in capsys.readouterr().out
    assert leftovers() == []


def test_an_evaluation_whose_results_cannot_go_up_keeps_them(copied):
    """They took the time; the message says where they are."""

    def refuse(method, name):
        return 400 if method == "POST" and name.endswith("results.json") else None

    copied.faults = refuse
    with pytest.raises(
        WorkdirError, match=r"gs://bucket/raw/results.json cannot be written.*results are kept in"
    ) as caught:
        run_evaluation(EvalOptions(encoder="mini_bert", output="gs://bucket/raw", report=False))
    kept = Path(str(caught.value).split("are kept in ")[1])
    assert json.loads((kept / "results.json").read_text())["rows"]["raw"]


def test_what_is_missing_is_told_before_a_model_is_loaded(gcs):
    with pytest.raises(DataNotFoundError, match="gs://bucket/none has no checkpoints/"):
        run_evaluation(EvalOptions(workdir="gs://bucket/none"))
    with pytest.raises(DataNotFoundError, match="--output=gs://nobucket/x: there is no bucket"):
        run_evaluation(EvalOptions(encoder="mini_bert", output="gs://nobucket/x"))
    with pytest.raises(ConfigError, match=r"--figure=gs://bucket/x\.png: name a file of"):
        run_evaluation(EvalOptions(encoder="mini_bert", figure="gs://bucket/x.png"))


def test_the_command_ends_with_exit_code_2(gcs):
    """Before the seconds that loading JAX takes, and without a traceback."""
    flags = ["--config=configs/demo.py", "--workdir=gs://nobucket/run"]
    done = subprocess.run(
        [sys.executable, "train.py", *flags], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: --workdir=gs://nobucket/run: there is no bucket")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_training_of_the_encoder(gcs, folder, tmp_path):
    """Broken off and resumed: the encoder folder of a local run, file by file."""
    pairs = str(folder / "pairs.tsv")
    experiment = dataclasses.replace(
        config(folder, 3, every=1, keep=1),
        objective="regression",
        supervision=SupervisionConfig(
            path=pairs, dev_path=pairs, dev_metric="spearman", learning_rate=1e-4
        ),
    )
    start = "runs/mine/encoder/"
    gcs.faults = lambda method, name: 403 if name.endswith("/3.commit.json") else None
    with pytest.raises(WorkdirError, match=r"3\.commit\.json"):
        train_encoder(experiment, WORKDIR)
    gcs.faults = lambda method, name: None
    # Of another encoder that lay there before.
    gcs.objects[f"{start}pytorch_model.bin"] = b"old"
    result = train_encoder(experiment, WORKDIR, resume=True)
    reference = train_encoder(experiment, tmp_path / "local")
    assert result.saved_step == reference.saved_step
    assert str(result.encoder_folder) == f"{WORKDIR}/encoder"
    local = reference.encoder_folder
    files = {p.relative_to(local).as_posix(): p for p in local.rglob("*") if p.is_file()}
    assert gcs.names(start) == sorted(start + name for name in files)
    assert [n for n, p in files.items() if gcs.objects[start + n] != p.read_bytes()] == []
