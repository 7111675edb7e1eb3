"""Standardisation: every dimension to mean 0 and variance 1."""

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.postprocess.affine import AffineProcessor
from bertflow_jax.postprocess.moments import Moments


class Standardize(AffineProcessor):
    """z_d = (u_d - mean_d) / std_d: "SN", standard normalisation, in the paper's calibration table.

    A dimension that does not vary is centred and not scaled: it stays 0 on text like that of the
    fit, and nothing is divided by zero.
    """

    name = "standardize"
    diagonal = True

    def _solve(self, moments: Moments) -> tuple[NDArray[np.float64], ...]:
        std = np.sqrt(moments.covariance)
        scale = np.where(std > moments.rounding, std, 1.0)
        return moments.mean, 1.0 / scale, scale

    def _is_density(self) -> bool:
        return True


class Center(AffineProcessor):
    """z = u - mean."""

    name = "center"
    diagonal = True

    def _solve(self, moments: Moments) -> tuple[NDArray[np.float64], ...]:
        ones = np.ones_like(moments.covariance)
        return moments.mean, ones, ones
