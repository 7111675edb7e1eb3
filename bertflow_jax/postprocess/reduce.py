"""Fewer dimensions: means of blocks, the first ones, or the principal ones."""

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.checks import check_choice, check_count
from bertflow_jax.errors import InputError
from bertflow_jax.postprocess.affine import AffineProcessor
from bertflow_jax.postprocess.moments import Moments
from bertflow_jax.postprocess.whitening import principal_axes


class Reduce(AffineProcessor):
    """float[N, D] to float[N, k].

    Attributes:
      k: dimensions kept.
      how: `block_mean`: z_j is the mean of the j-th of k blocks of D / k neighbouring dimensions
        (D must be a multiple of k); `truncate`: the first k dimensions (of a flow's latents: those
        factored out first); `pca`: the k directions of largest variance, centred.
    """

    name = "reduce"

    def __init__(self, k: int, how: str = "pca"):
        """Make an unfitted one; raises InputError or ConfigError for an impossible argument."""
        check_choice("how", how, ("block_mean", "truncate", "pca"))
        self.k = check_count(k, "k", 1)
        self.how = how

    def _solve(self, moments: Moments) -> tuple[NDArray[np.float64], ...]:
        if self.how == "pca":
            return principal_axes(moments, self.k, self.name)
        features = len(moments.mean)
        if self.k > features:
            raise InputError(f"reduce: k={self.k} of {features} dimensions; give k <= {features}")
        if self.how == "truncate":
            matrix = np.eye(features, self.k)
            return np.zeros(features), matrix, matrix.T
        if features % self.k:
            raise InputError(
                f"reduce: block_mean needs k that divides {features}, not {self.k}; use truncate "
                "or pca"
            )
        size = features // self.k
        matrix = np.repeat(np.eye(self.k), size, axis=0) / size
        return np.zeros(features), matrix, matrix.T * size
