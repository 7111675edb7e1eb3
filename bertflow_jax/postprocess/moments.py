"""Mean and covariance of embeddings that come in batches, in float64."""

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.constant_dimensions import ROUNDING, ordinary_dimensions
from bertflow_jax.errors import InputError

_EXACT = ROUNDING * 2.0**-29  # float64 has 29 bits more than float32


class Moments:
    """Count, mean and scatter matrix of the rows seen so far.

    Batches are merged by Chan, Golub & LeVeque (1983): with n, m rows and d = mean_b - mean_a,
    S = S_a + S_b + d d^T n m / (n + m). The result does not depend on how rows are cut into
    batches, up to rounding, and never subtracts large equal numbers.

    Attributes:
      count: N, rows seen.
      mean: float64[D].
      scatter: float64[D, D], sum of (u - mean)(u - mean)^T; float64[D], its diagonal, if only
        variances are wanted.
      resolution: relative rounding of the numbers seen; that of float32 where float32 holds them
        all, also when they come as float64.
    """

    def __init__(self, features: int, *, diagonal: bool = False):
        self.count = 0
        self.mean = np.zeros(features)
        self.scatter = np.zeros(features if diagonal else (features, features))
        self.resolution = ROUNDING

    def update(self, rows: NDArray[np.floating]) -> None:
        """Take a batch float[n, D]."""
        n, m = self.count, len(rows)
        if not m:
            return
        batch = np.asarray(rows, np.float64)
        if rows.dtype == np.float64 and self.resolution > _EXACT:
            with np.errstate(over="ignore"):
                single = np.array_equal(batch.astype(np.float32), batch)
            self.resolution = self.resolution if single else _EXACT
        with np.errstate(over="ignore", invalid="ignore"):  # `covariance` refuses the outcome
            mean = batch.mean(axis=0)
            centred, step = batch - mean, mean - self.mean
            if self.scatter.ndim == 1:
                self.scatter += np.square(centred).sum(axis=0) + np.square(step) * (n * m / (n + m))
            else:
                self.scatter += centred.T @ centred + np.outer(step, step) * (n * m / (n + m))
        self.mean += step * (m / (n + m))
        self.count = n + m

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Return scatter / N (the maximum-likelihood estimate), shaped like `scatter`."""
        if self.count < 2:
            raise InputError(
                f"at least two embeddings are needed to fit on, got {self.count} sample(s)"
            )
        if not np.isfinite(self.scatter).all():
            raise InputError(
                "the embeddings are too large: their variance exceeds float64; multiply them by a "
                "small constant first"
            )
        return self.scatter / self.count

    @property
    def variance(self) -> NDArray[np.float64]:
        """Return the variance float64[D] of every dimension."""
        covariance = self.covariance
        return covariance if covariance.ndim == 1 else np.diagonal(covariance)

    def ordinary(self) -> NDArray[np.bool_]:
        """Return which dimensions vary, bool[D]; raises InputError if none does."""
        ordinary, _ = ordinary_dimensions(self.mean, np.sqrt(self.variance), self.resolution)
        if not ordinary.any():
            raise InputError(
                f"all embeddings are equal ({self.count} rows); fit on rows that differ"
            )
        return ordinary

    def hollow(self) -> int:
        """Return how many dimensions hold rounding alone, of their mean or of a typical one."""
        deviation = np.sqrt(self.variance)
        _, typical = ordinary_dimensions(self.mean, deviation, self.resolution)
        least = np.maximum(self.resolution * np.abs(self.mean), ROUNDING * typical)
        return int(np.sum(deviation <= least))
