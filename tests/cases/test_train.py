"""Training on too little: fewer sentences than a batch, none at all, a run within its warm-up."""

import math

import pytest

from bertflow_jax.errors import ConfigError
from bertflow_jax.supervision_config import SupervisionConfig
from bertflow_jax.training.supervised_optimizer import linear_schedule, warmup_steps


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999999])
@pytest.mark.parametrize("total", [1, 2, 5, 100])
def test_r01_a_run_shorter_than_its_warm_up(total, share):
    """A warm-up of all steps gave the rate 0 / 0; here one step at least has the whole rate."""
    rates = [float(linear_schedule(8.0, total, share)(step)) for step in range(total)]
    assert all(map(math.isfinite, rates))
    assert max(rates) == 8.0
    assert min(rates) >= 0.0
    assert warmup_steps(total, share) < total


@pytest.mark.parametrize("share", [1.0, 20.0, -0.1, math.nan])
def test_r01_a_warm_up_that_never_ends_is_refused(share):
    """warmup == total raised inside optax, after the encoder was loaded."""
    with pytest.raises(ConfigError, match=r"supervision\.warmup="):
        SupervisionConfig(path="x", warmup=share).validate()
