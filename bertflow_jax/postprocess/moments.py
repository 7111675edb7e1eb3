"""Mean and covariance of embeddings that come in batches, in float64."""

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.errors import InputError

# float32 rounding of a constant c leaves a deviation of up to about 1e-7 |c|.
ROUNDING = 1e-6


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
    """

    def __init__(self, features: int, *, diagonal: bool = False):
        self.count = 0
        self.mean = np.zeros(features)
        self.scatter = np.zeros(features if diagonal else (features, features))

    def update(self, rows: NDArray[np.floating]) -> None:
        """Take a batch float[n, D]."""
        n, m = self.count, len(rows)
        if not m:
            return
        batch = np.asarray(rows, np.float64)
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
            raise InputError(f"at least two embeddings are needed to fit on, got {self.count}")
        return self.scatter / self.count

    @property
    def rounding(self) -> NDArray[np.float64]:
        """Return the deviation float64[D] that float32 rounding alone may leave in a dimension."""
        return ROUNDING * np.abs(self.mean)
