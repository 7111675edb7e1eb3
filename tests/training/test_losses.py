"""Bits per dimension."""

import numpy as np

from bertflow_jax.training.losses import bits_per_dim


def test_by_hand():
    """N(z; 0, I) at z = (0, 0) is 1 / (2 pi); a log-det of ln 4 takes one bit a dimension off."""
    bits = bits_per_dim(np.zeros((1, 2), np.float32), np.asarray([np.log(4.0)], np.float32))
    np.testing.assert_allclose(bits.prior, [0.5 * np.log2(2 * np.pi)], rtol=1e-6)
    np.testing.assert_allclose(bits.log_det, [-1.0], rtol=1e-6)
    np.testing.assert_allclose(bits.total, bits.prior + bits.log_det, rtol=1e-6)


def test_distance_from_the_origin_costs_half_its_square():
    """A row at distance 2 costs 2 nats more than one at the origin, spread over the dimensions."""
    bits = bits_per_dim(np.asarray([[0.0, 0.0], [2.0, 0.0]], np.float32), np.zeros(2, np.float32))
    np.testing.assert_allclose(np.diff(bits.total), [2.0 / (2 * np.log(2))], rtol=1e-6)
