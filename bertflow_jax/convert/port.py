"""A flow of the PyTorch port: the state dict `glow.bin` that its save_pretrained writes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertflow_jax.convert.flow_import import array_shapes, import_flow
from bertflow_jax.convert.flow_layouts import PORT
from bertflow_jax.data.json_files import read_json_object_if_present
from bertflow_jax.encoder.weight_files import TORCH_SUFFIXES, read_weights
from bertflow_jax.errors import ConfigError, DataNotFoundError
from bertflow_jax.paths import wrong_kind
from bertflow_jax.postprocess.flow import Flow

FILE = "glow.bin"
# What the port calls its poolings, as ours.
POOLINGS = {"mean": "mean", "cls": "cls", "max": "max", "first-last-avg": "embedding_last"}


def find_file(path: Path) -> Path:
    """Return the state dict: the path itself, or glow.bin in a folder of save_pretrained.

    Raises:
      DataNotFoundError: it is not there.
      ConfigError: a TensorFlow checkpoint, a file of another kind, or no file but a pipe.
    """
    file = path / FILE if path.is_dir() else path
    if file.with_name(file.name + ".index").is_file() or file.suffix == ".index":
        raise ConfigError(
            f"--flow={path} is a TensorFlow checkpoint; give it as --checkpoint={path}"
        )
    if (kind := wrong_kind(file)) is not None:
        raise ConfigError(f"--flow={path}: {file} is {kind}, and a file is read here; name a file")
    if not file.is_file():
        raise DataNotFoundError(f"--flow={path}: {file} not found")
    if file.suffix not in TORCH_SUFFIXES:
        raise ConfigError(
            f"--flow={path}: a state dict of the PyTorch port is expected, named "
            f"{', '.join(f'*{suffix}' for suffix in TORCH_SUFFIXES)}"
        )
    return file


def import_port(file: Path, stated: Mapping[str, Any]) -> tuple[Flow, list[str]]:
    """Return the flow of a state dict, and the names of its tensors (every one is used).

    Raises the errors of `read_weights` and `import_flow`.
    """
    tensors = read_weights(file)
    shapes = array_shapes(tensors)
    usual = {"levels": 3, "depth": 3}  # its command offers no others
    flow = import_flow(PORT, shapes, tensors.__getitem__, str(file), stated, usual)
    return flow, sorted(tensors)


def stored_pooling(file: Path) -> str | None:
    """Return the pooling that the config.json beside the file names, as ours; None if none."""
    name = read_json_object_if_present(file.with_name("config.json")).get("pooling")
    return POOLINGS.get(name) if isinstance(name, str) else None
