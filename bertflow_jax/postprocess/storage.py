"""Folders of fitted post-processors: one JSON and one safetensors file, no pickle."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from bertflow_jax.digests import tree_digest
from bertflow_jax.errors import CheckpointError, DataNotFoundError
from bertflow_jax.paths import user_path
from bertflow_jax.workdir import prepare_output

# What reading a damaged file can raise, the constructors of configs included.
DAMAGE = (OSError, ArithmeticError, ValueError, LookupError, TypeError, SafetensorError)


class Folder:
    """The two files of one kind of post-processor.

    Attributes:
      kind: as messages call it, `flow`.
      json_name: file of settings.
      arrays_name: file of arrays.
    """

    def __init__(self, kind: str, json_name: str, arrays_name: str):
        self.kind = kind
        self.json_name = json_name
        self.arrays_name = arrays_name

    def save(
        self, folder: str | Path, described: Mapping[str, Any], arrays: Mapping[str, Any]
    ) -> None:
        """Write settings and arrays, the digest of the arrays among the settings.

        Raises:
          WorkdirError: the folder is blank, a file, or cannot be written.
        """
        path = prepare_output(folder, "folder")
        flat = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        save_file(flat, path / self.arrays_name)
        content = {**described, "arrays_sha256": tree_digest(flat)}
        (path / self.json_name).write_text(json.dumps(content, indent=2) + "\n", "utf-8")

    def find(self, folder: str | Path) -> Path:
        """Return the folder, or raise DataNotFoundError naming the file that is not there."""
        path = user_path(folder, "folder")
        for name in (self.json_name, self.arrays_name):
            if not os.path.isfile(path / name):
                raise DataNotFoundError(f"{path / name} not found: not a saved {self.kind}")
        return path

    def read(self, path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return settings and arrays; raises one of `DAMAGE` for files that cannot be read."""
        described = json.loads((path / self.json_name).read_text("utf-8"))
        if not isinstance(described, dict):
            raise ValueError(f"{self.json_name} holds no object")
        described["arrays_sha256"]  # a KeyError here is damage too
        return described, load_file(path / self.arrays_name)

    def check(
        self,
        path: Path,
        described: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        expected: Mapping[str, jax.ShapeDtypeStruct],
    ) -> None:
        """Raise CheckpointError unless the arrays are the expected ones, finite and undamaged."""
        file = path / self.arrays_name
        for name in sorted(set(expected) ^ set(arrays)):
            state = "missing" if name in expected else "unexpected"
            raise CheckpointError(f"{file}: {state} array {name!r}")
        for name, leaf in arrays.items():
            if leaf.shape != expected[name].shape:
                raise CheckpointError(
                    f"{file}: {name!r} has shape {leaf.shape}, "
                    f"the config says {expected[name].shape}"
                )
            if not np.isfinite(leaf).all():
                raise CheckpointError(
                    f"{file}: {name!r} holds a number that is not finite; save the {self.kind} "
                    "again, or fit it anew"
                )
        if tree_digest(dict(arrays)) != described["arrays_sha256"]:
            raise CheckpointError(
                f"{file}: its arrays are not those {self.json_name} was written for"
            )
