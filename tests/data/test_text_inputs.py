"""What counts as texts: lists, iterators, columns; what is refused, by its row."""

import numpy as np
import pytest

from bertflow_jax.data.texts import iter_texts


def test_lists_iterators_and_columns():
    """Catches pyarrow's scalars, which are no str, and a column read by index instead of row."""
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    column = pandas.Series(["a", ""], index=[5, 3])
    chunked = pyarrow.chunked_array([["a"], [""]])
    for texts in (["a", ""], (t for t in ("a", "")), np.array(["a", ""]), column, chunked):
        assert list(iter_texts(texts)) == ["a", ""]
    assert list(iter_texts(pyarrow.array(["a", None]))) == ["a", None]
