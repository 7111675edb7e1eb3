"""Maps along the eigenvectors of the covariance: whitening and the removal of top directions."""

import logging

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.checks import check_choice, check_count
from bertflow_jax.errors import InputError, shown
from bertflow_jax.postprocess.affine import AffineProcessor
from bertflow_jax.postprocess.moments import Moments

_log = logging.getLogger(__name__)
# A dimension is rounded like a number of at least so many deviations: 3e-6 of it in float32.
_LEAST_SIZE = 3.0


def principal_directions(moments: Moments) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Return eigenvalues float64[D] (largest first), eigenvectors [D, D] (columns) and the rank.

    Directions beyond the rank vary by no more than rounding leaves; their eigenvalues are 0.

    With S the deviations (0 for a constant dimension) and R = V diag(r) V^T the correlations, the
    covariance is B B^T, B = S V diag(r^(1/2)): its eigenvalues are the squared singular values of
    B, its eigenvectors the left singular vectors. What is rounding is decided in R, where a
    dimension's unit is its own deviation: the columns of V whose r is no larger than the rounding
    of the dimensions in it are left out of B. A dimension of a million times the size of the others
    thus hides none of them, and neither does one that lies far from 0.

    Raises:
      InputError: all embeddings are equal.
    """
    ordinary = moments.ordinary()
    deviation = np.sqrt(moments.variance[ordinary])
    scales = np.outer(deviation, deviation)
    shares, axes = np.linalg.eigh(moments.covariance[np.ix_(ordinary, ordinary)] / scales)
    size = np.maximum(np.abs(moments.mean[ordinary]) / deviation, _LEAST_SIZE)
    rounding = np.square(axes.T) @ np.square(moments.resolution * size)
    solver = 4 * len(shares) * np.finfo(np.float64).eps * shares[-1]
    real = shares > np.maximum(rounding, solver)
    rank = int(real.sum())
    root = deviation[:, None] * axes[:, real] * np.sqrt(shares[real])
    left, singular, _ = np.linalg.svd(root, full_matrices=True)
    values, vectors = np.zeros(len(ordinary)), np.zeros((len(ordinary), len(ordinary)))
    values[:rank] = np.square(singular)
    # The axes of constant dimensions come last, exactly.
    vectors[np.ix_(np.flatnonzero(ordinary), np.arange(len(left)))] = left
    vectors[np.flatnonzero(~ordinary), np.arange(len(left), len(ordinary))] = 1.0
    # The sign of an eigenvector is free: the largest entry is made positive, so that the same data
    # gives the same numbers on every machine.
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return values, vectors * np.where(largest < 0, -1.0, 1.0), rank


def principal_axes(moments: Moments, k: int, name: str) -> tuple[NDArray[np.float64], ...]:
    """Return (mean, the k largest directions [D, k], their transpose); raises InputError."""
    _, vectors, rank = principal_directions(moments)
    _check_rank(k, rank, name)
    return moments.mean, vectors[:, :k], vectors[:, :k].T


def _check_rank(k: int, rank: int, name: str) -> None:
    if k > rank:
        raise InputError(
            f"{name}: k={shown(k)}, but the embeddings vary in {rank} direction(s) only; give k <= "
            f"{rank}"
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
        if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 <= alpha <= 1:
            raise InputError(
                f"alpha={shown(alpha)}: must be a number from 0 (centring) to 1 (whitening)"
            )
        check_choice("kind", kind, ("pca", "zca"))
        self.k = None if k is None else check_count(k, "k", 1)
        self.alpha = alpha
        self.kind = kind

    def _solve(self, moments: Moments) -> tuple[NDArray[np.float64], ...]:
        values, vectors, rank = principal_directions(moments)
        kept = len(values) if self.k is None else self.k
        if self.k is not None:
            _check_rank(kept, rank, self.name)
        if self.alpha > 0:
            self._warn(moments, rank)
        scale = np.zeros(kept)
        inside = slice(None, min(kept, rank) if self.alpha > 0 else kept)
        scale[inside] = np.where(self.alpha > 0, values[:kept][inside], 1.0) ** (-self.alpha / 2)
        back = np.divide(1.0, scale, out=np.zeros(kept), where=scale > 0)
        directions = vectors[:, :kept]
        matrix, inverse = directions * scale, back[:, None] * directions.T
        if self.kind == "zca":
            matrix, inverse = matrix @ directions.T, directions @ inverse
        return moments.mean, matrix, inverse

    def _warn(self, moments: Moments, rank: int) -> None:
        count, features = moments.count, len(moments.mean)
        kept = rank if self.k is None else self.k
        if kept >= count - 1:
            _log.warning(
                "%s: %s of %d dimensions are kept of %d embeddings, which cannot vary in more than "
                "%d: each is scaled by chance; fit on more, or keep fewer with k",
                self.name,
                "all directions (k=None)" if self.k is None else f"k={self.k} directions",
                features,
                count,
                count - 1,
            )
        elif self.k is None and rank < features:
            # What dimensions of rounding held is no loss, and is the same in every fit.
            _log.log(
                logging.WARNING if features - rank > moments.hollow() else logging.INFO,
                "%s: the embeddings vary in %d of %d directions; the other %d become 0 "
                "(k=%d leaves them out)",
                self.name,
                rank,
                features,
                features - rank,
                rank,
            )

    def _is_density(self) -> bool:
        return self.k is None and self.alpha == 1.0


class NATSV(AffineProcessor):
    """z = (u - mean) (I - V V^T), V the k directions of largest variance.

    k must be below the rank of the embeddings: nothing but rounding would be left otherwise.

    "Nulling away top-k singular vectors" in the paper's calibration table, after Mu & Viswanath
    (2018). V are the leading right singular vectors of the centred embeddings.
    """

    name = "natsv"

    def __init__(self, k: int = 1):
        """Make an unfitted one that removes k >= 1 directions."""
        self.k = check_count(k, "k", 1)

    def _solve(self, moments: Moments) -> tuple[NDArray[np.float64], ...]:
        _, vectors, rank = principal_directions(moments)
        if self.k >= rank:
            raise InputError(
                f"{self.name}: k={self.k} removes all {rank} direction(s) that the embeddings vary "
                f"in; give k < {rank}"
            )
        top = vectors[:, : self.k]
        projection = np.eye(len(top)) - top @ top.T
        return moments.mean, projection, projection
