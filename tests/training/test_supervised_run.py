"""A whole supervised run: encoder folder, resume, semi-supervision, joint flow, mistakes."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest
from reference_flows import max_difference

from bertflow_jax.checkpoint import CheckpointStore, Records
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
from bertflow_jax.errors import CheckpointError, ConfigError, WorkdirError
from bertflow_jax.evaluation.options import EvalOptions
from bertflow_jax.evaluation.run import run_evaluation
from bertflow_jax.restore import load_run
from bertflow_jax.training.resume import resume_check
from bertflow_jax.training.run import train
from bertflow_jax.training.supervised_run import train_encoder

NLI = [
    ("A man sleeps.", "A person rests.", "entailment"),
    ("A man sleeps.", "A man is awake.", "contradiction"),
    ("It rains.", "The hills are green.", "neutral"),
    ("A dog runs.", "An animal moves.", "entailment"),
    ("A dog runs.", "The cat is asleep.", "neutral"),
    ("Two men talk.", "No one speaks.", "contradiction"),
]
SCORES = [(a, b, {"entailment": 5, "neutral": 2, "contradiction": 1}[c]) for a, b, c in NLI]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("supervised")
    for name, rows in (("nli.tsv", NLI), ("scores.tsv", SCORES)):
        lines = ["sentence1\tsentence2\tlabel", *("\t".join(map(str, row)) for row in rows)]
        (path / name).write_text("\n".join(lines) + "\n")
    return path


def _config(folder, objective="siamese", steps=4, train=None, **fields):
    name = "nli.tsv" if objective == "siamese" else "scores.tsv"
    section = {
        "path": str(folder / name),
        "dev_path": str(folder / "scores.tsv"),
        "dev_metric": "spearman",
        "learning_rate": 1e-4,
        **fields,
    }
    return Config(
        objective=objective,
        encoder=EncoderConfig(path="mini_bert", pooling="mean"),
        flow=FlowConfig(levels=1, depth=1, width=4),
        supervision=SupervisionConfig(**section),
        train=TrainConfig(
            **{
                "steps": steps,
                "batch_size": 4,
                "log_every": 1,
                "tensorboard": False,
                **(train or {}),
            }
        ),
        checkpoint=CheckpointConfig(every=2, keep=9),
    )


@pytest.fixture(scope="module")
def straight(folder):
    """A finished siamese run of 4 steps, every second one saved."""
    return train_encoder(_config(folder), folder / "straight")


def _metrics(workdir):
    lines = map(json.loads, (workdir / "metrics.jsonl").read_text().splitlines())
    return [{k: v for k, v in line.items() if k != "pairs_per_second"} for line in lines]


def _encoder_arrays(workdir):
    return SentenceEncoder.from_pretrained(workdir / "encoder").params["encoder"]


def _cut_after(workdir, copy, step):
    """Copy a workdir as it was after a step: what a killed run leaves."""
    shutil.copytree(workdir, copy)
    for path in (copy / "checkpoints").iterdir():
        if int(path.name) > step:
            shutil.rmtree(path)
    shutil.rmtree(copy / "encoder")
    return copy


def test_resume_equals_a_straight_run(folder, straight):
    """Bit for bit: parameters, optimiser, dropout, the order, the dev record and the metrics."""
    workdir = _cut_after(folder / "straight", folder / "resumed", 2)
    resumed = train_encoder(_config(folder), workdir, resume=True)
    assert (resumed.step, resumed.best) == (straight.step, straight.best)
    assert _metrics(workdir) == _metrics(folder / "straight")
    assert [line["step"] for line in _metrics(workdir)] == [0, 1, 2, 3, 4]
    ours, theirs = _encoder_arrays(workdir), _encoder_arrays(folder / "straight")
    assert max_difference(ours, theirs) == 0.0
    digests = [
        CheckpointStore(path).records(4).state["digests"] for path in (workdir, folder / "straight")
    ]
    assert digests[0] == digests[1]
    assert set(digests[0]) == {"encoder_params", "head", "optimizer"}


def test_the_encoder_folder_is_read_by_sentence_transformers(folder, straight):
    """The same vectors there, and other ones than the encoder training started from."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    texts = [text for row in NLI for text in row[:2]]
    ours = SentenceEncoder.from_pretrained(straight.encoder_folder).encode(texts)
    model = sentence_transformers.SentenceTransformer(str(straight.encoder_folder), device="cpu")
    np.testing.assert_allclose(model.encode(texts), ours, atol=2e-5)
    before = SentenceEncoder.from_pretrained("mini_bert", pooling="mean").encode(texts)
    assert np.abs(before - ours).max() > 1e-3


def test_what_is_trained(folder, straight):
    """The classifier stays in the checkpoint; the pooler, which mean pooling does not use, is not
    shrunk by weight decay; everything else has moved."""
    saved = _encoder_arrays(folder / "straight")
    start = SentenceEncoder.from_pretrained("mini_bert").params["encoder"]
    names = (straight.encoder_folder / "model.safetensors").read_bytes()[:20000]
    assert b"head" not in names
    moved = jax.tree.map(lambda a, b: float(np.abs(a - b).max()), start, saved)
    for layer in jax.tree.leaves(moved["layers"]):
        assert layer > 0
    if "pooler" in start:
        assert max(jax.tree.leaves(moved["pooler"])) == 0.0


def test_a_flow_fits_on_the_encoder_folder(folder, straight):
    """--config.encoder.path=DIR/encoder: the folder's own pooling, no other setting needed."""
    config = Config(
        encoder=EncoderConfig(path=str(straight.encoder_folder)),
        flow=FlowConfig(levels=1, depth=1, width=4),
        data=DataConfig(path=str(folder / "nli.tsv"), columns="sentence1,sentence2"),
        train=TrainConfig(steps=2, batch_size=4, tensorboard=False),
        cache_dir=str(folder / "cache"),
    )
    train(config, folder / "flow")
    run = load_run(folder / "flow")
    assert (
        run.encoder.identity()
        == SentenceEncoder.from_pretrained(straight.encoder_folder).identity()
    )


def test_the_best_encoder_is_written_not_the_last(folder, monkeypatch):
    """Spearman .2 then .1 in two evaluations: the encoder of step 2 is written, and stays with
    keep=1; load_run of a run without a flow says where its encoder lies."""
    values = iter([0.0, 0.2, 0.1])
    monkeypatch.setattr(
        "bertflow_jax.training.supervised_dev.DevSet.__call__", lambda self, state: next(values)
    )
    config = _config(folder, steps=4)
    config.checkpoint.keep = 1
    result = train_encoder(config, folder / "best")
    assert (result.saved_step, result.step, result.best.value) == (2, 4, 0.2)
    store = CheckpointStore(folder / "best")
    assert store.steps() == [2, 4]
    shapes = jax.eval_shape(lambda: _trained(folder / "best"))
    arrays, _ = store.restore(2, lambda _: {"encoder_params": shapes})
    written = _trained(folder / "best")
    assert max_difference(arrays["encoder_params"], written) == 0.0
    with pytest.raises(CheckpointError, match=r"without a flow.*--encoder=.*best/encoder"):
        load_run(folder / "best")


def _trained(workdir):
    params = dict(_encoder_arrays(workdir))
    params.pop("pooler", None)
    return params


def test_labelled_keeps_so_many_and_drops_the_rest(folder):
    """Without a flow the others have no use: 2 of 6 make batches of 2."""
    train_encoder(_config(folder, steps=1, labelled=2, dev_metric="none"), folder / "few")
    records = CheckpointStore(folder / "few").records(1)
    assert (records.manifest["examples"], records.manifest["labelled"]) == (2, 2)
    assert (records.manifest["pairs"], records.manifest["dev_metric"]) == (6, "none")


def test_joint(folder):
    """Two optimisers at once; the run is evaluated like any flow's, with the trained encoder.

    Unlabelled pairs stay in the batches, for the flow's loss."""
    config = _config(folder, "joint", steps=4, labelled=3)
    result = train_encoder(config, folder / "joint")
    records = CheckpointStore(folder / "joint").records(4)
    assert (records.manifest["examples"], records.manifest["labelled"]) == (6, 3)
    assert set(records.state["digests"]) == {
        "encoder_params",
        "optimizer",
        "flow",
        "flow_optimizer",
    }
    bits = [line["bits_per_dim"] for line in _metrics(folder / "joint") if "bits_per_dim" in line]
    assert len(bits) == 4
    assert np.isfinite(bits).all()
    run = load_run(folder / "joint")
    assert run.step == result.saved_step
    texts = [row[0] for row in NLI]
    trained = SentenceEncoder.from_pretrained(result.encoder_folder)
    np.testing.assert_array_equal(run.encoder.encode(texts), trained.encode(texts))
    latent = SentenceEncoder.from_checkpoint(folder / "joint").encode(texts)
    np.testing.assert_allclose(latent, run.flow.transform(trained.encode(texts)), atol=1e-4)
    # Rows beside its flow were fitted on data.path, which a joint run does not read.
    options = EvalOptions(
        str(folder / "joint"), rows=("center",), output=str(folder / "eval"), report=False
    )
    fitted = run_evaluation(options)["model"]["fitted"]
    assert fitted["fit"] == "run"
    assert fitted["text"]["everyday"]["sha256"] == records.manifest["sha256"]

    workdir = _cut_after(folder / "joint", folder / "joint2", 2)
    train_encoder(config, workdir, resume=True)
    again = CheckpointStore(workdir).records(4)
    assert again.state["digests"] == records.state["digests"]

    # A damaged best step made every later command fail although good steps were there.
    damaged = folder / "joint3"
    shutil.copytree(folder / "joint", damaged)
    shutil.rmtree(damaged / "checkpoints" / str(run.step) / "flow")
    left = [step for step in CheckpointStore(damaged).steps() if step != run.step]
    assert load_run(damaged).step == max(left)
    with pytest.raises(CheckpointError, match="damaged or incomplete"):
        load_run(damaged, run.step)


@pytest.mark.slow
def test_four_devices_give_the_numbers_of_one(folder, straight):
    """A batch of 6 on 4 devices runs on 3 of them, the dev set on all: arrays of different device
    sets met in one operation. Losses and dev metric are those of one device."""
    config = _config(folder, steps=2, train={"batch_size": 6})
    train_encoder(config, folder / "one")
    code = (
        "import jax, json, sys\n"
        "from bertflow_jax.config import Config\n"
        "from bertflow_jax.training.supervised_run import train_encoder\n"
        "assert jax.local_device_count() == 4\n"
        "jax.config.update('jax_default_matmul_precision', 'highest')\n"
        "train_encoder(Config.from_dict(json.loads(sys.argv[1])), sys.argv[2])\n"
    )
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    subprocess.run(
        [sys.executable, "-c", code, json.dumps(config.to_dict()), str(folder / "four")],
        check=True,
        env=environment,
        timeout=500,
    )
    for ours, theirs in zip(_metrics(folder / "four"), _metrics(folder / "one"), strict=True):
        assert ours.keys() == theirs.keys()
        for name, value in ours.items():
            np.testing.assert_allclose(value, theirs[name], rtol=2e-4, err_msg=name)


def test_resume_refuses_other_pairs_and_another_experiment(folder, straight):
    """The message names the field; how long and how often may differ."""
    other = _config(folder, steps=6, learning_rate=0.5)
    with pytest.raises(ConfigError, match=r"supervision\.learning_rate: 0\.0001 in the checkpoint"):
        train_encoder(other, folder / "straight", resume=True)
    text = (folder / "nli.tsv").read_text()
    (folder / "nli.tsv").write_text(text.replace("neutral", "entailment"))
    try:
        with pytest.raises(CheckpointError, match=r"another text: .*sha256"):
            train_encoder(_config(folder, steps=6), folder / "straight", resume=True)
    finally:
        (folder / "nli.tsv").write_text(text)


def test_a_batch_that_cannot_be_divided_is_refused_before_the_old_run_is_deleted(folder, straight):
    """Bug: --overwrite had emptied the workdir by then."""
    config = _config(folder, train={"batch_size": 16, "accumulate": 4})
    with pytest.raises(ConfigError, match=r"train\.accumulate=4 must divide the batch of 6"):
        train_encoder(config, folder / "straight", overwrite=True)
    assert CheckpointStore(folder / "straight").steps()[-1] == straight.step


def test_a_checkpoint_of_before_supervision_is_resumed():
    """Fields it does not have take their defaults; comparing with None refused every old run."""

    config = Config()
    stored = config.to_dict()
    del stored["objective"], stored["supervision"]
    state = {"step": 3, "features": 4, "actnorm_init": {"rows": 2}, "constant_dims": []}
    old = Records(state, stored, {}, {})
    resume_check("here", config, {}, {})(old)
    with pytest.raises(ConfigError, match="objective: 'flow' in the checkpoint, 'siamese' now"):
        resume_check("here", dataclasses.replace(config, objective="siamese"), {}, {})(old)


def test_overwrite_never_deletes_the_pairs(tmp_path):
    path = tmp_path / "run" / "nli.tsv"
    path.parent.mkdir()
    (path.parent / "metrics.jsonl").touch()
    path.write_text("sentence1\tsentence2\tlabel\na\tb\tneutral\n")
    config = Config(objective="siamese", supervision=SupervisionConfig(path=str(path)))
    with pytest.raises(WorkdirError, match=r"--overwrite would delete supervision\.path="):
        train_encoder(config, path.parent, overwrite=True)
    with pytest.raises(ConfigError, match="objective='siamese' trains the encoder"):
        train(config, tmp_path / "flow")


def test_ctrl_c_saves_and_resume_goes_on(folder, straight, monkeypatch):
    """Stopped between two steps; the rest gives what an uninterrupted run gives."""
    from bertflow_jax.training import supervised_loop

    checks = iter([False, False, False, True])

    def check(self):
        if next(checks):
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(supervised_loop.Interrupt, "check", check)
        with pytest.raises(KeyboardInterrupt):
            train_encoder(_config(folder), folder / "stopped")
    assert CheckpointStore(folder / "stopped").steps() == [2, 3]
    assert not (folder / "stopped" / "encoder").exists()
    train_encoder(_config(folder), folder / "stopped", resume=True)
    assert (
        max_difference(_encoder_arrays(folder / "stopped"), _encoder_arrays(folder / "straight"))
        == 0.0
    )
