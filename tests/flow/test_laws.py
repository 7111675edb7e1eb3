"""Laws every bijector obeys, over a registry: one line adds a transform.

Conditioner weights are non-zero: with the zero-initialised last layer the laws would hold for a
coupling that forgot its network.
"""

import distrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bertflow_jax.config import FlowConfig
from bertflow_jax.flow import glow
from bertflow_jax.flow.actnorm import ActNorm
from bertflow_jax.flow.coupling import AdditiveCoupling, AffineCoupling
from bertflow_jax.flow.factor_out import FactorOut
from bertflow_jax.flow.permutation import PLULinear, Reverse, init_plu


def _noise(seed, *shape, scale=0.3):
    return jnp.asarray(np.random.default_rng(seed).normal(0, scale, shape), jnp.float32)


def _actnorm(c, seed=0):
    return ActNorm(_noise(seed, c), _noise(seed + 1, c, scale=0.2))


def _plu(c):
    trainable, fixed = init_plu(jax.random.key(3), c)
    moved = {name: leaf + _noise(5, *leaf.shape, scale=0.1) for name, leaf in trainable.items()}
    return PLULinear(**moved, **fixed)


def _net(c, out):
    first, second = _noise(1, c // 2, 8, scale=1.0), _noise(2, 8, out, scale=1.0)
    return lambda h: jnp.tanh(h @ first) @ second


def _glow(c, **fields):
    config = FlowConfig(**{"levels": 2, "depth": 2, "width": 8, **fields})
    variables = glow.init_variables(config, c, 0)
    leaves, tree = jax.tree.flatten(variables["params"])
    moved = [leaf + _noise(i, *leaf.shape, scale=0.2) for i, leaf in enumerate(leaves)]
    return glow.bijector(config, {**variables, "params": jax.tree.unflatten(tree, moved)}, c)


REGISTRY = {
    "actnorm": lambda c: _actnorm(c),
    "reverse": lambda c: Reverse(),
    "plu": _plu,
    "additive": lambda c: AdditiveCoupling(_net(c, c - c // 2)),
    "affine": lambda c: AffineCoupling(_net(c, 2 * (c - c // 2))),
    "factor_out": lambda c: FactorOut(
        AffineCoupling(_net(c, 2 * (c - c // 2))), distrax.Chain([Reverse(), _actnorm(c // 2, 7)])
    ),
    "glow_additive_reverse_relu": lambda c: _glow(c),
    "glow_affine_plu_gatu": lambda c: _glow(
        c, coupling="affine", permutation="plu", activation="gatu"
    ),
}


@pytest.fixture(params=[(name, c) for name in REGISTRY for c in (6, 7)], ids=str, scope="module")
def case(request):
    name, channels = request.param
    return REGISTRY[name](channels), _noise(11, 5, channels, scale=1.5)


def _both(bijector):
    """(forward_and_log_det, inverse_and_log_det), compiled."""
    return jax.jit(bijector.forward_and_log_det), jax.jit(bijector.inverse_and_log_det)


@pytest.mark.device
def test_inverse_undoes_forward(case):
    """Catches a wrong inverse formula, split or channel order."""
    bijector, x = case
    forward, inverse = _both(bijector)
    y = forward(x)[0]
    np.testing.assert_allclose(inverse(y)[0], x, atol=1e-5)
    np.testing.assert_allclose(forward(inverse(x)[0])[0], x, atol=1e-5)
    if not isinstance(bijector, Reverse):
        assert np.abs(np.asarray(y - x)).max() > 0.1  # not the identity by accident


def test_log_det_is_that_of_the_jacobian(case):
    """Catches a missing factor 3, a wrong sign, a log-det summed over the wrong channels."""
    bijector, x = case
    jacobian = jax.jit(jax.vmap(jax.jacfwd(bijector.forward)))(x)
    expected = np.linalg.slogdet(np.asarray(jacobian, np.float64))[1]
    np.testing.assert_allclose(bijector.forward_log_det_jacobian(x), expected, atol=2e-5)


def test_inverse_log_det_is_negated(case):
    """Catches an inverse log-det of its own that disagrees with the forward one."""
    bijector, x = case
    forward, inverse = _both(bijector)
    y, log_det = forward(x)
    np.testing.assert_allclose(inverse(y)[1], -log_det, atol=1e-5)


def test_jit_gives_the_same(case):
    """Catches Python side effects and shapes that only exist outside jit."""
    bijector, x = case
    for name, compiled in zip(
        ("forward_and_log_det", "inverse_and_log_det"), _both(bijector), strict=True
    ):
        plain = getattr(bijector, name)(x)
        for ours, reference in zip(compiled(x), plain, strict=True):
            np.testing.assert_allclose(ours, reference, atol=1e-5, rtol=1e-5)


def test_same_as_tells_bijectors_apart(case):
    """Catches a same_as that says yes to any bijector of its class."""
    bijector, _ = case
    assert bijector.same_as(bijector)
    assert not bijector.same_as(distrax.Lambda(lambda x: x + 1.0))
