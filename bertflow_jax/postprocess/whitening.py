"""Maps along the eigenvectors of the covariance: whitening and the removal of top directions."""

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.checks import check_choice, check_count
from bertflow_jax.errors import InputError
from bertflow_jax.postprocess.affine import AffineProcessor
from bertflow_jax.postprocess.moments import Moments

_log = logging.getLogger(__name__)
# Share of the largest eigenvalue below which a direction is rounding: 3e-6 of its deviation.
_NULL = 1e-11


def principal_directions(moments: Moments) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Return eigenvalues float64[D] (largest first), eigenvectors [D, D] (columns) and the rank.

    Directions beyond the rank vary by no more than float32 rounding leaves.
    """
    values, vectors = np.linalg.eigh(moments.covariance)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    # The sign of an eigenvector is free: the largest entry is made positive, so that the same data
    # gives the same numbers on every machine.
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    vectors = vectors * np.where(largest < 0, -1.0, 1.0)
    floor = max(_NULL * values[0], float(np.max(moments.rounding)) ** 2)
    return values, vectors, int(np.sum(values > floor))


def _check_rank(k: int, rank: int, name: str) -> None:
    if k > rank:
        raise InputError(
            f"{name}: k={k}, but the embeddings vary in {rank} direction(s) only; give k <= {rank}"
        )


class Whitening(AffineProcessor):
    """z = (u - mean) U diag(lambda^(-alpha / 2)), lambda and U of the covariance.

    Su et al. (2021) for alpha = 1: the covariance of z is the identity. alpha = 0 centres and
    rotates, which leaves every cosine as centring does; in between, large directions are damped in
    part. Directions without variance become 0 (for alpha = 0 they stay as they are).

    Attributes:
      k: directions kept, the largest ones; None keeps all D.
      alpha: in [0, 1].
      kind: `pca` (z in the eigenvectors' axes) or `zca` (rotated back: z lies close to u). The
        cosines of both are the same.
    """

    name = "whitening"

    def __init__(self, k: int | None = None, alpha: float = 1.0, kind: str = "pca"):
        """Make an unfitted one; raises InputError or ConfigError for an impossible argument."""
        super().__init__()
        if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 <= alpha <= 1:
            raise InputError(
                f"alpha={alpha!r}: must be a number from 0 (centring) to 1 (whitening)"
            )
        check_choice("kind", kind, ("pca", "zca"))
        self.k = None if k is None else check_count(k, "k", 1)
        self.alpha = float(alpha)
        self.kind = kind

    def settings(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {"k": self.k, "alpha": self.alpha, "kind": self.kind}

    def _solve(self, moments: Moments) -> tuple[NDArray[np.float64], ...]:
        values, vectors, rank = principal_directions(moments)
        if moments.count <= len(values):
            _log.warning(
                "whitening of %d dimensions is fitted on %d embeddings: the %d directions that "
                "they span are scaled by chance; fit on more, or keep fewer with k",
                len(values),
                moments.count,
                rank,
            )
        kept = len(values) if self.k is None else self.k
        if self.k is not None:
            _check_rank(kept, rank, self.name)
        elif rank == 0:
            raise InputError(f"{self.name}: all embeddings are equal")
        scale = np.zeros(kept)
        inside = slice(None, min(kept, rank) if self.alpha > 0 else kept)
        scale[inside] = np.where(self.alpha > 0, values[:kept][inside], 1.0) ** (-self.alpha / 2)
        back = np.divide(1.0, scale, out=np.zeros(kept), where=scale > 0)
        directions = vectors[:, :kept]
        matrix, inverse = directions * scale, back[:, None] * directions.T
        if self.kind == "zca":
            matrix, inverse = matrix @ directions.T, directions @ inverse
        return moments.mean, matrix, inverse

    def _is_density(self) -> bool:
        return self.k is None and self.alpha == 1.0


class NATSV(AffineProcessor):
    """z = (u - mean) (I - V V^T), V the k directions of largest variance.

    "Nulling away top-k singular vectors" in the paper's calibration table, after Mu & Viswanath
    (2018). V are the leading right singular vectors of the centred embeddings.
    """

    name = "natsv"

    def __init__(self, k: int = 1):
        """Make an unfitted one that removes k >= 1 directions."""
        super().__init__()
        self.k = check_count(k, "k", 1)

    def settings(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {"k": self.k}

    def _solve(self, moments: Moments) -> tuple[NDArray[np.float64], ...]:
        _, vectors, rank = principal_directions(moments)
        _check_rank(self.k, rank, self.name)
        top = vectors[:, : self.k]
        projection = np.eye(len(top)) - top @ top.T
        return moments.mean, projection, projection
