"""What every post-processor of embeddings offers, and what the compiled encoder needs of it."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, Self

import jax
import numpy as np

from bertflow_jax.checks import check_count
from bertflow_jax.errors import InputError, shown
from bertflow_jax.jax_settings import own_settings


@dataclasses.dataclass(frozen=True)
class PureTransform:
    """A fitted post-processor as a pure function, for use inside the encoder's compiled call.

    Attributes:
      name: key of its parameters in `SentenceEncoder.params`, as `flow`.
      transform: (params, u float32[B, D]) -> z float32[B, K].
      params: its parameters, a pytree.
    """

    name: str
    transform: Callable[[Any, jax.Array], jax.Array]
    params: Any

    def __post_init__(self) -> None:
        """Make the function a key, by which encoders that share it share what is compiled.

        Raises:
          InputError: no name, or no function.
        """
        if not isinstance(self.name, str):
            raise InputError(f"name={shown(self.name)}: must be a str, a key of parameters")
        if not callable(self.transform):
            raise InputError(
                f"transform={shown(self.transform)}: must be a function (params, u) -> z"
            )
        try:
            hash(self.transform)
        except TypeError:  # an object of one's own class, such as a dataclass
            object.__setattr__(self, "transform", functools.partial(self.transform))


class PostProcessor(Protocol):
    """The common part of `Flow`, `Standardize`, `NATSV`, `Whitening`, `Reduce` and `Compose`."""

    @property
    def name(self) -> str:
        """The kind, as in rows of an evaluation."""

    @property
    def features(self) -> int | None:
        """D of the embeddings it was fitted on, None before."""

    @property
    def latent_features(self) -> int | None:
        """K of what `transform` gives, None before `fit`."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor; see `SklearnApi`."""

    def set_params(self, **params: Any) -> Self:
        """Set arguments of the constructor by name and return itself; see `SklearnApi`."""

    def fit(self, embeddings: np.ndarray) -> Self:
        """Fit to embeddings float[N, D] and return itself."""

    def fit_examples(self, embeddings: np.ndarray, rows: np.ndarray) -> Self:
        """Fit to examples of one or two sentences and return itself; see `Flow.fit_examples`."""

    def transform(self, embeddings: np.ndarray) -> np.ndarray:
        """Map embeddings float[N, D] to float32[N, K]."""

    def inverse_transform(self, latents: np.ndarray) -> np.ndarray:
        """Map float[N, K] back to embeddings float32[N, D]."""

    def save(self, folder: str | Path) -> None:
        """Write it into a folder, in place of a post-processor of any kind that is saved there.

        `bertflow_jax.postprocess.load` reads every kind.
        """

    def pure(self) -> PureTransform:
        """Return `transform` as a pure function of parameters and embeddings."""


@own_settings()
def normal_rows(key: jax.Array, n: int, features: int) -> jax.Array:
    """Draw float32[n, features] from N(0, I); raises InputError for a key or an n that is none."""
    rows = check_count(n, "n", 0)
    try:
        return jax.random.normal(key, (rows, features), np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"key must be one JAX random key, as jax.random.key(0), not {type(key).__name__}"
        ) from error
