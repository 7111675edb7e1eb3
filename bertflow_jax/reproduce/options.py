"""What a reproduction is asked for, and the configs of configs/paper."""

import dataclasses
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertflow_jax.config import Config, field_names
from bertflow_jax.data.tfds_builders import tfds_folder
from bertflow_jax.encoder.hub import check_encoder_name
from bertflow_jax.errors import BertFlowError, ConfigError, DataNotFoundError
from bertflow_jax.paths import user_path
from bertflow_jax.reproduce.tables import TABLES, Row, Table
from bertflow_jax.supervision_config import comma_separated

ENCODERS = ("base", "large", "base_nli", "large_nli")
_CONFIGS = Path(__file__).parents[2] / "configs" / "paper"


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags.

    Attributes:
      table: number of the paper's table.
      rows: names; empty takes all.
      data_dir: of the STS data (QNLI/ for Table 4), or None.
      nli: files of labelled NLI pairs for the rows with NLI, separated by commas, or "".
      encoders: name of `ENCODERS` -> folder or Hub id, in place of the config's.
      corpus: text whose words Table 1 counts; None takes the order of the vocabulary.
      overrides: dotted config field -> value, for every fit.
      output: folder of runs and scores.
    """

    table: int
    rows: tuple[str, ...] = ()
    data_dir: str | None = None
    nli: str = ""
    encoders: Mapping[str, str] = dataclasses.field(default_factory=dict)
    corpus: str | None = None
    overrides: Mapping[str, str] = dataclasses.field(default_factory=dict)
    output: str = "runs/paper"

    def chosen(self) -> tuple[Table, tuple[Row, ...]]:
        """Return the table and the rows asked for; raises ConfigError naming the flag."""
        if self.table not in TABLES:
            known = ", ".join(map(str, sorted(TABLES)))
            raise ConfigError(f"--table={self.table}: the paper's tables here are {known}")
        table = TABLES[self.table]
        names = [row.name for row in table.rows]
        unknown = [name for name in self.rows if name not in names]
        if unknown:
            raise ConfigError(
                f"--rows: table {table.number} has no row {', '.join(unknown)}; its rows are "
                f"{', '.join(names)}"
            )
        unknown = [name for name in self.encoders if name not in ENCODERS]
        if unknown:
            raise ConfigError(
                f"--encoders: unknown {', '.join(unknown)}; NAME=PATH with NAME of "
                f"{', '.join(ENCODERS)}"
            )
        return table, tuple(row for row in table.rows if not self.rows or row.name in self.rows)

    def checked(self) -> tuple[Table, tuple[Row, ...]]:
        """Like `chosen`; raises for every flag that can be seen to be wrong before anything runs.

        Raises:
          ConfigError, DataNotFoundError: naming the flag.
        """
        table, rows = self.chosen()
        _check_files(self)
        for name, path in self.encoders.items():
            try:
                check_encoder_name(path)
            except BertFlowError as error:
                raise DataNotFoundError(f"--encoders={name}={path}: {error}") from error
        needed = {row.recipe for row in rows} | {
            row.encoder for row in rows if row.encoder.endswith("_nli")
        }
        for recipe in sorted(needed):
            config = recipe_config(recipe, self.overrides)
            try:
                config.validate()
            except ConfigError as error:
                raise ConfigError(f"--set (config of {recipe}): {error}") from error
        return table, rows


def _check_files(options: Options) -> None:
    """Raise ConfigError or DataNotFoundError for a file or folder that is not there."""
    if options.data_dir is not None:
        if not options.data_dir.strip():
            raise ConfigError("--data_dir is blank; name the folder of the STS data")
        prepared = tfds_folder(options.data_dir, "--data_dir")
        if not os.path.isdir(prepared or user_path(options.data_dir, "--data_dir")):
            raise DataNotFoundError(f"--data_dir={options.data_dir}: no such folder")
    files = [("--nli", path) for path in comma_separated(options.nli)]
    files += [("--corpus", options.corpus)] if options.corpus is not None else []
    for flag, path in files:
        if not os.path.isfile(user_path(path, flag)):
            raise DataNotFoundError(f"{flag}={path}: no such file")


def recipe_config(name: str, overrides: Mapping[str, str]) -> Config:
    """Return the config of configs/paper/NAME.py with fields overridden.

    Raises:
      DataNotFoundError: there is no such file (configs/ comes with a checkout, not a wheel).
      ConfigError: an unknown field, or a value that is not of its type.
    """
    path = _CONFIGS / f"{name}.py"
    if not path.is_file():
        raise DataNotFoundError(f"{path} not found: run this in a checkout of the repository")
    spec = importlib.util.spec_from_file_location(f"paper_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    config: Config = module.get_config()
    for field, value in overrides.items():
        config = with_field(config, field, value)
    return config


def with_field(config: Config, field: str, value: str) -> Config:
    """Return a config with one dotted field set from text."""
    if field not in field_names(Config):
        raise ConfigError(f"--set={field}={value}: unknown config field {field!r}")
    return _replaced(config, field.split("."), value, field)


def _replaced(section: Any, names: list[str], value: str, field: str) -> Any:
    name, *rest = names
    old = getattr(section, name)
    if rest:
        return dataclasses.replace(section, **{name: _replaced(old, rest, value, field)})
    try:
        new: Any = {"true": True, "false": False}[value.lower()] if isinstance(old, bool) else value
        return dataclasses.replace(section, **{name: type(old)(new)})
    except (ValueError, KeyError) as error:
        raise ConfigError(f"--set={field}={value}: must be of type {type(old).__name__}") from error
