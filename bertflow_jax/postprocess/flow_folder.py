"""The folder of a fitted flow."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import flax.traverse_util

from bertflow_jax.config import Config, FlowConfig, TrainConfig
from bertflow_jax.config_fields import from_dict
from bertflow_jax.jax_settings import refuse_fork
from bertflow_jax.postprocess.flow_functions import expected_variables
from bertflow_jax.postprocess.known_encoder import recorded
from bertflow_jax.postprocess.saved_settings import entry
from bertflow_jax.postprocess.storage import DAMAGE, Folder, unreadable

_FOLDER = Folder("flow")


def write_flow(
    folder: str | Path,
    config: FlowConfig,
    train: TrainConfig,
    seed: int,
    variables: dict[str, Any],
    features: int,
    known: Mapping[str, Any],
) -> None:
    """Write a fitted flow into a folder; `known` are further entries. Raises WorkdirError."""
    described = {
        **known,
        "features": features,
        "seed": seed,
        "flow": dataclasses.asdict(config),
        "train": dataclasses.asdict(train),
    }
    _FOLDER.save(folder, described, flax.traverse_util.flatten_dict(variables, sep="/"))


def read_flow(
    folder: str | Path,
) -> tuple[FlowConfig, TrainConfig, int, dict[str, Any], int, dict[str, Any] | None]:
    """Return what `write_flow` was given: config, train, seed, variables, D, its encoder.

    Raises:
      DataNotFoundError: the folder or one of its two files is missing.
      CheckpointError: a file is damaged, or the arrays do not fit the config or hold a number that
        is not finite.
      InputError: in a fork that JAX cannot be used in.
    """
    path = _FOLDER.find(folder, "flow")
    refuse_fork()  # else the files would be called damaged
    try:
        described, flat = _FOLDER.read(path)
        flow_fields, train_fields, seed, features = (
            entry(described, name, _FOLDER.json_name)
            for name in ("flow", "train", "seed", "features")
        )
        config = from_dict(FlowConfig, flow_fields, "flow.")
        train = from_dict(TrainConfig, train_fields, "train.")
        Config(seed=seed, flow=config, train=train).validate()
        fitted_on = recorded(described)
        # Else a damaged number of steps would be built before it is compared with the arrays.
        if config.levels * config.depth > len(flat):
            raise ValueError(
                f"levels={config.levels} and depth={config.depth} are more steps than "
                f"{_FOLDER.arrays_name} has arrays"
            )
        expected = expected_variables(config, features)
    except DAMAGE as error:
        raise unreadable(path, "flow", error) from error
    _FOLDER.check(path, described, flat, expected)
    variables = flax.traverse_util.unflatten_dict(flat, sep="/")
    return config, train, seed, variables, features, fitted_on
