"""Every field of a configuration: its type and its bounds, and the name in the message."""

import dataclasses
import json
import re

import numpy as np
import pytest

from bertflow_jax.config import (
    CheckpointConfig,
    Config,
    DataConfig,
    EncoderConfig,
    FlowConfig,
    SupervisionConfig,
    TrainConfig,
)
from bertflow_jax.errors import ConfigError

PARTS = {
    "encoder": EncoderConfig,
    "flow": FlowConfig,
    "data": DataConfig,
    "train": TrainConfig,
    "checkpoint": CheckpointConfig,
    "supervision": SupervisionConfig,
}
FIELDS = [(part, field) for part, section in PARTS.items() for field in dataclasses.fields(section)]


def config_with(name, value):
    part, _, field = name.rpartition(".")
    return Config(**({part: PARTS[part](**{field: value})} if part else {name: value}))


@pytest.mark.parametrize(("part", "field"), FIELDS, ids=lambda x: getattr(x, "name", x))
def test_every_field_has_its_type(part, field):
    """Catches TypeError far from the field, and True taken for 1."""
    name = f"{part}.{field.name}"
    wrong = {int: ("3", 3.5, None, True), float: ("0.1", None, True, 1j)}
    for value in wrong.get(field.type, (5, None, ["x"])):
        expected = f"{name}={value!r}: must be of type {field.type.__name__}, not "
        with pytest.raises(ConfigError, match=re.escape(expected) + type(value).__name__):
            config_with(name, value).validate()


def test_numbers_of_numpy_are_numbers():
    """Bug: np.arange(3)[1] refused as a depth, or kept, and no JSON could hold the config."""
    flow = FlowConfig(depth=np.int64(2), width=np.uint8(4), dropout=np.float32(0.5))
    flow.validate()
    assert json.loads(json.dumps(dataclasses.asdict(flow)))["dropout"] == 0.5
    assert [type(x) for x in (flow.depth, flow.width, flow.dropout)] == [int, int, float]
    for value in (np.float64(2.0), np.True_, np.array([2])):
        with pytest.raises(ConfigError, match=r"flow.depth=.* must be of type int"):
            FlowConfig(depth=value).validate()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", None),
        ("seed", 1.5),
        ("seed", -1),
        ("seed", 2**63),
        ("cache_dir", 5),
        ("train", {"steps": 3}),
        ("flow", None),
        ("train.steps", 2**31),
        ("train.steps", -1),
        ("train.epochs", float("inf")),
        ("train.epochs", 1e308),
        ("train.epochs", 1e7),
        ("train.epochs", 0.0),
        ("train.epochs", 10**400),
        ("train.learning_rate", float("inf")),
        ("train.learning_rate", float("nan")),
        ("train.weight_decay", float("inf")),
        ("train.weight_decay", float("nan")),
        ("train.weight_decay", -0.1),
        ("train.clip_norm", float("nan")),
        ("train.clip_norm", 0),
        ("train.batch_size", 0),
        ("train.batch_size", np.float32(2)),
        ("data.held_out", float("nan")),
        ("data.held_out", 0.6),
        ("flow.dropout", float("nan")),
        ("flow.dropout", 1.0),
        ("flow.levels", 0),
        ("encoder.max_length", 2),
        ("checkpoint.keep", 0),
        ("checkpoint.keep_best", -1),
        ("objective", "siamesee"),
        ("supervision.format", "parquet"),
        ("supervision.dev_metric", "f1"),
        ("supervision.warmup", 1.0),
        ("supervision.warmup", -0.1),
        ("supervision.learning_rate", 0.0),
        ("supervision.norm_penalty", -1.0),
        ("supervision.duplicate", 0),
        ("supervision.labelled", -1),
        ("supervision.patience", -1),
        ("supervision.joint_loss", "flow"),
        ("supervision.columns", "a,b,c"),
        ("supervision.label_names", "yes,no"),
        ("supervision.label_names", "yes,Yes,no"),
        ("supervision.label_names", "yes,-,no"),
        ("supervision.score_range", "0,inf"),
        ("supervision.score_range", "-1e308,1e308"),
        ("supervision.score_range", "5,0"),
        ("supervision.score_range", "nan,5"),
    ],
)
def test_impossible_values_are_named(name, value):
    """Catches OverflowError when the steps are counted, and a fit of NaN."""
    with pytest.raises(ConfigError, match=re.escape(f"{name}={value!r}: must be ")):
        config_with(name, value).validate()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", 2**63 - 1),
        ("train.steps", 2**31 - 1),
        ("train.learning_rate", 1),
        ("train.clip_norm", 1e30),
        ("data.held_out", 0),
        ("train.tensorboard", False),
    ],
)
def test_the_bounds_themselves_pass(name, value):
    """Catches an int refused where a float stands."""
    config_with(name, value).validate()


def test_epochs_do_not_matter_with_steps():
    Config(train=TrainConfig(steps=3, epochs=0)).validate()


@pytest.mark.parametrize("objective", ["siamese", "regression", "joint"])
def test_labelled_pairs_are_needed(objective):
    """Catches a run that starts and finds out late that it has no data."""
    with pytest.raises(ConfigError, match=rf"supervision\.path='': objective={objective} needs"):
        Config(objective=objective).validate()
    Config(objective=objective, supervision=SupervisionConfig(path="x")).validate()


def test_dict_and_back():
    """Catches a field lost on the way into a checkpoint."""
    config = Config(seed=4, flow=FlowConfig(levels=1), train=TrainConfig(steps=9))
    assert Config.from_dict(config.to_dict()) == config
    old = {name: value for name, value in config.to_dict().items() if name != "supervision"}
    assert Config.from_dict(old) == config  # a checkpoint of before there was such a section
    with pytest.raises(ConfigError, match=r"train\.stepz"):
        Config.from_dict({"train": {"stepz": 3}})
