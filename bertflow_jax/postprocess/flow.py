"""`Flow`: the method on any embeddings, without BERT."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np

from bertflow_jax.checks import check_switch
from bertflow_jax.config import Config, FlowConfig, TrainConfig
from bertflow_jax.embedding_checks import check_embeddings, check_examples
from bertflow_jax.jax_settings import own_settings
from bertflow_jax.postprocess.base import PureTransform, normal_rows
from bertflow_jax.postprocess.column_names import check_columns, column_names
from bertflow_jax.postprocess.flow_folder import read_flow, write_flow
from bertflow_jax.postprocess.flow_functions import (
    check_variables,
    in_few_shapes,
    loaded_glow,
    own_config,
    pure_flow,
    sampled,
)
from bertflow_jax.postprocess.hub_folder import HubFolder
from bertflow_jax.postprocess.known_encoder import KnownEncoder, own_record
from bertflow_jax.postprocess.sklearn_api import SklearnApi, not_fitted


class Flow(KnownEncoder, HubFolder, SklearnApi):
    """A normalizing flow that maps embeddings to N(0, I); forward means embedding -> latent.

    Attributes:
      name: of the kind, `flow`.
      config: shape of the flow; a fit makes it a copy of its own, and so `train`.
      seed: of the parameters, the order of the rows and dropout.
      train: how it is fitted.
      variables: the fitted parameters, None before `fit`.
      features: D, None before `fit`.
      fitted_on: `encoder_origin` of the encoder whose vectors it was fitted on, None if unknown.
    """

    name = "flow"

    def __init__(
        self,
        config: FlowConfig | None = None,
        seed: int = 0,
        train: TrainConfig | None = None,
    ):
        """Make an unfitted flow; the defaults are the released ones.

        Raises:
          ConfigError: a field has an impossible value.
        """
        self.config = FlowConfig() if config is None else config
        self.seed = seed
        self.train = TrainConfig() if train is None else train
        Config(seed=seed, flow=self.config, train=self.train).validate()
        self._variables: dict[str, Any] | None = None
        self._features: int | None = None

    # Properties: scikit-learn takes an attribute that `fit` sets under a public name for an error.
    @property
    def config(self) -> FlowConfig:
        """Shape of the flow."""
        return self._config

    @config.setter
    def config(self, value: FlowConfig) -> None:
        self._config = value

    @property
    def train(self) -> TrainConfig:
        """How it is fitted."""
        return self._train

    @train.setter
    def train(self, value: TrainConfig) -> None:
        self._train = value

    @property
    def variables(self) -> dict[str, Any] | None:
        """The fitted parameters, None before `fit`."""
        return self._variables

    @property
    def features(self) -> int | None:
        """D of the embeddings it was fitted on, None before."""
        return self._features

    @property
    def latent_features(self) -> int | None:
        """K of what `transform` gives: D, None before `fit`."""
        return self._features

    @classmethod
    def from_variables(
        cls,
        config: FlowConfig,
        variables: dict[str, Any],
        features: int,
        seed: int = 0,
        fitted_on: Mapping[str, Any] | None = None,
    ) -> "Flow":
        """Return a flow with these parameters (of `bertflow_jax.flow.glow.init_variables`).

        Raises:
          InputError: no config, variables of another flow than its, or no record.
          ConfigError: a field has an impossible value, or D is too small for the levels.
        """
        flow = cls(own_config(config), seed)
        check_variables(variables, flow.config, features)
        flow._variables, flow._features = variables, features
        flow._fitted_on = own_record(fitted_on)
        return flow

    def fit(self, embeddings: np.ndarray, y: object = None, *, progress: bool = False) -> Self:
        """Fit the flow to embeddings by maximum likelihood and return it.

        Args:
          embeddings: float[N, D], finite, at least two different rows.
          y: has no effect.
          progress: show a progress bar.

        Raises:
          InputError: embeddings of a wrong shape or not finite.
          ConfigError: D is too small for the levels.
          TrainingError: all rows are equal, or the loss stopped being finite.
        """
        names, embeddings = column_names(embeddings), check_embeddings(embeddings)
        rows = np.arange(len(embeddings), dtype=np.int32)[:, None]
        self.fit_examples(embeddings, rows, progress=progress)
        self._names = names
        return self

    @own_settings()
    def fit_examples(
        self, embeddings: np.ndarray, rows: np.ndarray, *, progress: bool = False
    ) -> Self:
        """Fit the flow to examples of one or two sentences, as train.py does, and return it.

        Args:
          embeddings: float[U, D], one row a distinct sentence.
          rows: int32[N, S], the sentences of each example; the losses of a pair's add up.
          progress: show a progress bar.

        Raises:
          as `fit`; InputError for rows that are none.
        """
        embeddings = check_embeddings(embeddings)
        rows = check_examples(rows, len(embeddings))
        check_switch(progress, "progress")
        self.set_params(**self.get_params(deep=False))  # also what was set since is checked
        # Imported here for the same reason as in `_glow`: optax and orbax.
        from bertflow_jax.training.fit import initial_state, prepare_data
        from bertflow_jax.training.loop import run_fit

        config = Config(seed=self.seed, flow=self.config, train=self.train)
        data = prepare_data(embeddings, rows, held_out=0.0, seed=self.seed)
        result = run_fit(config, data, initial_state(config, data), progress=progress)
        # Copies of its own: the caller may change those for a next flow, of another shape.
        self.config, self.train = dataclasses.replace(self.config), dataclasses.replace(self.train)
        self._variables, self._features = result.state.variables, data.features
        self._names = self._fitted_on = None
        return self

    def transform(self, embeddings: np.ndarray) -> np.ndarray:
        """Map embeddings float[N, D] to latents float32[N, D].

        Raises:
          InputError: a wrong shape, or a row (its number in the text) that is not finite or becomes
            too large for float32; so do `inverse_transform` and `log_prob`.
        """
        return self._apply("forward", embeddings)

    def inverse_transform(self, latents: np.ndarray) -> np.ndarray:
        """Map latents float[N, D] back to embeddings float32[N, D]."""
        return self._apply("inverse", latents)

    def log_prob(self, embeddings: np.ndarray) -> np.ndarray:
        """Return the log-density of embeddings float[N, D], float32[N] in nats."""
        return self._apply("log_prob", embeddings)

    def sample(self, key: jax.Array, n: int) -> np.ndarray:
        """Draw n embeddings from the fitted density, float32[n, D].

        Args:
          key: a JAX random key.
          n: number of rows.

        Raises:
          InputError: `key` is no random key, or `n` no integer >= 0.
        """
        variables, features = self._fitted()
        return sampled(self.config, variables, normal_rows(key, n, features))

    @property
    def distribution(self) -> Any:
        """The density over embeddings, a `distrax.Transformed`."""
        variables, features = self._fitted()
        return loaded_glow().distribution(self.config, variables, features)

    def save(self, folder: str | Path) -> None:
        """Write the fitted flow into a folder (safetensors and JSON, no pickle).

        Raises:
          WorkdirError: the folder is blank, a file, or cannot be written.
        """
        variables, features = self._fitted()
        known = self._record_entry()
        write_flow(folder, self.config, self.train, self.seed, variables, features, known)

    @classmethod
    def load(cls, folder: str | Path) -> "Flow":
        """Read a flow written by `save`.

        Raises:
          DataNotFoundError: the folder or one of its two files is missing.
          CheckpointError: a file is damaged, or the arrays do not fit the config or hold a
            number that is not finite.
        """
        config, train, seed, variables, features, fitted_on = read_flow(folder)
        flow = cls(config, seed, train)
        flow._variables, flow._features, flow._fitted_on = variables, features, fitted_on
        return flow

    def pure(self) -> PureTransform:
        """Return `transform` as a pure function of the flow's variables."""
        variables, _ = self._fitted()
        return PureTransform(self.name, pure_flow("forward", self.config), variables)

    def _fitted(self) -> tuple[dict[str, Any], int]:
        if self._variables is None or self._features is None:
            raise not_fitted("this flow is not fitted yet: call fit(embeddings) or Flow.load")
        return self._variables, self._features

    def _forget(self) -> None:
        self._variables = self._features = self._names = self._fitted_on = None

    def _is_density(self) -> bool:
        return True

    def _apply(self, what: str, rows: np.ndarray) -> np.ndarray:
        """Run a compiled function over rows in calls of a few fixed shapes."""
        variables, features = self._fitted()
        if what != "inverse":
            check_columns(rows, self._names)
        rows = check_embeddings(rows, features)
        return in_few_shapes(what, self.config, variables, rows)
