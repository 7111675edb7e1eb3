"""The cache of embeddings: never a stale or damaged entry."""

import numpy as np
import pytest

from bertflow_jax.data.embedding_cache import embed_cached, text_digest
from bertflow_jax.errors import WorkdirError

TEXTS = ["one", "two", "three"]
IDENTITY = {"weights": "aa", "pooling": "mean", "max_length": 64}


class Encoder:
    """Counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, texts):
        self.calls += 1
        return np.asarray([[len(t), self.calls] for t in texts], np.float32)


def test_second_call_comes_from_the_cache(tmp_path):
    """The same question is computed once and answered with the same bits."""
    encode = Encoder()
    first = embed_cached(encode, IDENTITY, TEXTS, tmp_path)
    np.testing.assert_array_equal(embed_cached(encode, IDENTITY, TEXTS, tmp_path), first)
    assert encode.calls == 1


@pytest.mark.parametrize(
    ("identity", "texts"),
    [
        ({**IDENTITY, "weights": "bb"}, TEXTS),
        ({**IDENTITY, "pooling": "cls"}, TEXTS),
        ({**IDENTITY, "max_length": 32}, TEXTS),
        (IDENTITY, TEXTS[::-1]),
        (IDENTITY, ["one", "twothree", ""]),
    ],
)
def test_anything_that_changes_the_numbers_changes_the_key(tmp_path, identity, texts):
    """A key without one of these would hand out another encoder's or text's vectors."""
    encode = Encoder()
    embed_cached(encode, IDENTITY, TEXTS, tmp_path)
    embed_cached(encode, identity, texts, tmp_path)
    assert encode.calls == 2


def test_where_a_text_ends_is_part_of_the_digest():
    """["ab", "c"] and ["a", "bc"] are different texts."""
    assert text_digest(["ab", "c"]) != text_digest(["a", "bc"]) != text_digest(["abc"])


@pytest.mark.parametrize("fault", ["truncate", "flip", "no digest", "binary digest"])
def test_a_damaged_entry_is_computed_again(tmp_path, fault):
    """Half a file, a flipped byte or a missing digest is not served."""
    encode = Encoder()
    embed_cached(encode, IDENTITY, TEXTS, tmp_path)
    (entry,) = (tmp_path / "embeddings").glob("*.npy")
    raw = bytearray(entry.read_bytes())
    if fault == "truncate":
        entry.write_bytes(raw[:-5])
    elif fault == "flip":
        raw[-1] ^= 1
        entry.write_bytes(raw)
    elif fault == "binary digest":
        entry.with_suffix(".sha256").write_bytes(b"\xff\xfe")
    else:
        entry.with_suffix(".sha256").unlink()
    again = embed_cached(encode, IDENTITY, TEXTS, tmp_path)
    assert encode.calls == 2
    np.testing.assert_array_equal(again[:, 1], 2)
    embed_cached(encode, IDENTITY, TEXTS, tmp_path)
    assert encode.calls == 2


def test_an_unusable_cache_folder_is_named(tmp_path):
    """A file where the folder should be: the error says which and what to set."""
    (tmp_path / "file").write_text("x")
    encode = Encoder()
    with pytest.raises(WorkdirError, match=r"cache_dir=.*file"):
        embed_cached(encode, IDENTITY, TEXTS, tmp_path / "file")
    assert encode.calls == 0  # found out before the work, not after it
