"""A run's flow knows its encoder: saved and loaded, it is refused beside another one."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax.config import Config, DataConfig, EncoderConfig, FlowConfig, TrainConfig
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.encoder.origin import encoder_origin
from bertflow_jax.errors import CheckpointError, DataNotFoundError, InputError
from bertflow_jax.postprocess import Center, Compose, Flow, load
from bertflow_jax.restore import load_run
from bertflow_jax.training.run import train

ROOT = Path(__file__).resolve().parents[2]
LINES = [f"{count} sparrows sit on the {place}." for count in ["two", "four", "six"]
         for place in ["roof", "fence", "lawn", "wall"]]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("origin")
    (folder / "text.txt").write_text("\n".join(LINES), "utf-8")
    config = Config(
        encoder=EncoderConfig(path="mini_bert", pooling="first_last"),
        flow=FlowConfig(levels=1, depth=1, width=4),
        data=DataConfig(path=str(folder / "text.txt")),
        train=TrainConfig(steps=3, batch_size=4, tensorboard=False),
    )
    train(config, folder / "run")
    return load_run(folder / "run")


@pytest.fixture(scope="module")
def saved(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "flow"
    run.flow.save(folder)
    return folder


def test_the_same_encoder_is_taken_whatever_length_and_type(run, saved):
    """What users choose anew where they embed is no other encoder."""
    encoder = SentenceEncoder.from_pretrained("mini_bert", "first_last", max_length=40)
    vectors = encoder.with_postprocess(load(saved)).encode(LINES)
    expected = run.flow.transform(run.encoder.encode(LINES))
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    other_type = SentenceEncoder.from_pretrained("mini_bert", "first_last", dtype="bfloat16")
    assert other_type.with_postprocess(load(saved)).dimension == encoder.dimension


@pytest.mark.parametrize("wrap", [lambda flow: flow, lambda flow: Compose([flow, Center()])])
def test_another_pooling_is_refused(run, saved, wrap, tmp_path):
    """Bug: --flow without the --pooling of the run gave vectors of no meaning, and no word."""
    wrapped = wrap(load(saved))
    if isinstance(wrapped, Compose):
        wrapped.steps[1].fit(run.flow.transform(run.encoder.encode(LINES)))
    wrapped.save(tmp_path / "again")
    encoder = SentenceEncoder.from_pretrained("mini_bert")
    with pytest.raises(InputError, match=r"another encoder: pooling .*; it is for pooling "):
        encoder.with_postprocess(load(tmp_path / "again"))


def test_other_weights_are_refused(run, saved, tmp_path):
    run.encoder.save_pretrained(tmp_path / "encoder")
    same = SentenceEncoder.from_pretrained(tmp_path / "encoder")
    assert same.with_postprocess(load(saved)).dimension == 256
    origin = encoder_origin(run.encoder.encoder)
    other = {**origin, "weights_sha256": "0" * 64}
    flow = Flow.from_variables(run.flow.config, run.flow.variables, 256, fitted_on=other)
    with pytest.raises(InputError, match=r"another encoder: its weights \(fine-tuned or replaced"):
        same.with_postprocess(flow)


def test_a_saved_encoder_is_no_run(run, tmp_path):
    """Bug: "train first", where the run had been trained and saved."""
    run.encoder.with_postprocess(run.flow).save_pretrained(tmp_path)
    with pytest.raises(DataNotFoundError, match=r"not of a run: give it as --encoder, in Python"):
        SentenceEncoder.from_checkpoint(tmp_path)


def test_vectors_of_anybody_are_not_of_the_run(run, saved):
    """A flow that is fitted anew has forgotten where it came from."""
    flow = load(saved)
    assert flow.fitted_on == run.flow.fitted_on == encoder_origin(run.encoder.encoder)
    flow.train.steps = 1
    flow.fit(SentenceEncoder.from_pretrained("mini_bert").encode(LINES))
    assert flow.fitted_on is None


def test_a_record_that_is_none_is_a_damaged_flow(saved, tmp_path):
    load(saved).save(tmp_path)
    described = json.loads((tmp_path / "flow_config.json").read_text("utf-8"))
    (tmp_path / "flow_config.json").write_text(json.dumps({**described, "fitted_on": 3}))
    with pytest.raises(CheckpointError, match="fitted_on is 3"):
        Flow.load(tmp_path)


def test_the_command_says_so(saved, tmp_path):
    (tmp_path / "in.txt").write_text("one\ntwo\n", "utf-8")
    flags = [f"--flow={saved}", f"--input={tmp_path}/in.txt", f"--output={tmp_path}/out.npy"]
    done = subprocess.run(
        [sys.executable, "-m", "bertflow_jax.embed", "--encoder=mini_bert", *flags],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "error: the flow was fitted on the vectors of another encoder: pooling" in done.stderr
    assert not (tmp_path / "out.npy").exists()
