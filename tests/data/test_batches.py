"""Batches of padded ids: known shapes, every row once, little padding."""

import numpy as np
import pytest

from bertflow_jax.data.batches import BatchShapes, make_batches


def test_at_most_ten_shapes_up_to_512_tokens():
    """A shape more is a compile more on the user's machine."""
    for max_length in (3, 16, 40, 64, 100, 128, 256, 300, 512):
        shapes = BatchShapes(max_length, 64).all()
        assert len(shapes) <= 10
        assert max(t for _, t in shapes) == max_length
    assert BatchShapes(512, 64).full() == (
        (64, 16), (42, 24), (32, 32), (21, 48), (16, 64), (10, 96), (8, 128), (4, 256), (2, 512),
    )  # fmt: skip
    assert BatchShapes(512, 64).lone() == ((1, 64),)
    assert BatchShapes(40, 64).all() == ((64, 16), (42, 24), (32, 32), (25, 40), (1, 40))
    assert [t for _, t in BatchShapes(1200, 64).full()][-3:] == [512, 1024, 1200]


@pytest.mark.parametrize("devices", [1, 8])
@pytest.mark.parametrize("batch_size", [1, 3, 32])
@pytest.mark.parametrize("count", [0, 1, 7, 33, 300])
def test_every_row_once_in_a_known_shape(count, batch_size, devices):
    """Case E06: no row dropped or doubled, no unknown shape, every shape splits over devices."""
    rng = np.random.default_rng(count)
    rows = [np.arange(1, n + 1, dtype=np.int32) for n in rng.integers(2, 61, count)]
    shapes = BatchShapes(60, batch_size, devices)
    seen = []
    for batch in make_batches(rows, 99, shapes):
        assert batch.input_ids.shape == batch.attention_mask.shape
        assert batch.input_ids.shape in shapes.all()
        assert batch.input_ids.shape[0] % devices == 0
        assert batch.input_ids.dtype == batch.attention_mask.dtype == np.int32
        lengths = batch.attention_mask.sum(axis=1)
        assert lengths[len(batch.rows) :].sum() == 0
        for i, row in enumerate(batch.rows):
            assert batch.attention_mask[i].tolist() == [
                int(t < len(rows[row])) for t in range(batch.input_ids.shape[1])
            ]
            assert batch.input_ids[i, : lengths[i]].tolist() == rows[row].tolist()
            assert (batch.input_ids[i, lengths[i] :] == 99).all()
        seen += batch.rows.tolist()
    assert sorted(seen) == list(range(count))


def _shapes(lengths, batch_size=64, max_length=512):
    return [shape for _, shape in BatchShapes(max_length, batch_size).plan(lengths)]


def test_short_lists_do_not_pay_for_a_full_batch():
    """Catches a single sentence padded to a whole batch, and a full batch cut into pieces."""
    assert _shapes([10]) == [(1, 64)]
    assert _shapes([10] * 5) == [(1, 64)] * 5
    assert _shapes([10] * 16) == [(64, 16)]
    assert _shapes([200]) == [(4, 256)]
    assert _shapes([10] * 129) == [(64, 16), (64, 16), (1, 64)]
    assert [len(rows) for rows, _ in BatchShapes(512, 64).plan([10] * 129)] == [64, 64, 1]


def test_a_batch_is_filled_with_shorter_rows():
    """Empty rows at the end of every length cost a fifth of the work on mixed lengths."""
    lengths = [30] * 31 + [10] * 65
    plan = list(BatchShapes(512, 64).plan(lengths))
    assert [shape for _, shape in plan] == [(32, 32), (64, 16)]
    assert [len(rows) for rows, _ in plan] == [32, 64]
    spread = np.random.default_rng(0).integers(5, 257, 3000)
    padded = sum(rows * length for rows, length in _shapes(spread, max_length=256))
    assert padded / spread.sum() < 1.4


def test_equal_lengths_keep_their_order():
    """A sort that is not stable would make results depend on the platform's sort."""
    rows = np.concatenate([r for r, _ in BatchShapes(512, 4).plan([7] * 10)])
    assert rows.tolist() == list(range(10))
