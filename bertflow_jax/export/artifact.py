"""From a `SentenceEncoder` to a folder that jax and tokenizers alone can run.

    embed.jaxexport   the function (params, ids int32[B, 16 t], mask int32[B, 16 t]) ->
                      float32[B, E] as StableHLO for several platforms, B and t free
    params.npz        its parameters, float32 by name; not constants of the function: with those of
                      a MiniLM it has 90 MB in place of 36 kB and takes four times as long to
                      compile
    tokenizer.json    cuts at max_length and pads to multiples of 16 tokens by itself
    load.py           the loader, a copy of `bertflow_jax/export/load.py`
    manifest.json     versions, platforms, digests, dimension and what decides the vectors
    README.md         how to use it, and how long it can be read

The folder is written beside its place, read back with its own loader, compared with
`SentenceEncoder.encode` and then renamed.
"""

import contextlib
import datetime
import importlib.util
import logging
import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import tokenizers

from bertflow_jax.checks import check_switch
from bertflow_jax.data.json_files import write_json
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.encoder.embedding import unit_length
from bertflow_jax.errors import ConfigError, InputError
from bertflow_jax.export.places import PLATFORMS, check_platforms, place_of
from bertflow_jax.export.readme import readme
from bertflow_jax.jax_settings import own_settings
from bertflow_jax.paths import file_sha256
from bertflow_jax.staging import whole_folder
from bertflow_jax.training.supervised_optimizer import split_params
from bertflow_jax.version import __version__

_log = logging.getLogger(__name__)
MULTIPLE = 16  # T is a multiple: `encoder.layers` reduces 16 numbers at a time on a CPU
FILES = ("embed.jaxexport", "params.npz", "tokenizer.json", "load.py")
_PROBES = (
    "",
    "A man is playing a guitar.",
    "It rains.",
    "\u4e2d\u6587 caf\u00e9 [SEP] x",
    "a b " * 400,
)
_TOLERANCE = {"float32": 1e-5, "bfloat16": 0.05}  # of the longest vector's length


@own_settings()
def export_encoder(
    encoder: SentenceEncoder,
    folder: str | os.PathLike[str],
    platforms: Sequence[str] = PLATFORMS,
    *,
    normalize: bool = False,
) -> dict[str, Any]:
    """Write an encoder, with its post-processor if it has one, as a folder for `jax.export`.

    Args:
      encoder: what is to be served.
      folder: must not exist, or be empty; complete or not there, whatever happens.
      platforms: of cpu, cuda, rocm, tpu: what the function can be compiled for.
      normalize: scale every vector to length 1.

    Returns:
      What manifest.json says.

    Raises:
      InputError: no SentenceEncoder, a normalize that is not True or False, or a default prompt
        that `SentenceEncoder.encode` refuses.
      ConfigError: an unknown platform, or flatbuffers, which `jax.export` needs, is not installed.
      WorkdirError: the folder is not empty or cannot be written.
    """
    if not isinstance(encoder, SentenceEncoder):
        raise InputError(f"a SentenceEncoder is needed, not {type(encoder).__name__}")
    normalize = check_switch(normalize, "normalize")
    platforms = check_platforms(platforms)
    encoder.encoder.usage.prompt()  # refused before anything is compiled
    target = place_of(folder)
    serialized, params, described = _function(encoder, platforms, normalize)
    with whole_folder(target) as new:
        (new / "embed.jaxexport").write_bytes(serialized)
        arrays: dict[str, Any] = params
        np.savez(new / "params.npz", **arrays)
        (new / "tokenizer.json").write_text(encoder.encoder.tokenizer.standalone(MULTIPLE), "utf-8")
        shutil.copyfile(Path(__file__).with_name("load.py"), new / "load.py")
        manifest = {
            **_manifest(encoder, normalize),
            **described,
            "files": {name: _digest(new / name) for name in FILES},
        }
        write_json(new / "manifest.json", manifest)
        manifest["checked"] = _check(encoder, new, platforms, normalize)
        write_json(new / "manifest.json", manifest)
        (new / "README.md").write_text(readme(manifest), "utf-8")
    return manifest


def _function(
    encoder: SentenceEncoder, platforms: Sequence[str], normalize: bool
) -> tuple[bytes, dict[str, np.ndarray], dict[str, Any]]:
    """Return the function as bytes, its parameters by name, and what the manifest says of it."""
    spec = encoder.encoder.pooling
    used = {**encoder.params, "encoder": split_params(encoder.params["encoder"], spec)}
    leaves, tree = jax.tree_util.tree_flatten_with_path(used)
    names = [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in leaves]
    params = {name: np.asarray(leaf) for name, (_, leaf) in zip(names, leaves, strict=True)}

    def embed(params: dict[str, jax.Array], ids: jax.Array, mask: jax.Array) -> jax.Array:
        tree_of = jax.tree_util.tree_unflatten(tree, [params[name] for name in names])
        # As a row of one text of a packed batch: T may be beyond the position table then.
        vectors = encoder.embed_fn(tree_of, ids, (mask > 0).astype(jnp.int32), 1)
        vectors = vectors.astype(jnp.float32)
        return unit_length(vectors) if normalize else vectors

    ids = jax.ShapeDtypeStruct(jax.export.symbolic_shape(f"b, {MULTIPLE}*t"), jnp.int32)
    shapes = {name: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for name, leaf in params.items()}
    with _file_names_alone():
        exported = jax.export.export(jax.jit(embed), platforms=platforms)(shapes, ids, ids)
    try:
        serialized = bytes(exported.serialize())
    except ImportError as error:
        raise ConfigError(
            "jax.export writes and reads files with flatbuffers, which is not installed: pip "
            "install 'flatbuffers>=24,<26' (the extra export)"
        ) from error
    return (
        serialized,
        params,
        {
            "platforms": list(exported.platforms),
            "calling_convention_version": exported.calling_convention_version,
            "inputs": {"ids": ["b", f"{MULTIPLE}*t"], "mask": ["b", f"{MULTIPLE}*t"]},
            "parameters": sum(leaf.size for leaf in params.values()),
        },
    )


@contextlib.contextmanager
def _file_names_alone() -> Iterator[None]:
    """Keep the folders of this machine out of the places that the function's operations name."""
    option = "jax_hlo_source_file_canonicalization_regex"
    before = getattr(jax.config, option)
    jax.config.update(option, r"^.*/")
    try:
        yield
    finally:
        jax.config.update(option, before)


def _manifest(encoder: SentenceEncoder, normalize: bool) -> dict[str, Any]:
    return {
        "format": 1,
        "dimension": encoder.dimension,
        "max_length": encoder.encoder.tokenizer.max_length,
        "lower_first": encoder.encoder.lower_first,
        "prompt": encoder.encoder.usage.prompt(),
        "normalize": normalize,
        "encoder": encoder.describe(),
        "exported": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": {
            "python": platform.python_version(),
            "bertflow_jax": __version__,
            "jax": jax.__version__,
            "tokenizers": tokenizers.__version__,
        },
    }


def _digest(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": file_sha256(path)}


def _check(
    encoder: SentenceEncoder, folder: Path, platforms: Sequence[str], normalize: bool
) -> dict[str, Any] | None:
    """Run what was written with its own loader; return how far it is from `encode`.

    None where this machine's device is of none of the platforms.
    """
    here = jax.default_backend()
    if here.replace("gpu", "cuda") not in platforms and here not in platforms:
        _log.warning("not checked: this machine's %s is none of %s", here, ", ".join(platforms))
        return None
    spec = importlib.util.spec_from_file_location("exported_load", folder / "load.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    got = module.Encoder(folder).encode(list(_PROBES))
    wanted = encoder.encode(list(_PROBES), normalize=normalize, on_overflow="ignore")
    scale = max(1.0, float(np.linalg.norm(wanted, axis=1).max()))
    difference = float(np.abs(got - wanted).max())
    if not difference <= _TOLERANCE[encoder.encoder.dtype] * scale:
        raise RuntimeError(f"the exported function is {difference} away from SentenceEncoder")
    return {"texts": len(_PROBES), "largest_difference": difference, "device": here}
