"""SNLI and MultiNLI from a TFDS data_dir that somebody has prepared.

Read with TFDS's data sources over `array_record` files: TensorFlow is never imported, and nothing
is downloaded. `tfds build snli --file_format=array_record --data_dir=DIR` prepares one.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bertflow_jax.data.nli import NO_GOLD
from bertflow_jax.data.sts_files import Row
from bertflow_jax.data.tfds_builders.metadata import check_metadata
from bertflow_jax.errors import DataError, DataNotFoundError

DATASETS = ("snli", "multi_nli")
_DEV = {"snli": "validation", "multi_nli": "validation_matched"}  # what `dev` means
_FIELDS = ("premise", "hypothesis", "label")


def read_tfds_rows(data_dir: Path, dataset: str, splits: Sequence[str]) -> Iterator[Row]:
    """Yield the pairs of some splits; a label below 0 becomes "-".

    Args:
      data_dir: holds DATASET/VERSION/ with dataset_info.json and array_record files.
      dataset: `snli`, `multi_nli`, or another data set with premise, hypothesis and label.
      splits: as TFDS names them: `train`, `validation`, `validation_matched`, ...; `dev` means
        `validation` of snli and `validation_matched` of multi_nli.

    Raises:
      DataNotFoundError: the data set is not prepared there.
      DataError: no such split, other features, or files that cannot be read.
    """
    folder = _version_folder(data_dir, dataset)
    check_metadata(folder)
    # Imported here: it takes seconds, and nothing else needs it.
    import tensorflow_datasets as tfds

    try:
        builder = tfds.builder_from_directory(folder)
        features, known = builder.info.features, list(builder.info.splits)
    except Exception as error:
        raise _unreadable(folder, error) from error
    missing = [name for name in _FIELDS if name not in (features or {})]
    if missing or not hasattr(features["label"], "names"):
        raise DataError(
            f"{folder}: features {', '.join(features or {})}; a class label `label` and the texts "
            "premise and hypothesis are needed"
        )
    splits = [_DEV.get(dataset, split) if split == "dev" else split for split in splits]
    unknown = [split for split in splits if split not in known]
    if unknown or not splits:
        raise DataError(
            f"{folder} has no split {', '.join(unknown) or repr('')}; set supervision.splits "
            f"(supervision.dev_splits) to some of {', '.join(known)}"
        )
    names = features["label"].names
    for split in splits:
        yield from _rows(folder, split, _source(builder, folder, split), names)


def _rows(folder: Path, split: str, source: Any, names: Sequence[str]) -> Iterator[Row]:
    for number in range(len(source)):
        try:
            example = source[number]
        except Exception as error:
            raise _unreadable(folder, error) from error
        place = f"{folder}, {split} example {number}"
        try:
            label = int(example["label"])
            first, second = (_text(example[name]) for name in _FIELDS[:2])
            gold = names[label] if label >= 0 else NO_GOLD
        except (UnicodeDecodeError, LookupError, TypeError, ValueError) as error:
            raise DataError(
                f"{place}: no two texts in utf-8 and a label among {', '.join(names)} ({error}); "
                "prepare the data set again"
            ) from error
        yield Row(first, second, gold, place)


def _source(builder: Any, folder: Path, split: str) -> Any:
    try:
        return builder.as_data_source(split=split)
    except Exception as error:
        raise _unreadable(folder, error) from error


def _text(value: bytes | str) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else value


def _version_folder(data_dir: Path, dataset: str) -> Path:
    """Return the newest prepared version of a data set."""
    versions = [
        info.parent
        for info in (data_dir / dataset).glob("**/dataset_info.json")
        if re.fullmatch(r"\d+\.\d+\.\d+", info.parent.name)
    ]
    if not versions:
        raise DataNotFoundError(
            f"{data_dir}: TFDS data set {dataset!r} is not prepared there (no {dataset}/VERSION/"
            f"dataset_info.json); on a machine with network run: tfds build {dataset} "
            f"--file_format=array_record --data_dir={data_dir}"
        )
    return max(versions, key=lambda path: tuple(int(part) for part in path.name.split(".")))


def _unreadable(folder: Path, error: Exception) -> DataError:
    return DataError(
        f"{folder} cannot be read as a TFDS data set of array_record files "
        f"({str(error).strip()[:300] or type(error).__name__}); prepare it again with "
        "--file_format=array_record"
    )
