"""Prepare STS data sets for TFDS: python -m bertflow_jax.data.tfds_builders --data_dir=TFDS_DIR.

From the official releases, downloaded:
  python -m bertflow_jax.data.tfds_builders --tasks=sts12,stsb,sickr --data_dir=TFDS_DIR
From a folder that holds STS/, STSBenchmark/ and SICK/:
  python -m bertflow_jax.data.tfds_builders --data_dir=TFDS_DIR --manual_dir=DIR
What it wrote is read by
  python evaluate.py --encoder=mini_bert --data_dir=tfds:TFDS_DIR

TensorFlow is not needed. Started again, an interrupted run goes on with the data sets that are
missing.
"""

# Before the imports, which take seconds: Ctrl-C is heeded without them.
from bertflow_jax.interrupt import end_at_once

if __name__ == "__main__":
    end_at_once()

from absl import flags

from bertflow_jax import cli
from bertflow_jax.data.sts_files import STS_TASKS
from bertflow_jax.data.tfds_builders.prepare import prepare
from bertflow_jax.errors import ConfigError

_TASKS = flags.DEFINE_list("tasks", list(STS_TASKS), f"Data sets, some of {', '.join(STS_TASKS)}.")
_DATA_DIR = flags.DEFINE_string("data_dir", None, "TFDS folder to write.")
_MANUAL_DIR = flags.DEFINE_string(
    "manual_dir", None, "Folder with STS/, STSBenchmark/ and SICK/; default: download them."
)
_MIRROR = flags.DEFINE_string(
    "mirror", "", "Address of a folder with the archives of the releases, instead of their hosts'."
)
_CHECK_SIZES = flags.DEFINE_bool(
    "check_sizes", True, "Refuse files whose numbers of scored pairs are not the published ones."
)
_CHECKSUMS = flags.DEFINE_string(
    "checksums", "", "File of lines ADDRESS<TAB>BYTES<TAB>SHA256<TAB>NAME: refuse other archives."
)
_ENCODING = flags.DEFINE_string("encoding", "utf-8", "Text encoding of the releases' files.")
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Make anew what is there already.")


def main() -> None:
    """Prepare as the flags say."""
    data_dir = _DATA_DIR.value
    if data_dir is None or not data_dir.strip():
        raise ConfigError("--data_dir is missing: name the TFDS folder to write")
    written = prepare(
        _TASKS.value,
        data_dir,
        _MANUAL_DIR.value,
        mirror=_MIRROR.value,
        check_sizes=_CHECK_SIZES.value,
        checksums=_CHECKSUMS.value,
        encoding=_ENCODING.value,
        overwrite=_OVERWRITE.value,
    )
    print(f"{', '.join(written)}: read them with --data_dir=tfds:{data_dir}")


if __name__ == "__main__":
    cli.run(main, computes=False)
