"""Whether the two files that describe a folder of `save_pretrained` say the same.

`bertflow_jax.json` is read here, `modules.json` by sentence-transformers.
"""

from pathlib import Path

from bertflow_jax.data.json_files import is_there, read_json_object
from bertflow_jax.encoder.folder import OWN_SETTINGS, EncoderFolder
from bertflow_jax.encoder.pooling import PoolingSpec
from bertflow_jax.encoder.st_files import read_modules, st_pooling
from bertflow_jax.errors import ConfigError


def check_own_settings(place: Path, folder: EncoderFolder, spec: PoolingSpec, layers: int) -> None:
    """Refuse a bertflow_jax.json whose pooling or normalisation modules.json contradicts.

    Args:
      place: folder of both files; without one of them there is nothing to compare.
      folder: what bertflow_jax.json says.
      spec: its pooling.
      layers: L of the encoder.

    Raises:
      ConfigError: naming both files and what they say.
    """
    if not (is_there(place / OWN_SETTINGS) and is_there(place / "modules.json")):
        return
    modules = read_modules(place)
    kinds = [kind.strip("'").rpartition(".")[2] for kind, _ in modules]
    pooling = next((i for i, kind in enumerate(kinds) if kind in ("Pooling", "LayerPooling")), None)
    said = None if pooling is None else _said_pooling(modules[pooling][1], kinds[pooling], layers)
    ours = (str(spec), folder.normalize)
    theirs = (str(said), "Normalize" in kinds)
    for name, here, there in zip(("pooling", "normalize"), ours, theirs, strict=True):
        if here != there:
            raise ConfigError(
                f"{place / OWN_SETTINGS} says {name} {here}, but {place / 'modules.json'} and its "
                f"modules {there}: one was changed after the save. Save the encoder again, or name "
                "the pooling to load it without its post-processor"
            )


def _said_pooling(place: Path, kind: str, layers: int) -> PoolingSpec:
    """Return what a Pooling or LayerPooling module computes."""
    path = place / "config.json"
    if kind == "Pooling":
        return PoolingSpec((layers,), st_pooling(path))
    fields = read_json_object(path)
    try:
        return PoolingSpec(tuple(fields["layers"]), fields["tokens"], fields["reduce"])
    except (LookupError, TypeError) as error:
        raise ConfigError(
            f"{path}: layers, tokens and reduce are needed ({type(error).__name__}: {error}); save "
            "the encoder again"
        ) from None
