"""Which examples a step sees."""

import numpy as np
import pytest

from bertflow_jax.training.order import ExampleOrder


def test_every_example_once_an_epoch():
    """A dropped remainder or a batch drawn with replacement would miss examples."""
    order = ExampleOrder(10, 4, seed=3)
    stream = order.batches(0, 5).reshape(-1)
    assert sorted(stream[:10]) == sorted(stream[10:]) == list(range(10))
    assert list(stream[:10]) != list(stream[10:]) != list(range(10))


def test_order_depends_on_seed_and_step_only():
    """Asking step by step, in chunks or from the middle gives the same batches."""
    whole = ExampleOrder(7, 3, seed=1).batches(0, 12)
    fresh = ExampleOrder(7, 3, seed=1)
    np.testing.assert_array_equal(fresh.batches(5, 4), whole[5:9])
    single = [ExampleOrder(7, 3, seed=1).batches(step, 1)[0] for step in range(12)]
    np.testing.assert_array_equal(single, whole)
    assert (ExampleOrder(7, 3, seed=2).batches(0, 12) != whole).any()


@pytest.mark.parametrize(
    ("examples", "batch", "epochs", "steps"),
    [(8628, 32, 1.0, 269), (8628, 256, 8, 269), (100, 32, 0.15, 1), (10, 10, 3, 3)],
)
def test_steps_of_so_many_epochs(examples, batch, epochs, steps):
    """STS-B with all splits is 269 steps at batch 32, as released."""
    assert ExampleOrder(examples, batch, 0).steps_for(epochs) == steps
