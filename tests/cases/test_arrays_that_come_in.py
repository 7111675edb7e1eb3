"""Arrays of which a part would be ignored: every entry refuses them. Each test names the bug."""

import datetime
import fractions

import jax
import numpy as np
import pytest

from bertflow_jax import SentenceEncoder, Standardize
from bertflow_jax.errors import InputError
from bertflow_jax.evaluation.binary import auc
from bertflow_jax.evaluation.metrics import (
    aggregate,
    correlation,
    cosine_similarity,
    mean_random_cosine,
)
from bertflow_jax.evaluation.similarities import dot_similarity
from bertflow_jax.postprocess import Center

ROWS = [[1.0, 2.0], [2.0, 1.0], [4.0, 5.0]]
MASKED = np.ma.array(ROWS, mask=[[0, 1], [0, 0], [1, 1]])
HIDDEN = {
    "masked": (MASKED, "masked array"),
    "without a mask": (np.ma.array(ROWS), "masked array"),
    "list of masked": (list(MASKED), "masked array"),
    "nested masked": ([[1.0, 2.0], (np.ma.masked, 1.0), [4.0, 5.0]], "masked array"),
    "complex": (np.array(ROWS) + 1j, "Complex data not supported"),
    "list of complex": ([[1.0, 2.0], [2.0, 1j], [4.0, 5.0]], "Complex data not supported"),
    "objects": (np.array([[1, 2], [2, 1j], [4, 5]], object), "Complex data not supported"),
    "text": ([["1", "2"], ["2", "1"], ["4", "5"]], "text and times are not taken for numbers"),
    "text in objects": (np.array([[1, "2"], [2, 1], [4, 5]], object), "text and times"),
    "times": (np.array(ROWS).astype("M8[s]"), "text and times"),
}


@pytest.fixture(scope="module")
def entries():
    """Every call that takes vectors."""
    encoder = SentenceEncoder.from_pretrained("mini_bert")
    return [
        lambda x: encoder.similarity(x, ROWS),
        lambda x: encoder.similarity_pairwise(ROWS, x),
        lambda x: cosine_similarity(x, ROWS),
        lambda x: dot_similarity(ROWS, x),
        lambda x: mean_random_cosine(x, 5),
        lambda x: Center().fit(x),
        lambda x: Standardize().fit(ROWS).transform(x),
    ]


@pytest.mark.parametrize(("values", "words"), HIDDEN.values(), ids=list(HIDDEN))
def test_nothing_of_the_vectors_is_ignored(entries, values, words):
    """Bug: masked numbers used, imaginary parts dropped, "1" taken for 1, each without a word."""
    for entry in entries:
        with pytest.raises(InputError, match=words):
            entry(values)


@pytest.mark.parametrize(("values", "words"), HIDDEN.values(), ids=list(HIDDEN))
def test_nothing_of_the_scores_is_ignored(values, words):
    """Bug: as above, of similarities and gold scores."""
    column = [row[1] for row in values] if isinstance(values, list) else values[:, 1]
    if words == "masked array" and isinstance(values, list):
        column = np.ma.array([1.0, 2.0, 3.0])
    for entry in (
        lambda x: correlation(x, [1, 3, 2]),
        lambda x: correlation([1, 3, 2], x),
        lambda x: aggregate({"a": ([1, 3, 2], x)}),
        lambda x: auc(x, [0, 1, 1]),
    ):
        with pytest.raises(InputError, match=words):
            entry(column)


def test_objects_that_are_no_numbers():
    """Bug: a raw TypeError of NumPy."""
    for values in ([[{}, 1.0]], [[datetime.date(2020, 1, 1), 1.0]]):
        with pytest.raises(InputError, match="must be numbers"):
            cosine_similarity(values, [[1.0, 2.0]])


def test_numbers_of_other_types_are_still_taken():
    """Bug: a check that refuses integers, fractions, half precision or lists of arrays."""
    wanted = cosine_similarity(ROWS, ROWS[::-1])
    for kind in (np.int8, np.uint64, np.float16, np.longdouble, ">f8"):
        found = cosine_similarity(np.array(ROWS, kind), ROWS[::-1])
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    for values in (
        [np.array(row) for row in ROWS],
        tuple(map(tuple, ROWS)),
        [[fractions.Fraction(x) for x in row] for row in ROWS],
    ):
        np.testing.assert_allclose(cosine_similarity(values, ROWS[::-1]), wanted, rtol=1e-12)
    assert correlation([True, False, True], [3, 1, 2]).spearman == pytest.approx(np.sqrt(3) / 2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("form", ["tensor", "rows", "parameter"])
def test_tensors(entries, dtype, form):
    """Bug: raw TypeError for bfloat16, RuntimeError where a gradient is wanted; float64 rounded."""
    torch = pytest.importorskip("torch", reason="not installed")
    tensor = torch.tensor(ROWS, dtype=getattr(torch, dtype), requires_grad=form == "parameter")
    values = list(tensor) if form == "rows" else tensor
    np.testing.assert_array_equal(Center().fit(values).mean, np.mean(ROWS, axis=0))
    for entry in entries:
        entry(values)
    if dtype == "float64":
        mean = Center().fit(tensor.detach() + 1e9 + 0.25).mean
        np.testing.assert_array_equal(mean, np.mean(ROWS, axis=0) + 1e9 + 0.25)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_short_floats_of_jax(entries, dtype):
    """Bug: refused, where the same tensor of PyTorch was taken."""
    values = jax.numpy.asarray(ROWS, getattr(jax.numpy, dtype))
    for given in (values, np.asarray(values)):
        mean = np.mean(np.asarray(values, np.float64), axis=0)
        np.testing.assert_array_equal(Center().fit(given).mean, mean)
        for entry in entries:
            entry(given)


def test_tensors_that_are_no_array(entries):
    """Bug: errors of PyTorch, and imaginary parts that `similarity` dropped with a warning."""
    torch = pytest.importorskip("torch", reason="not installed")
    dense = torch.tensor(ROWS)
    for values, words in (
        (dense.to_sparse(), "not an array of numbers"),
        (dense.to("meta"), "not an array of numbers"),
        (torch.complex(dense, dense), "Complex data not supported"),
        (torch.complex(dense, dense).conj(), "not an array of numbers|Complex data"),
    ):
        for entry in entries:
            with pytest.raises(InputError, match=words):
                entry(values)


@pytest.mark.parametrize(
    "values",
    [
        (np.arange(6) + 2**62).reshape(3, 2),
        np.array([[1, 2], [3, 2**53 + 1], [5, 6]]),
        np.array([[1, 2], [3, -(2**53) - 1], [5, 6]]),
        np.array([[1, 2], [2**64 - 1, 4], [5, 6]], np.uint64),
        [[1, 2], [2**70 + 1, 4], [5, 6]],
        [[1, 2], [10**5000, 4], [5, 6]],
    ],
    ids=["offset", "one", "negative", "unsigned", "beyond int64", "beyond float64"],
)
def test_integers_that_float64_rounds(entries, values):
    """Bug: ten numbers that follow each other became ten equal ones, zeros when centred."""
    row = 0 if np.asarray(values).min() > 2**53 else 1
    for entry in entries:
        with pytest.raises(
            InputError, match=rf"row {row}: the integer (of )?-?\d+( bits)? is beyond what float64"
        ):
            entry(values)
    with pytest.raises(InputError, match="beyond what float64 holds exactly"):
        correlation(np.asarray(values).ravel(), np.arange(6))


def test_large_integers_that_float64_holds_are_taken():
    """Bug: every integer beyond 2**53 refused, or the smallest one of int64."""
    exact = np.array([[2**53, 2**62], [-(2**53), -(2**63)], [0, 2**62 + 2**12]])
    np.testing.assert_array_equal(cosine_similarity(exact, exact), 1)
    assert Center().fit(exact).mean[0] == 0
    top = np.array([[2**63, 0], [2**63 + 2**11, 2]], np.uint64)
    np.testing.assert_array_equal(cosine_similarity(top, top), 1)
