"""Names of the columns that embeddings come in, where they are a table."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.errors import InputError

_SHOWN = 5  # names of a message


def column_names(embeddings: Any) -> NDArray[np.object_] | None:
    """Return the column names of a table, object[D]; None for an array, or names not all str."""
    columns = getattr(embeddings, "columns", None)
    if columns is None:
        return None
    names = list(columns)
    return np.array(names, object) if all(isinstance(name, str) for name in names) else None


def check_columns(embeddings: Any, fitted: NDArray[np.object_] | None) -> None:
    """Raise InputError for a table whose columns are not those of the fit, in their order.

    The text is scikit-learn's. Nothing is checked where either side has no names.

    Args:
      embeddings: an array or a table.
      fitted: names of the fit, None without.
    """
    given = column_names(embeddings)
    if fitted is None or given is None or np.array_equal(given, fitted):
        return
    unseen, missing = sorted(set(given) - set(fitted)), sorted(set(fitted) - set(given))
    text = "The feature names should match those that were passed during fit.\n"
    for title, names in (
        ("Feature names unseen at fit time", unseen),
        ("Feature names seen at fit time, yet now missing", missing),
    ):
        if names:
            more = ["..."] if len(names) > _SHOWN else []
            text += "\n- ".join([f"{title}:", *names[:_SHOWN], *more]) + "\n"
    if not unseen and not missing:
        text += "Feature names must be in the same order as they were in fit.\n"
    raise InputError(text)
