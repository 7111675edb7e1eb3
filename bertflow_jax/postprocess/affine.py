"""Post-processors that are one affine map, z = (u - mean) A, fitted from mean and covariance."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from bertflow_jax.checks import check_count
from bertflow_jax.errors import BertFlowError, CheckpointError, InputError
from bertflow_jax.postprocess.base import PureTransform
from bertflow_jax.postprocess.moments import Moments
from bertflow_jax.postprocess.storage import DAMAGE, Folder
from bertflow_jax.training.fit import check_embeddings

_ROWS = 8192  # rows of one step: bounds the float64 copies
_FOLDER = Folder("post-processor", "postprocess.json", "postprocess.safetensors")


class AffineProcessor:
    """z = (u - mean) A. A is a matrix [D, K], or the diagonal [D] of one.

    Attributes:
      name: of the kind, as in rows of an evaluation.
      mean: float64[D], None before `fit`.
      matrix: A, float64[D, K] or float64[D].
      inverse: the pseudo-inverse of A, float64[K, D] or float64[D].
    """

    name: ClassVar[str]
    diagonal: ClassVar[bool] = False  # whether `_solve` wants variances alone

    def __init__(self) -> None:
        self.mean: NDArray[np.float64] | None = None
        self.matrix: NDArray[np.float64] | None = None
        self.inverse: NDArray[np.float64] | None = None

    def settings(self) -> dict[str, Any]:
        """Return the arguments of the constructor, JSON-safe."""
        return {}

    def _solve(self, moments: Moments) -> tuple[NDArray[np.float64], ...]:
        """Return (mean, A, pseudo-inverse of A)."""
        raise NotImplementedError

    def _is_density(self) -> bool:
        """Whether z ~ N(0, I) is what the fit makes likely, so that log_prob means something."""
        return False

    def fit(self, embeddings: np.ndarray) -> Self:
        """Fit to embeddings float[N, D], N >= 2, and return itself.

        Raises:
          InputError: a wrong shape, a value that is not finite, fewer than two rows, or more
            directions asked for than the embeddings vary in.
        """
        rows = check_embeddings(embeddings)
        return self.fit_batches(rows[i : i + _ROWS] for i in range(0, max(1, len(rows)), _ROWS))

    def fit_examples(self, embeddings: np.ndarray, rows: np.ndarray) -> Self:
        """Fit to every occurrence of a sentence: rows int32[N, S] of embeddings float[U, D]."""
        order = rows.reshape(-1)
        return self.fit_batches(
            embeddings[order[i : i + _ROWS]] for i in range(0, len(order), _ROWS)
        )

    def fit_batches(self, batches: Iterable[np.ndarray]) -> Self:
        """Fit to embeddings that come in batches float[n, D], in the memory of one; as `fit`."""
        moments: Moments | None = None
        for batch in batches:
            features = None if moments is None else len(moments.mean)
            rows = check_embeddings(batch, features)
            moments = moments or Moments(rows.shape[1], diagonal=self.diagonal)
            moments.update(rows)
        if moments is None:
            raise InputError("no embeddings to fit on: the iterable of batches is empty")
        self.mean, self.matrix, self.inverse = self._solve(moments)
        return self

    @property
    def features(self) -> int | None:
        """D of the embeddings it was fitted on, None before."""
        return None if self.mean is None else len(self.mean)

    def transform(self, embeddings: np.ndarray) -> np.ndarray:
        """Map embeddings float[N, D] to float32[N, K]; computed in float64."""
        mean, matrix, _ = self._fitted()
        return _by_rows(check_embeddings(embeddings, len(mean)), lambda u: _times(u - mean, matrix))

    def inverse_transform(self, latents: np.ndarray) -> np.ndarray:
        """Map float[N, K] back to float32[N, D]; what was removed comes back as the mean."""
        mean, _, inverse = self._fitted()
        rows = check_embeddings(latents, len(inverse))
        return _by_rows(rows, lambda z: _times(z, inverse) + mean)

    def log_prob(self, embeddings: np.ndarray) -> np.ndarray:
        """Return the log-density of embeddings float[N, D] under z ~ N(0, I), float32[N] in nats.

        log p(u) = log N(z; 0, I) + log |det A|: the Gaussian that fits the embeddings best.

        Raises:
          InputError: the map is no change of variables to N(0, I) (directions are removed, or are
            given another variance than 1).
        """
        _, matrix, _ = self._fitted()
        self._require_density("log_prob")
        if matrix.ndim == 1:
            log_det = float(np.log(np.abs(matrix)).sum())
        else:
            sign, log_det = np.linalg.slogdet(matrix)
            if sign == 0:
                raise InputError(
                    "the embeddings do not vary in every direction, so they have no density"
                )
        z = np.asarray(self.transform(embeddings), np.float64)
        log_prior = -0.5 * (np.square(z).sum(axis=1) + z.shape[1] * math.log(2 * math.pi))
        return (log_prior + log_det).astype(np.float32)

    def sample(self, key: jax.Array, n: int) -> np.ndarray:
        """Draw n embeddings from the fitted Gaussian, float32[n, D].

        Args:
          key: a JAX random key.
          n: number of rows.

        Raises:
          InputError: as `log_prob`.
        """
        _, _, inverse = self._fitted()
        self._require_density("sample")
        latents = jax.random.normal(key, (check_count(n, "n", 0), len(inverse)))
        return self.inverse_transform(np.asarray(latents))

    def save(self, folder: str | Path) -> None:
        """Write it into a folder (safetensors and JSON); raises WorkdirError."""
        mean, matrix, inverse = self._fitted()
        arrays = {"mean": mean, "matrix": matrix, "inverse": inverse}
        described = {
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
        path = _FOLDER.find(folder)
        try:
            described, arrays = _FOLDER.read(path)
            kind = described["kind"]
            if kind != cls.name:
                raise CheckpointError(f"{path} holds a {kind}, not a {cls.name}")
            loaded = cls(**described["settings"])
            expected = {
                name: jax.ShapeDtypeStruct(tuple(shape), np.float64)
                for name, shape in described["shapes"].items()
            }
            _FOLDER.check(path, described, arrays, expected)
            loaded.mean, loaded.matrix, loaded.inverse = (
                np.asarray(arrays[name], np.float64) for name in ("mean", "matrix", "inverse")
            )
        except CheckpointError:
            raise
        except DAMAGE as error:
            raise CheckpointError(f"{path}: not a readable {cls.name} ({error})") from error
        return loaded

    def pure(self) -> PureTransform:
        """Return `transform` as a pure function in float32, for use under jit."""
        mean, matrix, _ = self._fitted()
        params = {
            "mean": jnp.asarray(mean, jnp.float32),
            "matrix": jnp.asarray(matrix, jnp.float32),
        }
        return PureTransform(self.name, affine_transform, params)

    def _fitted(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        if self.mean is None or self.matrix is None or self.inverse is None:
            raise BertFlowError(f"this {self.name} is not fitted yet: call fit(embeddings) or load")
        return self.mean, self.matrix, self.inverse

    def _require_density(self, what: str) -> None:
        if not self._is_density():
            raise InputError(
                f"{what}: a {self.name} with {self.settings() or 'these settings'} does not map "
                "the embeddings to N(0, I), so it has no density"
            )


def affine_transform(params: Any, u: jax.Array) -> jax.Array:
    """Map u float32[B, D] to (u - mean) A, float32[B, K]; A is float32[D, K] or float32[D]."""
    matrix, centred = params["matrix"], u - params["mean"]
    if matrix.ndim == 1:
        return centred * matrix
    return jnp.matmul(centred, matrix, precision="highest")


def _times(rows: NDArray[np.float64], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    return rows * matrix if matrix.ndim == 1 else rows @ matrix


def _by_rows(
    rows: NDArray[np.float32], function: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> NDArray[np.float32]:
    parts = [
        function(rows[i : i + _ROWS].astype(np.float64)).astype(np.float32)
        for i in range(0, max(1, len(rows)), _ROWS)
    ]
    return np.concatenate(parts)
