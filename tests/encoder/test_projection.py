"""The two ways to project to queries, keys and values; a machine without a TPU runs only one."""

import jax
import numpy as np
import pytest

from bertflow_jax.encoder.layers import one_product, three_products


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_three_products_are_the_one(dtype):
    """Heads of 4 x 5 and 7 tokens: an axis taken for another one would not even fit, or be wrong."""
    rng = np.random.default_rng(0)
    shapes = (3, 7, 20), (20, 3, 4, 5), (3, 4, 5)
    x, kernel, bias = (jax.numpy.asarray(rng.normal(size=s), dtype) for s in shapes)
    apart = three_products(x, kernel, bias)
    expected = np.einsum("btc,cshd->sbhtd", *(np.float64(a) for a in (x, kernel)))
    expected += np.float64(bias)[:, None, :, None, :]
    tolerance = 1e-5 if dtype == "float32" else 0.06
    for i, (ours, other) in enumerate(zip(apart, one_product(x, kernel, bias), strict=True)):
        wanted = expected[i].swapaxes(-1, -2) if i == 1 else expected[i]
        np.testing.assert_allclose(np.float64(ours), wanted, atol=tolerance, rtol=tolerance)
        np.testing.assert_allclose(np.float64(other), wanted, atol=tolerance, rtol=tolerance)
