"""Whether arrays are those that a post-processor of some settings has."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bertflow_jax.errors import BertFlowError, shown


def check_arrays(
    arrays: Mapping[str, Any],
    expected: Mapping[str, jax.ShapeDtypeStruct],
    *,
    where: str,
    wanted_by: str,
    error: type[BertFlowError],
    advice: str = "",
) -> None:
    """Raise `error` naming the first array that is missing, too many, or of another kind.

    Args:
      arrays: name -> array of NumPy or JAX.
      expected: name -> its shape.
      where: the arrays are from, as messages begin.
      wanted_by: what asks for the expected ones, for messages.
      error: class of what is raised.
      advice: what to do, the end of every message.
    """
    for name in sorted(set(expected) ^ set(arrays)):
        missing = name in expected
        raise error(
            f"{where}: {'missing' if missing else 'unexpected'} array {name!r}, which "
            f"{wanted_by} {'asks for' if missing else 'knows nothing of'}{advice}"
        )
    for name, wanted in expected.items():
        leaf = arrays[name]
        if not isinstance(leaf, np.ndarray | np.generic | jax.Array) or not _is_real(leaf.dtype):
            raise error(f"{where}: {name!r} is no array of real numbers but {shown(leaf)}{advice}")
        if leaf.shape != wanted.shape:
            raise error(
                f"{where}: {name!r} has shape {leaf.shape}, and {wanted_by} asks for "
                f"{wanted.shape}{advice}"
            )
        if not np.isfinite(np.asarray(leaf)).all():
            raise error(f"{where}: {name!r} holds a number that is not finite{advice}")


def _is_real(dtype: Any) -> bool:
    # JAX's own question knows bfloat16 too.
    return jnp.issubdtype(dtype, jnp.floating) or jnp.issubdtype(dtype, jnp.integer)
