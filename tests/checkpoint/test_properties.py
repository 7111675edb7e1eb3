"""Checkpoints of any tree and any sequence of saves, against a plain Python model."""

import math
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bertflow_jax.checkpoint import CheckpointStore, Records
from bertflow_jax.errors import CheckpointError, WorkdirError
from bertflow_jax.scores import HELD_OUT, Score

# Each example writes to the disk. Without shrinking, which is hundreds of them.
FEW = settings(
    deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate)
)
DTYPES = (
    *(np.float32, np.float16, np.int32, np.uint32, np.int8, np.uint8, np.bool_),
    jnp.bfloat16,
)
SHAPES = ((), (1,), (3,), (2, 3), (1, 1, 2))
NAMES = st.one_of(
    st.sampled_from(["params", "level0_step0", "0", "-1", "a.b", "a b", "größe", "日本", "_", "."]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=8),
)


@st.composite
def arrays(draw):
    """An array of any bits, NaN with a payload and -0 among them."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(st.sampled_from(SHAPES))
    size = math.prod(shape) * dtype.itemsize
    raw = draw(st.binary(min_size=size, max_size=size))
    if dtype == np.bool_:  # of a byte that is neither 0 nor 1 nothing is promised
        return (np.frombuffer(raw, np.uint8) % 2 == 1).reshape(shape)
    return np.frombuffer(raw, dtype).reshape(shape).copy()


TREES = st.recursive(
    arrays(),
    lambda inner: st.one_of(
        st.dictionaries(NAMES, inner, min_size=1, max_size=3),
        st.tuples(inner),
        st.tuples(inner, inner),
    ),
    max_leaves=5,
)
# An item is a folder of the checkpoint: its name is one of ours.
ITEMS = st.dictionaries(st.sampled_from(["flow", "optimizer", "head"]), TREES, min_size=1)


def bits(tree):
    leaves, structure = jax.tree.flatten(tree)
    return structure, [(leaf.dtype, leaf.shape, np.asarray(leaf).tobytes()) for leaf in leaves]


@settings(FEW, max_examples=40)
@given(items=ITEMS)
def test_what_is_saved_comes_back_bit_for_bit(items):
    """A dtype that is widened, a scalar that becomes [1], a name that is cut at a dot, a NaN that
    loses its payload, an empty array that is left out."""
    with tempfile.TemporaryDirectory() as folder:
        store = CheckpointStore(folder)
        store.save(items, Records({"step": 1}, {}, {}, {}))
        store.finish()
        shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), items)
        found, _ = CheckpointStore(folder).restore(1, lambda _: shapes)
    assert bits(found) == bits(items)


SCORES = st.one_of(
    st.none(), st.sampled_from([math.nan, math.inf, -math.inf, 0.5, 0.25, -0.0, 0.0]), st.floats()
)


def kept_by_the_model(saved, metric, keep, keep_best):
    """Return (steps that stay, best step or None) after saves of (step, value or None)."""
    sign = -1.0 if metric == HELD_OUT else 1.0
    there = []
    for step, value in saved:
        there.append((step, value))
        known = [(s, v) for s, v in there if v is not None and math.isfinite(v)]
        ranked = [s for s, _ in sorted(known, key=lambda pair: (-sign * pair[1], pair[0]))]
        stay = {s for s, _ in there[-keep:]} | set(ranked[:keep_best])
        there = [(s, v) for s, v in there if s in stay]
    known = [(s, v) for s, v in there if v is not None and math.isfinite(v)]
    best = min(known, key=lambda pair: (-sign * pair[1], pair[0]), default=(None, None))[0]
    return [step for step, _ in there], best


@settings(FEW, max_examples=25)
@given(
    gaps=st.lists(st.tuples(st.integers(1, 500), SCORES), min_size=1, max_size=6),
    metric=st.sampled_from(["spearman", HELD_OUT]),
    keep=st.integers(1, 3),
    keep_best=st.integers(0, 2),
    restarts=st.sets(st.integers(1, 5), max_size=2),
)
def test_latest_and_best_are_those_of_a_plain_model(gaps, metric, keep, keep_best, restarts):
    """NaN that wins, a best step that is pruned, a restart that forgets the scores before it."""
    step, saved = 0, []
    with tempfile.TemporaryDirectory() as folder:
        store = CheckpointStore(folder, keep, keep_best)
        for number, (gap, value) in enumerate(gaps):
            if number in restarts:
                store.finish()
                store = CheckpointStore(folder, keep, keep_best)
            step += gap
            saved.append((step, value))
            score = None if value is None else Score(metric, value)
            array = np.full(2, step, np.int32)
            store.save({"flow": {"a": array}}, Records({"step": step}, {}, {}, {}), score)
        store.finish()
        stay, best = kept_by_the_model(saved, metric, keep, keep_best)
        assert store.steps() == stay
        found = store.best()
        assert (found and found[0]) == best
        shapes = {"flow": {"a": jax.ShapeDtypeStruct((2,), np.int32)}}
        for wanted in {step, *([] if best is None else [best])}:
            back, records = store.newest_good(lambda s: store.restore(s, lambda _: shapes), wanted)
            np.testing.assert_array_equal(back["flow"]["a"], wanted)
            assert records.state["step"] == wanted
        assert Path(folder, "checkpoints").is_dir()


def _read_back(store, shapes):
    store.finish()
    store.restore(1, lambda _: shapes)


@pytest.mark.parametrize(
    "tree",
    [
        {"a.b": np.ones(2, np.float32), "a": {"b": np.zeros(2, np.float32)}},  # one name on disk
        {"a": np.ones((0, 3), np.float32)},
        {"a": np.asarray(1e300)},  # float64, which JAX reads as float32
        {},
    ],
)
def test_what_cannot_come_back_is_no_checkpoint_without_a_word(tmp_path, tree):
    """An array that another takes the place of, a number that becomes infinite."""
    store = CheckpointStore(tmp_path)
    store.save({"flow": tree}, Records({"step": 1}, {}, {}, {}))
    shapes = {"flow": jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), tree)}
    with pytest.raises(
        (WorkdirError, CheckpointError), match=r"checkpoints/1 .*(could not|differ)"
    ):
        _read_back(store, shapes)
