"""Reading the files encoder weights come in; nothing here knows what the names mean.

Formats, in the order in which a folder is searched: `model.safetensors`, `flax_model.msgpack`,
`pytorch_model.bin`, each also as shards with an `.index.json`. The first one present is read; a
damaged file is an error, never a reason to take the next one.
"""

import importlib.util
import pickle
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import msgpack
import numpy as np
from flax import serialization, traverse_util

from bertflow_jax.array_files import damaged, first_bytes, read_safetensors, truncated
from bertflow_jax.data.json_files import is_there, read_json_object
from bertflow_jax.errors import ConfigError, DataNotFoundError, WeightsError
from bertflow_jax.paths import can_be_path

WEIGHT_FILES = ("model.safetensors", "flax_model.msgpack", "pytorch_model.bin")
TORCH_SUFFIXES = (".bin", ".pt", ".pth")

# What flax raises for an array whose shape, type or pieces are not what it wrote.
_MSGPACK_DAMAGE = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError),
    *(SyntaxError, RecursionError),
)

Tensors = dict[str, np.ndarray]


def find_weights(folder: Path) -> Path:
    """Return the weight file (or the index of its shards) that `read_weights` will read.

    Raises DataNotFoundError listing the names looked for.
    """
    for name in WEIGHT_FILES:
        for path in (folder / name, folder / f"{name}.index.json"):
            if is_there(path):
                return path
    raise DataNotFoundError(
        f"{folder} has no weights; looked for {', '.join(WEIGHT_FILES)} and their .index.json"
    )


def read_weights(path: Path) -> Tensors:
    """Read a weight file or an index of shards into {name: array as stored}.

    Flax trees are flattened with dots. Raises WeightsError naming the file that is empty,
    truncated, a git-lfs pointer, or holds more than plain tensors.
    """
    if path.name.endswith(".index.json"):
        return _read_shards(path)
    start = first_bytes(path)
    reader = _READERS[path.suffix]
    return reader(path, start)


def is_flax(path: Path) -> bool:
    """Tell whether the file uses Flax names and [in, out] kernels."""
    return ".msgpack" in path.suffixes


def _read_shards(index: Path) -> Tensors:
    try:
        weight_map = read_json_object(index).get("weight_map")
    except ConfigError as error:
        raise WeightsError(str(error)) from error
    if not isinstance(weight_map, Mapping) or not weight_map:
        raise WeightsError(f"{index}: no weight_map in the index")
    paths = {}
    for key, name in weight_map.items():
        path = _shard_path(index, key, name)
        paths[path.name] = path
    shards = {name: read_weights(paths[name]) for name in sorted(paths)}
    for key, name in weight_map.items():
        if key.replace("/", ".") not in shards[name]:
            raise WeightsError(f"{index}: {key} should be in {name}, but it is not there")
    tensors: Tensors = {}
    for name, shard in shards.items():
        twice = sorted(set(tensors) & set(shard))
        if twice:
            raise WeightsError(f"{index.parent / name}: {twice[0]} is also in another shard")
        tensors.update(shard)
    return tensors


def _shard_path(index: Path, key: str, name: object) -> Path:
    """Return the path of a shard; it must lie beside the index and have the same format."""
    suffix = Path(index.name.removesuffix(".index.json")).suffix
    if (
        not isinstance(name, str)
        or name != Path(name).name
        or not can_be_path(name)
        or not name.endswith(suffix)
    ):
        raise WeightsError(
            f"{index}: shard {name!r} of {key} must be a {suffix} file in the same folder"
        )
    return index.parent / name


def _first_line(error: Exception) -> str:
    """Return what an error says, or its type: PyTorch raises some without a text."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def _read_msgpack(path: Path, start: bytes) -> Tensors:
    del start
    try:
        tree = serialization.msgpack_restore(path.read_bytes())
    except msgpack.exceptions.ExtraData as error:
        raise damaged(path, "more bytes than one msgpack object") from error
    except (msgpack.exceptions.UnpackException, *_MSGPACK_DAMAGE) as error:
        if "incomplete input" in str(error):
            raise truncated(path, "the msgpack data goes on") from error
        raise damaged(path, error) from error
    if not isinstance(tree, dict):
        raise damaged(path, f"a tree of parameters is expected, found {type(tree).__name__}")
    try:
        flat = traverse_util.flatten_dict(tree)
    except RecursionError as error:
        raise damaged(path, "a tree of parameters deeper than any model") from error
    for name in flat:
        for part in name:
            if not isinstance(part, str):
                raise damaged(path, f"a name of its tree is {part!r}, not a string")
    return _only_arrays(path, {".".join(name): value for name, value in flat.items()})


def _read_bin(path: Path, start: bytes) -> Tensors:
    if importlib.util.find_spec("torch") is None:
        raise WeightsError(
            f"{path} needs PyTorch to read, which is not installed; install torch (the CPU build "
            "is enough) or convert the file to model.safetensors"
        )
    if start.startswith(b"PK"):
        _check_zip(path)
    elif start[0] != pickle.PROTO[0]:
        raise _no_torch_file(path, f"it begins with {start[:8]!r}, not as an archive or a pickle")
    import torch

    try:
        with warnings.catch_warnings():
            # What cannot be read is said below; what can be read needs no word on its protocol.
            warnings.filterwarnings("ignore", message="Detected pickle protocol")
            state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise WeightsError(
            f"{path} is not a plain state dict: it asks to run code when unpickled, which is "
            "never done; convert it to safetensors where it was made, or download it again if "
            "that file is a plain one"
        ) from error
    except (EOFError, RuntimeError) as error:
        raise truncated(path, _first_line(error)) from error
    except Exception as error:  # damaged bytes make PyTorch's unpickler raise whatever they hit
        raise damaged(path, f"{type(error).__name__}: {error}") from error
    if not isinstance(state, Mapping):
        raise WeightsError(f"{path} is not a plain state dict but a {type(state).__name__}")
    for name in state:
        if not isinstance(name, str):
            raise WeightsError(
                f"{path} is not a plain state dict: one of its names is {name!r}, not a string"
            )
    return _only_arrays(
        path, {name: _from_torch(path, name, value) for name, value in state.items()}
    )


def _check_zip(path: Path) -> None:
    """Raise WeightsError unless every member has its checksum, which torch.load never looks at."""
    if not zipfile.is_zipfile(path):
        raise truncated(path, "the end of the zip archive is missing")
    try:
        with zipfile.ZipFile(path) as archive:
            # torch.serialization.set_crc32_options(False) writes 0 for all of them.
            written = any(member.CRC for member in archive.infolist())
            names = archive.namelist()
            bad = archive.testzip() if written else None
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, ValueError, zlib.error) as error:
        raise damaged(path, error) from error
    outside = [n for n in names if n.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", n)]
    if outside:
        raise _no_torch_file(
            path,
            f"its member {outside[0]!r} leads out of the archive, which torch.save never writes",
        )
    if bad is not None:
        raise damaged(path, f"the checksum of its member {bad} is wrong")
    if not any(name.endswith("/data.pkl") for name in names):
        raise _no_torch_file(path, "it is a zip archive without data.pkl")


def _no_torch_file(path: Path, why: str) -> WeightsError:
    return WeightsError(f"{path} is not a PyTorch file: {why}; give the file that torch.save wrote")


def _from_torch(path: Path, name: str, value: object) -> object:
    """Return a tensor as an array; numpy has no bfloat16, so that one becomes float32."""
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    if value.layout != torch.strided or value.is_quantized or value.is_meta:
        kind = "quantised" if value.is_quantized else "without values (meta)"
        kind = "sparse" if value.layout != torch.strided else kind
        raise WeightsError(
            f"{path}: {name} is {kind}; save plain tensors (to_dense(), dequantize()) instead"
        )
    try:
        return (value.float() if value.dtype == torch.bfloat16 else value).detach().numpy()
    except TypeError as error:
        raise WeightsError(
            f"{path}: {name} has dtype {value.dtype}, which numpy does not have; save it as float32"
        ) from error


def _only_arrays(path: Path, values: Mapping[str, object]) -> Tensors:
    tensors = {}
    for name, value in values.items():
        if not isinstance(value, np.ndarray):
            raise WeightsError(f"{path}: {name} is a {type(value).__name__}, not a tensor")
        tensors[name] = value
    return tensors


_READERS: dict[str, Callable[[Path, bytes], Tensors]] = {
    ".safetensors": lambda path, start: read_safetensors(path),
    ".msgpack": _read_msgpack,
    **dict.fromkeys(TORCH_SUFFIXES, _read_bin),
}
