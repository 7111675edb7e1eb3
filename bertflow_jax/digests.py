"""Digests of pytrees of arrays."""

import hashlib
from typing import Any

import jax
import numpy as np


def tree_digest(tree: Any) -> str:
    """Return the sha256 of every leaf's path, type, shape and bytes."""
    total = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        array = np.asarray(leaf)
        total.update(f"{jax.tree_util.keystr(path)} {array.dtype} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()
