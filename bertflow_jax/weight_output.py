"""Weights written as safetensors: whole or not at all, with the permissions of other outputs."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from bertflow_jax.errors import WorkdirError, refusal
from bertflow_jax.interrupt import held
from bertflow_jax.output_places import refuse_link
from bertflow_jax.staging import new_beside
from bertflow_jax.text_output import share


def write_safetensors(
    path: Path, arrays: Mapping[str, np.ndarray], metadata: dict[str, str] | None = None
) -> None:
    """Write arrays; a file that is there is replaced once the new one is complete.

    Args:
      path: of the file.
      arrays: by name.
      metadata: of the file's header.

    Raises:
      WorkdirError: the file cannot be written, or is a link.
    """
    refuse_link(path, str(path))
    try:
        with held():  # safetensors writes in one call, in which a signal would wait anyway
            unfinished = new_beside(path)
            try:
                whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
                save_file(whole, unfinished, metadata)
                share(unfinished)
                os.replace(unfinished, path)
            finally:
                unfinished.unlink(missing_ok=True)
    except (OSError, SafetensorError) as error:
        raise WorkdirError(f"{path} cannot be written: {refusal(error)}") from error
