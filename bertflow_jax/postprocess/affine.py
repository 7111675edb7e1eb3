"""Post-processors that are one affine map, z = (u - mean) A, fitted from mean and covariance."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Self

import jax
import numpy as np
from numpy.typing import NDArray

from bertflow_jax.embedding_checks import check_embeddings, check_examples, check_results
from bertflow_jax.errors import CheckpointError, InputError
from bertflow_jax.postprocess.affine_functions import (
    STEP_ROWS,
    affine_transform,
    arrays_on_device,
    by_rows,
    iterable_of_batches,
    rank_of,
    single_parameters,
    times,
)
from bertflow_jax.postprocess.base import PureTransform, normal_rows
from bertflow_jax.postprocess.column_names import check_columns, column_names
from bertflow_jax.postprocess.hub_folder import HubFolder
from bertflow_jax.postprocess.known_encoder import KnownEncoder, recorded
from bertflow_jax.postprocess.moments import Moments
from bertflow_jax.postprocess.saved_settings import entry, made_of, object_entry, shapes_entry
from bertflow_jax.postprocess.sklearn_api import SklearnApi, not_fitted
from bertflow_jax.postprocess.storage import DAMAGE, Folder, unreadable

_FOLDER = Folder("post-processor")


class AffineProcessor(KnownEncoder, HubFolder, SklearnApi):
    """z = (u - mean) A. A is a matrix [D, K], or the diagonal [D] of one.

    Attributes:
      name: of the kind, as in rows of an evaluation.
      mean: float64[D], None before `fit`.
      matrix: A, float64[D, K] or float64[D].
      inverse: the pseudo-inverse of A, float64[K, D] or float64[D].
    """

    diagonal: ClassVar[bool] = False  # whether `_solve` wants variances alone
    _mean: NDArray[np.float64] | None = None
    _matrix: NDArray[np.float64] | None = None
    _inverse: NDArray[np.float64] | None = None

    @property
    def mean(self) -> NDArray[np.float64] | None:
        """The mean that is subtracted, float64[D]."""
        return self._mean

    @property
    def matrix(self) -> NDArray[np.float64] | None:
        """A, float64[D, K] or float64[D]."""
        return self._matrix

    @property
    def inverse(self) -> NDArray[np.float64] | None:
        """The pseudo-inverse of A, float64[K, D] or float64[D]."""
        return self._inverse

    def settings(self) -> dict[str, Any]:
        """Return the arguments of the constructor, JSON-safe."""
        return self.get_params(deep=False)

    def _solve(self, moments: Moments) -> tuple[NDArray[np.float64], ...]:
        """Return (mean, A, pseudo-inverse of A)."""
        raise NotImplementedError

    def _is_density(self) -> bool:
        """Whether z ~ N(0, I) is what the fit makes likely, so that log_prob means something."""
        return False

    def fit(self, embeddings: np.ndarray, y: object = None) -> Self:
        """Fit to embeddings float[N, D], N >= 2, and return itself; `y` has no effect.

        The statistics are float64, of float64 embeddings as they are given.

        Raises:
          InputError: a wrong shape, a value that is not finite, fewer than two rows, or more
            directions asked for than the embeddings vary in.
        """
        rows = check_embeddings(embeddings, exact=True)
        self.fit_batches(rows[i : i + STEP_ROWS] for i in range(0, max(1, len(rows)), STEP_ROWS))
        self._names = column_names(embeddings)
        return self

    def fit_examples(self, embeddings: np.ndarray, rows: np.ndarray) -> Self:
        """Fit to every occurrence of a sentence: rows int32[N, S] of embeddings float[U, D].

        Raises as `fit`, and InputError for rows that are none.
        """
        vectors = check_embeddings(embeddings, exact=True)
        order = check_examples(rows, len(vectors)).reshape(-1)
        return self.fit_batches(
            vectors[order[i : i + STEP_ROWS]] for i in range(0, len(order), STEP_ROWS)
        )

    def fit_batches(self, batches: Iterable[np.ndarray]) -> Self:
        """Fit to embeddings that come in batches float[n, D], in the memory of one; as `fit`."""
        moments: Moments | None = None
        self.set_params(**self.get_params(deep=False))  # also what was set since is checked
        for batch in iterable_of_batches(batches):
            features = None if moments is None else len(moments.mean)
            rows = check_embeddings(batch, features, exact=True)
            moments = moments or Moments(rows.shape[1], diagonal=self.diagonal)
            moments.update(rows)
        if moments is None:
            raise InputError("no embeddings to fit on: the iterable of batches is empty")
        self._mean, self._matrix, self._inverse = self._solve(moments)
        self._names = self._fitted_on = None
        return self

    @property
    def features(self) -> int | None:
        """D of the embeddings it was fitted on, None before."""
        return None if self._mean is None else len(self._mean)

    @property
    def latent_features(self) -> int | None:
        """K of what `transform` gives, None before `fit`."""
        return None if self._inverse is None else len(self._inverse)

    def transform(self, embeddings: np.ndarray) -> np.ndarray:
        """Map embeddings float[N, D] to float32[N, K]; computed in float64.

        Raises:
          InputError: as `fit`; a row whose image float32 cannot hold, or holds as zeros alone.
        """
        mean, matrix, _ = self._fitted()
        check_columns(embeddings, self._names)
        rows = check_embeddings(embeddings, len(mean), exact=True)
        return by_rows(rows, lambda u: times(u - mean, matrix), self.name)

    def inverse_transform(self, latents: np.ndarray) -> np.ndarray:
        """Map float[N, K] back to float32[N, D]; what was removed comes back as the mean.

        Raises:
          InputError: as `transform`.
        """
        mean, _, inverse = self._fitted()
        rows = check_embeddings(latents, len(inverse), exact=True)
        return by_rows(rows, lambda z: times(z, inverse) + mean, f"the inverse of {self.name}")

    def log_prob(self, embeddings: np.ndarray) -> np.ndarray:
        """Return the log-density of embeddings float[N, D] under z ~ N(0, I), float32[N] in nats.

        log p(u) = log N(z; 0, I) + log |det A|: the Gaussian that fits the embeddings best.

        Raises:
          InputError: the map is no change of variables to N(0, I) (directions are removed, or are
            given another variance than 1).
        """
        _, matrix, inverse = self._fitted()
        self._require_density("log_prob")
        if rank_of(matrix, inverse) < len(matrix):
            raise InputError(
                "the embeddings do not vary in every direction, so they have no density"
            )
        if matrix.ndim == 1:
            log_det = float(np.log(np.abs(matrix)).sum())
        else:
            log_det = float(np.linalg.slogdet(matrix)[1])
        z = np.asarray(self.transform(embeddings), np.float64)
        log_prior = -0.5 * (np.square(z).sum(axis=1) + z.shape[1] * math.log(2 * math.pi))
        with np.errstate(over="ignore"):  # what float32 cannot hold is refused by name
            density = (log_prior + log_det).astype(np.float32)
        return check_results(density, f"log_prob of {self.name}")

    def sample(self, key: jax.Array, n: int) -> np.ndarray:
        """Draw n embeddings from the fitted Gaussian, float32[n, D].

        Args:
          key: a JAX random key.
          n: number of rows.

        Raises:
          InputError: as `log_prob`; `key` is no random key, or `n` no integer >= 0.
        """
        _, _, inverse = self._fitted()
        self._require_density("sample")
        return self.inverse_transform(np.asarray(normal_rows(key, n, len(inverse))))

    def save(self, folder: str | Path) -> None:
        """Write it into a folder (safetensors and JSON); raises WorkdirError."""
        mean, matrix, inverse = self._fitted()
        arrays = {"mean": mean, "matrix": matrix, "inverse": inverse}
        described = {
            **self._record_entry(),
            "kind": self.name,
            "settings": self.settings(),
            "shapes": {name: list(array.shape) for name, array in arrays.items()},
        }
        _FOLDER.save(folder, described, arrays)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read what `save` wrote.

        Raises:
          DataNotFoundError: a file is missing.
          CheckpointError: a file is damaged, or holds another kind.
        """
        path = _FOLDER.find(folder, cls.name)
        try:
            described, arrays = _FOLDER.read(path)
            name = _FOLDER.json_name
            kind = entry(described, "kind", name)
            if kind != cls.name:
                raise CheckpointError(f"{path} holds a {kind}, not a {cls.name}")
            loaded: Self = made_of(cls, object_entry(described, "settings", name), name)
            _FOLDER.check(path, described, arrays, shapes_entry(described, name))
            loaded._fitted_on = recorded(described)
            loaded._mean, loaded._matrix, loaded._inverse = (
                np.asarray(arrays[name], np.float64) for name in ("mean", "matrix", "inverse")
            )
        except CheckpointError:
            raise
        except DAMAGE as error:
            raise unreadable(path, cls.name, error) from error
        return loaded

    def pure(self) -> PureTransform:
        """Return `transform` as a pure function in float32, for use under jit.

        The mean is given in two float32 parts, so that what is subtracted is the float64 mean.

        Raises:
          InputError: mean or matrix are beyond the range of float32.
        """
        mean, matrix, _ = self._fitted()
        params = single_parameters(mean, matrix, self.name)
        return PureTransform(self.name, affine_transform, arrays_on_device(params))

    def _fitted(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        if self._mean is None or self._matrix is None or self._inverse is None:
            raise not_fitted(f"this {self.name} is not fitted yet: call fit(embeddings) or load")
        return self._mean, self._matrix, self._inverse

    def _forget(self) -> None:
        self._mean = self._matrix = self._inverse = self._names = self._fitted_on = None

    def _require_density(self, what: str) -> None:
        if not self._is_density():
            raise InputError(
                f"{what}: a {self.name} with {self.settings() or 'these settings'} does not map "
                "the embeddings to N(0, I), so it has no density"
            )
