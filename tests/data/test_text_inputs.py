"""What counts as texts: lists, iterators, columns; what is refused, by its row."""

import numpy as np
import pytest

from bertflow_jax.data.tokens import check_text, iter_texts
from bertflow_jax.errors import InputError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "row 7 is NoneType, not str"),
        (float("nan"), r"row 7 is float \(nan\), not str"),
        (b"a", "row 7 is bytes, not str"),
        (["a"], "row 7 is list, not str"),
    ],
)
def test_bad_texts_are_named(text, message):
    """Case E01."""
    with pytest.raises(InputError, match=message):
        check_text(text, 7)


@pytest.mark.parametrize("texts", [b"abc", {"a": 1}, {"a"}, None, 3, np.array("a"), "abc"])
def test_no_list_of_texts(texts):
    """A mapping or bytes iterate too, over what nobody means; a str over its letters."""
    with pytest.raises(InputError, match=f"a list of str is expected, not {type(texts).__name__}"):
        iter_texts(texts)


def test_lists_iterators_and_columns():
    """Catches pyarrow's scalars, which are no str, and a column read by index instead of row."""
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    column = pandas.Series(["a", ""], index=[5, 3])
    chunked = pyarrow.chunked_array([["a"], [""]])
    for texts in (["a", ""], (t for t in ("a", "")), np.array(["a", ""]), column, chunked):
        assert list(iter_texts(texts)) == ["a", ""]
    assert list(iter_texts(pyarrow.array(["a", None]))) == ["a", None]
