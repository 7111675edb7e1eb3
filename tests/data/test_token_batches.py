"""Lists of texts, and batches of padded ids."""

import numpy as np
import pytest

from bertflow_jax.data.tokens import BUCKETS, batch_rows, buckets, check_texts, make_batches
from bertflow_jax.errors import InputError


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a", None], "row 1 is NoneType, not str"),
        (["a", "b", float("nan")], r"row 2 is float \(nan\), not str"),
        ([b"a"], "row 0 is bytes, not str"),
        ([["a"]], "row 0 is list, not str"),
        (b"abc", "a list of str is expected, not bytes"),
        ({"a": 1}, "a list of str is expected, not dict"),
        (None, "a list of str is expected, not NoneType"),
        (3, "a list of str is expected, not int"),
    ],
)
def test_bad_texts_are_named(texts, message):
    """Case E01."""
    with pytest.raises(InputError, match=message):
        check_texts(texts)


def test_good_texts():
    assert check_texts(np.array(["a", ""])) == ["a", ""]
    assert check_texts(text for text in ("a", "b")) == ["a", "b"]
    assert check_texts([]) == []


def test_buckets_end_at_max_length():
    assert buckets(50) == (16, 32, 48, 50)
    assert buckets(64) == (16, 32, 48, 64)
    assert buckets(512) == BUCKETS
    assert buckets(600) == (*BUCKETS, 600)
    assert buckets(5) == (5,)


@pytest.mark.parametrize("batch_size", [1, 3, 32])
@pytest.mark.parametrize("count", [0, 1, 7, 33, 300])
def test_every_row_once_in_a_known_shape(count, batch_size):
    """Case E06: no row dropped or doubled, and no shape outside the documented set."""
    rng = np.random.default_rng(count)
    rows = [np.arange(1, n + 1, dtype=np.int32) for n in rng.integers(2, 61, count)]
    allowed = {(r, t) for t in buckets(60) for r in batch_rows(t, batch_size)}
    seen = []
    for batch in make_batches(rows, 0, batch_size, 60):
        assert batch.input_ids.shape == batch.attention_mask.shape
        assert batch.input_ids.shape in allowed
        assert batch.input_ids.dtype == batch.attention_mask.dtype == np.int32
        lengths = batch.attention_mask.sum(axis=1)
        assert lengths[len(batch.rows) :].sum() == 0
        for i, row in enumerate(batch.rows):
            assert batch.input_ids[i, : lengths[i]].tolist() == rows[row].tolist()
            assert not batch.input_ids[i, lengths[i] :].any()
        seen += batch.rows.tolist()
    assert sorted(seen) == list(range(count))


def test_batches_keep_the_tokens_of_a_call_equal():
    assert [batch_rows(t, 64) for t in (16, 32, 128, 512)] == [
        (64, 8, 1),
        (32, 4, 1),
        (8, 1),
        (2, 1),
    ]


def test_little_padding_for_short_lists():
    """Catches a single sentence padded to a whole batch, and a full batch cut into pieces."""

    def shapes(count):
        rows = [np.ones(10, np.int32)] * count
        return [batch.input_ids.shape[0] for batch in make_batches(rows, 0, 64, 64)]

    assert shapes(1) == [1]
    assert shapes(5) == [8]
    assert shapes(9) == [8, 1]
    assert shapes(20) == [8, 8, 8]
    assert shapes(40) == [64]
    assert shapes(64 * 2 + 1) == [64, 64, 1]
