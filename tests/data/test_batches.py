"""Batches of packed token ids: known shapes, every text once, little padding."""

import hashlib
import json

import numpy as np
import pytest

from bertflow_jax.data.batches import BatchShapes, make_batches, pad, slots_of


def test_at_most_ten_shapes_up_to_512_tokens():
    """A shape more is a compile more on the user's machine."""
    for max_length in (3, 16, 40, 64, 100, 128, 256, 300, 512):
        for devices in (1, 8):
            shapes = BatchShapes(max_length, 64, devices).all()
            assert len(shapes) <= 10
            assert max(t for _, t in shapes) >= max_length
    assert BatchShapes(512, 64).full() == (
        (32, 32), (16, 64), (8, 128), (6, 160), (5, 192), (4, 256), (2, 384), (2, 512),
    )  # fmt: skip
    assert BatchShapes(512, 64).lone() == ((1, 64), (1, 256))
    assert BatchShapes(40, 64).all() == ((32, 32), (16, 64), (1, 64))
    assert BatchShapes(40, 4, 8).all() == ((8, 32), (8, 64))
    assert [t for _, t in BatchShapes(1200, 64).full()][-3:] == [512, 1024, 2048]


@pytest.mark.parametrize("devices", [1, 8])
@pytest.mark.parametrize("batch_size", [1, 3, 32])
@pytest.mark.parametrize("count", [0, 1, 7, 33, 300])
def test_every_text_once_in_a_known_shape(count, batch_size, devices):
    """Case E06: no text dropped, doubled, cut or mixed with its neighbour in the row."""
    rng = np.random.default_rng(count)
    texts = [np.arange(1, n + 1, dtype=np.int32) for n in rng.integers(2, 61, count)]
    shapes = BatchShapes(60, batch_size, devices)
    seen = []
    for batch in make_batches(texts, 99, shapes):
        rows, length = batch.input_ids.shape
        assert batch.input_ids.shape == batch.attention_mask.shape
        assert (rows, length) in shapes.all()
        assert rows % devices == 0
        assert batch.input_ids.dtype == batch.attention_mask.dtype == np.int32
        assert len(set(batch.slots.tolist())) == len(batch.texts)
        used = np.zeros_like(batch.attention_mask, bool)
        for place, slot in zip(batch.texts, batch.slots, strict=True):
            row, number = divmod(int(slot), slots_of(length))
            mine = batch.attention_mask[row] == number + 1
            assert batch.input_ids[row, mine].tolist() == texts[place].tolist()
            assert np.flatnonzero(mine).tolist() == list(
                range(mine.argmax(), mine.argmax() + len(texts[place]))
            )
            used[row] |= mine
        assert (batch.attention_mask[~used] == 0).all()
        assert (batch.input_ids[~used] == 99).all()
        seen += batch.texts.tolist()
    assert sorted(seen) == list(range(count))


def _shapes(lengths, batch_size=64, max_length=512):
    return [shape for _, shape in BatchShapes(max_length, batch_size).plan(lengths)]


def test_short_lists_do_not_pay_for_a_full_batch():
    """Catches a single sentence padded to a whole batch, and a full batch cut into pieces."""
    assert _shapes([10]) == [(1, 64)]
    assert _shapes([10] * 5) == [(1, 64)]
    assert _shapes([200]) == [(1, 256)]
    assert _shapes([16] * 64) == [(32, 32)]
    assert _shapes([16] * 65) == [(32, 32), (1, 64)]
    assert BatchShapes(512, 64).batch_size == 64


@pytest.mark.parametrize("devices", [1, 8])
@pytest.mark.parametrize("batch_size", [1025, 10_000, 10**6, 2**63])
def test_few_texts_in_large_batches_are_not_padded_to_millions_of_tokens(batch_size, devices):
    """300 texts took 29 s and 2 GB at batch_size=10000: one call of 160,000 tokens."""
    shapes = BatchShapes(512, batch_size * devices, devices)
    assert len(shapes.all()) == 10
    assert max(rows * length for rows, length in shapes.all()) <= 2**18 * 1.01 * devices
    for count in (1, 30, 300, 1300, 5000):
        area = sum(rows * length for _, (rows, length) in shapes.plan([12] * count))
        assert 12 * count <= area <= 1.6 * 12 * count + 4096 * devices
    long = [shape for _, shape in shapes.plan([512] * 3)]
    assert {length for _, length in long} == {512}


def test_large_batches_are_full_where_there_are_texts_for_them():
    """What a large batch_size is for."""
    plan = list(BatchShapes(512, 4096).plan([16] * 9000))
    assert [shape for _, shape in plan][:2] == [(2048, 32)] * 2


def test_shapes_of_ordinary_batches_stay_what_they_were():
    """Another plan would change the last bits of everybody's vectors; the sum was made before."""
    lengths = np.random.default_rng(0).integers(3, 257, 800).tolist()
    found = hashlib.sha256()
    for batch_size, devices in ((64, 1), (1024, 1), (8192, 8)):
        plan = list(BatchShapes(256, batch_size, devices).plan(lengths))
        found.update(json.dumps(plan).encode())
    assert found.hexdigest()[:16] == "0d2a4747b5d5b936"


@pytest.mark.parametrize(
    ("low", "high", "fill"), [(5, 40, 0.98), (5, 257, 0.98), (112, 145, 0.9), (3, 4, 0.9)]
)
def test_rows_are_full(low, high, fill):
    """One text a row spends a quarter of the work on padding; 16 texts at most a row lose too."""
    lengths = np.random.default_rng(0).integers(low, high, 3000).tolist()
    area = sum(rows * length for rows, length in _shapes(lengths, max_length=256))
    assert fill < sum(lengths) / area <= 1.0


def test_texts_of_equal_length_keep_their_order():
    """Results would depend on the order of a dictionary or on the platform's sort."""
    plan = BatchShapes(512, 4).plan([7] * 30)
    places = [place for rows, _ in plan for row in rows for place in row]
    assert places == list(range(30))


def test_pad_puts_one_text_a_row():
    """What `tokenize` returns: the mask of a shorter text must end where it ends."""
    ids, mask = pad([np.array([5, 6, 7], np.int32), np.array([8], np.int32)], 0)
    assert ids.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert mask.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert [x.shape for x in pad([], 0)] == [(0, 1), (0, 1)]
