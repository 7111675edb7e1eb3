"""STS 2012 to 2016, STS Benchmark and SICK as TensorFlow Datasets, without TensorFlow.

`releases` says where the data come from, `builders` are the TFDS builders, `prepare` runs them,
`reader` reads what they wrote (and GLUE's stsb). tensorflow_datasets is imported only when one of
them runs: neither this module nor `reader` loads it.
"""

from pathlib import Path

from bertflow_jax.errors import ConfigError
from bertflow_jax.paths import user_path

PREFIX = "tfds:"
# Start of the names of folders that hold half-made things.
UNFINISHED = ".unfinished-"


def tfds_folder(path: str | Path, name: str) -> Path | None:
    """Return DIR of a path written as `tfds:DIR`, None for any other path.

    Args:
      path: as given by the user; `./tfds:x` is a file or folder of that name.
      name: of the flag or field it comes from, for the message.

    Raises:
      ConfigError: nothing follows `tfds:`.
    """
    text = str(path)
    if not text.startswith(PREFIX):
        return None
    folder = text.removeprefix(PREFIX)
    if not folder.strip():
        raise ConfigError(f"{name}={text}: name the folder of prepared data after {PREFIX}")
    return user_path(folder, name)
