"""Checks of embeddings that come in, and of what was computed from them."""

from typing import Any

import numpy as np

from bertflow_jax.errors import InputError

_LARGEST = float(np.finfo(np.float32).max)
_EXACT = 2**53  # float64 holds every integer up to here


def check_embeddings(
    embeddings: np.ndarray, features: int | None = None, *, exact: bool = False
) -> np.ndarray:
    """Return embeddings as float32[N, D], D >= 1: the array itself where it is that already.

    Args:
      embeddings: an array, nested lists, or a data frame.
      features: D, where it is known.
      exact: return float64[N, D] where float32 would round the numbers as given.

    Raises:
      InputError: as `as_numbers`; another shape, no dimension, a row that is not finite.
    """
    array = as_numbers(embeddings, "embeddings")
    if array.dtype.kind == "O":
        array = _without_objects(embeddings, array)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        hint = ""
        if array.ndim == 1 and array.dtype.kind in "fiu":
            hint = "; Reshape your data: embeddings[None] makes one row of one vector"
        raise InputError(
            f"embeddings must be a numeric array of shape [N, D], not {array.dtype}"
            f"{list(array.shape)}{hint}"
        )
    if features is not None and array.shape[1] != features:
        raise InputError(
            f"embeddings have {array.shape[1]} dimensions, those of the fit had {features}"
        )
    if array.shape[1] == 0:
        raise InputError(
            f"embeddings have no dimension: 0 feature(s) (shape={array.shape}) while a minimum of "
            "1 is required; give an array [N, D]"
        )
    wide = exact and not np.can_cast(array.dtype, np.float32)
    with np.errstate(over="ignore"):  # what float32 cannot hold is named below
        array = array.astype(np.float64 if wide else np.float32, copy=False)
    # A fit in float64 holds more, but neither what it gives nor its function on a device does: one
    # such row is a damaged one, and would decide the statistics.
    bad = np.flatnonzero(~within_float32(array))
    if bad.size:
        raise InputError(
            f"embedding row {bad[0]} is not finite as float32 (NaN, inf or beyond its "
            f"range; {bad.size} such row(s))"
        )
    return array


def within_float32(rows: np.ndarray) -> np.ndarray:
    """Return which rows of float[N, D], D >= 1, hold only numbers in the range of float32."""
    largest = np.maximum(rows.max(axis=1), -(rows.min(axis=1).astype(np.float64)))
    return largest <= _LARGEST  # False for NaN


def check_examples(rows: Any, count: int) -> np.ndarray:
    """Return examples, the numbers of their rows int[N, S]: the array itself where it is that.

    Args:
      rows: an array or nested lists; of one dimension [N] it counts as [N, 1].
      count: U, of the embeddings.

    Raises:
      InputError: no such array, or a number that is none of a row.
    """
    array = as_numbers(rows, "rows")
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.dtype.kind not in "iu" or not array.shape[1]:
        raise InputError(
            f"rows must be integers [N, S], the rows of each example, not {array.dtype}"
            f"{list(array.shape)}"
        )
    bad = np.flatnonzero(((array < 0) | (array >= count)).any(axis=1))
    if bad.size:
        raise InputError(
            f"rows: example {bad[0]} names row {array[bad[0]].tolist()}; the embeddings have rows "
            f"0 to {count - 1}"
        )
    return array


def as_numbers(values: Any, name: str) -> np.ndarray:
    """Return values as an array of real numbers (or objects) that leaves nothing of them out.

    Args:
      values: an array, a tensor of PyTorch (detached from its gradient), a data frame, or nested
        lists of them or of numbers.
      name: of the values, for messages, in the plural.

    Raises:
      InputError: a mask, an imaginary part, text, times, an integer that float64 rounds, a sparse
        matrix, or what is no array.
    """
    if hasattr(values, "toarray"):
        raise InputError(
            f"{name} are a sparse matrix; give a dense one (x.toarray()): centring would fill it "
            "anyway"
        )
    if hasattr(values, "as_py"):  # of pyarrow's scalars that of a text would be taken for bytes
        values = values.as_py()
    parts = _types(values)
    _refuse_masks(parts, name)
    if _any(parts, bytes, bytearray, memoryview):
        raise InputError(
            f"{name} must be a numeric array, not {type(values).__name__}: bytes are not taken for "
            "numbers; numpy.frombuffer makes an array of them"
        )
    try:
        array = np.asarray(_detached(values))
    except (TypeError, ValueError, RuntimeError) as error:  # PyTorch raises all three
        raise InputError(f"{name} are not an array of numbers: {error}") from error
    if array.dtype.name.startswith(("bfloat", "float8")):  # JAX's; float32 holds them all
        array = array.astype(np.float32)
    parts = {array.dtype.type, *(map(type, array.flat) if array.dtype.kind == "O" else ())}
    _refuse_masks(parts, name)
    if _any(parts, complex, np.complexfloating):
        raise InputError(
            f"{name} are complex, and the imaginary part would be ignored: Complex data not "
            "supported; give real numbers"
        )
    if _any(parts, str, bytes, np.datetime64, np.timedelta64):
        raise InputError(
            f"{name} must be a numeric array, not {array.dtype}{list(array.shape)}: text and times "
            "are not taken for numbers"
        )
    _check_integers(array, name)
    return array


def _check_integers(array: np.ndarray, name: str) -> None:
    """Raise InputError naming an integer that float64 cannot hold: differences would be lost."""
    if array.dtype.kind == "O":
        lost = np.array([isinstance(v, int) and not _is_exact(v) for v in array.flat], bool)
    elif array.dtype.kind in "iu" and array.dtype.itemsize > 4:
        large = (array > _EXACT) | (array < -_EXACT)
        lost = np.zeros(array.size, bool)
        lost[large.ravel()] = [not _is_exact(v) for v in array[large].tolist()]
    else:
        return
    if lost.any():
        place = np.unravel_index(int(lost.argmax()), array.shape)
        where = f"row {place[0]}: " if place else ""
        value = int(array[place])
        shown = value if value.bit_length() < 100 else f"of {value.bit_length()} bits"
        raise InputError(
            f"{name}: {where}the integer {shown} is beyond what float64 holds exactly; "
            "subtract an offset first, or round them to floats yourself"
        )


def _is_exact(integer: int) -> bool:
    try:
        return float(integer) == integer  # Python compares without rounding
    except OverflowError:
        return False


def _detached(values: Any) -> Any:
    """Return tensors, also those in a list, as arrays: off their device and without gradient."""
    if isinstance(values, list | tuple):
        return [_detached(v) for v in values] if any(map(_is_tensor, values)) else values
    if not _is_tensor(values):
        return values
    tensor = values.detach().cpu()
    try:
        return tensor.numpy()
    except TypeError:  # bfloat16 and smaller ones, which NumPy has not; float32 holds them all
        return tensor.float().numpy()


def _is_tensor(value: Any) -> bool:
    # Files have a `detach` too, which closes them.
    return hasattr(value, "detach") and hasattr(value, "cpu")


def _types(values: Any) -> set[type]:
    """Return the types of values and, of lists and tuples, of what they hold at any depth."""
    found = {type(values)}
    if isinstance(values, list | tuple):
        for part in values:
            if isinstance(part, list | tuple):
                found |= _types(part)
            else:
                found.add(type(part))
    return found


def _any(found: set[type], *wanted: type) -> bool:
    return any(issubclass(kind, wanted) for kind in found)


def _refuse_masks(found: set[type], name: str) -> None:
    if _any(found, np.ma.MaskedArray):
        raise InputError(
            f"{name} are a masked array, or hold one, whose mask would be ignored; drop the masked "
            "rows (x[~mask.any(axis=1)].data) or fill them (x.filled(...))"
        )


def _without_objects(embeddings: Any, array: np.ndarray) -> np.ndarray:
    """Return float64[N, D] of a data frame whose columns are all numeric, else the array.

    Of pandas' nullable and pyarrow's types numpy makes Python objects. NA becomes NaN.
    """
    kinds = [getattr(dtype, "kind", "") for dtype in getattr(embeddings, "dtypes", ())]
    if not kinds or not set(kinds) <= set("fiu") or not hasattr(embeddings, "to_numpy"):
        return array
    return embeddings.to_numpy(np.float64, na_value=np.nan)


def check_results(
    results: np.ndarray, what: str, first: int = 0, exact: np.ndarray | None = None
) -> np.ndarray:
    """Return float32[N, ...] computed from rows, or raise InputError naming one that is lost.

    Args:
      results: one entry a row.
      what: made them, for the message, as `whitening`.
      first: number of the first row.
      exact: the same in float64: a row that is all 0 in `results` alone is lost too.
    """
    entries = tuple(range(1, results.ndim))
    bad = np.flatnonzero(~np.isfinite(results).all(axis=entries))
    if bad.size:
        raise InputError(
            f"row {first + bad[0]}: what {what} makes of it is beyond float32; its values lie too "
            "far from those of the fit"
        )
    if exact is not None:
        lost = np.flatnonzero(exact.any(axis=entries) & ~results.any(axis=entries))
        if lost.size:
            raise InputError(
                f"row {first + lost[0]}: what {what} makes of it is below float32, all zeros; "
                "multiply the embeddings by a large constant before the fit"
            )
    return results
