"""Standardisation: every dimension to mean 0 and variance 1."""

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.postprocess.affine import AffineProcessor
from bertflow_jax.postprocess.moments import Moments


class Standardize(AffineProcessor):
    """z_d = (u_d - mean_d) / std_d: "SN", standard normalisation, in the paper's calibration table.

    A dimension that does not vary (`ordinary_dimensions`) has no scale: dividing by rounding would
    let one unseen value decide every cosine. It gets the factor 0, as a direction without variance
    does in `Whitening`, so that it adds nothing to a cosine whatever the unit of the embeddings,
    and `inverse_transform` gives its mean back.
    """

    name = "standardize"
    diagonal = True
    _one_to_one = True

    def _solve(self, moments: Moments) -> tuple[NDArray[np.float64], ...]:
        scale = np.where(moments.ordinary(), np.sqrt(moments.variance), 0.0)
        return moments.mean, np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0), scale

    def _is_density(self) -> bool:
        return True


class Center(AffineProcessor):
    """z = u - mean."""

    name = "center"
    diagonal = True
    _one_to_one = True

    def _solve(self, moments: Moments) -> tuple[NDArray[np.float64], ...]:
        ones = np.ones_like(moments.covariance)
        return moments.mean, ones, ones
