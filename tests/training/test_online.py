"""Fitting a flow with BERT inside the step. Each test names the bug it catches."""

import dataclasses
import json
import shutil

import jax
import numpy as np
import pytest

from bertflow_jax.checkpoint import CheckpointStore
from bertflow_jax.config import (
    CheckpointConfig,
    Config,
    DataConfig,
    EncoderConfig,
    FlowConfig,
    TrainConfig,
)
from bertflow_jax.encoder.hub import MINI_BERT, resolve_folder
from bertflow_jax.evaluation.plot_data import training_curves
from bertflow_jax.restore import load_run
from bertflow_jax.training.run import train

CURVES = {"fit": "bits_per_dim", "held out": "held_out_bits_per_dim"}


@pytest.fixture(scope="module")
def without_dropout(tmp_path_factory):
    """mini_bert with every dropout rate 0: online and cached embeddings are then the same."""
    folder = tmp_path_factory.mktemp("encoder") / "plain"
    shutil.copytree(resolve_folder(MINI_BERT), folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Pairs of unequal lengths in a TSV."""
    path = tmp_path_factory.mktemp("text") / "pairs.tsv"
    rows = [f"left {i} {'word ' * (i % 5)}\tright side {i} {'more ' * (i % 3)}" for i in range(60)]
    path.write_text("a\tb\n" + "\n".join(rows) + "\n")
    return str(path)


def config(encoder, text, tmp_path, mode, **fields):
    return Config(
        encoder=EncoderConfig(path=encoder, pooling="first_last"),
        flow=FlowConfig(levels=1, depth=1, width=8, **fields),
        data=DataConfig(path=text, columns="a,b", held_out=0.1),
        train=TrainConfig(steps=6, batch_size=8, log_every=1, mode=mode, tensorboard=False),
        checkpoint=CheckpointConfig(every=3),
        cache_dir=str(tmp_path / "cache"),
    )


def curves(workdir):
    return training_curves(workdir / "metrics.jsonl", CURVES)


def variables(workdir):
    return jax.tree.leaves(load_run(workdir).flow.variables)


def test_without_dropout_online_is_cached(without_dropout, text, tmp_path):
    """Catches another order of examples, padding that changes an embedding, a pair's two losses
    averaged, a held-out set of other sentences."""
    for mode in ("cached", "online"):
        chosen = config(without_dropout, text, tmp_path, mode, actnorm_init="identity")
        train(chosen, tmp_path / mode)
    cached, online = curves(tmp_path / "cached"), curves(tmp_path / "online")
    for name in CURVES:
        np.testing.assert_allclose(online[name], cached[name], rtol=1e-5)
    assert len(cached["fit"]) == 6
    for one, other in zip(
        variables(tmp_path / "online"), variables(tmp_path / "cached"), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_dropout_is_on_and_differs_by_step(text, tmp_path):
    """Catches an encoder in evaluation mode, and one key for all steps."""
    chosen = config("mini_bert", text, tmp_path, "online", actnorm_init="released")
    train_section = dataclasses.replace(
        chosen.train, batch_size=54, learning_rate=1e-12, weight_decay=0.0
    )
    train(dataclasses.replace(chosen, train=train_section), tmp_path / "run")
    # Every step sees all examples and changes nothing: what differs is dropout.
    losses = [loss for _, loss in curves(tmp_path / "run")["fit"]]
    assert len(set(losses)) == 6
    assert np.ptp(losses) < 0.1


def test_resumed_is_straight(text, tmp_path):
    """Catches a key that counts from the start of the process; mini_bert's dropout is on."""
    chosen = config("mini_bert", text, tmp_path, "online")
    train(chosen, tmp_path / "straight")
    half = dataclasses.replace(chosen, train=dataclasses.replace(chosen.train, steps=3))
    train(half, tmp_path / "halves")
    train(chosen, tmp_path / "halves", resume=True)
    for one, other in zip(
        variables(tmp_path / "straight"), variables(tmp_path / "halves"), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert curves(tmp_path / "straight") == curves(tmp_path / "halves")


def test_constant_dimensions_keep_an_ordinary_gain(without_dropout, text, tmp_path):
    """Catches noise left out online: a constant dimension's gain would grow without bound."""
    import safetensors.numpy

    folder = tmp_path / "constant"
    shutil.copytree(without_dropout, folder)
    weights = safetensors.numpy.load_file(folder / "model.safetensors")
    last = max(
        name
        for name in weights
        if name.endswith("output.LayerNorm.weight") and "attention" not in name
    )
    first = last.replace(".3.", ".0.")
    for name in (last, first):
        weights[name] = weights[name].copy()
        weights[name][5] = 0.0
    safetensors.numpy.save_file(weights, folder / "model.safetensors", {"format": "pt"})
    chosen = config(str(folder), text, tmp_path, "online")
    train(
        dataclasses.replace(chosen, train=dataclasses.replace(chosen.train, steps=12)),
        tmp_path / "run",
    )
    run = load_run(tmp_path / "run")
    record = CheckpointStore(tmp_path / "run").records(12).state
    assert record["constant_dims"] == [5]
    assert record["constant_deviation"] > 0
    u = run.encoder.encode(["left", "right side"])
    moved = u.copy()
    moved[:, 5] += 1e-3
    gain = np.abs(run.flow.transform(moved) - run.flow.transform(u)).max() / 1e-3
    assert gain < 1e3
