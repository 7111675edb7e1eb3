"""Small checkpoints that the tests of this folder share."""

import jax
import numpy as np
import pytest

from bertflow_jax.checkpoint import CheckpointStore, Records

# Several arrays an item: that is where orbax's threads print beside the error.
ARRAYS = {
    "flow": {"params": {f"a{i}": np.arange(1000, dtype=np.float32) + i for i in range(8)}},
    "optimizer": ({"m": np.ones(3, np.float32)}, np.asarray(4, np.int32)),
}


def _arrays(step):
    return jax.tree.map(lambda leaf: leaf + leaf.dtype.type(step), ARRAYS)


@pytest.fixture
def made():
    """Function of a step: its arrays."""
    return _arrays


@pytest.fixture
def saved():
    """Function (store, step, score=None) that starts a save of `made(step)`."""

    def save(store, step, score=None):
        store.save(_arrays(step), Records({"step": step}, {"seed": 1}, {}, {}), score)

    return save


@pytest.fixture
def read():
    """Function (store, step=None) -> (step, arrays) of the newest good step."""
    shapes = jax.eval_shape(lambda: ARRAYS)

    def restore(store, step=None):
        return store.newest_good(lambda s: (s, store.restore(s, lambda _: shapes)[0]), step)

    return restore


@pytest.fixture
def store(tmp_path, saved):
    """Steps 1 and 2."""
    store = CheckpointStore(tmp_path)
    for step in (1, 2):
        saved(store, step)
    store.finish()
    return store
