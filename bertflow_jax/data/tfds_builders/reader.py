"""Rows of STS tasks from a TFDS folder: what `builders` wrote, or GLUE's stsb as TFDS makes it."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertflow_jax.data import sts_files
from bertflow_jax.data.sts_files import STS_YEARS, Row
from bertflow_jax.data.tfds_builders.metadata import check_metadata
from bertflow_jax.errors import DataError, DataNotFoundError

# Splits as this package names them -> as TFDS does.
SPLITS = {"train": "train", "dev": "validation", "test": "test"}
_GLUE = "glue/stsb"
_TEXT = ("sentence1", "sentence2", "subset")
_CHUNK = 1024


def read_rows(folder: Path, task: str, splits: Sequence[str], field: str) -> dict[str, list[Row]]:
    """Return the rows of a task by subset, as `data.sts.read_task_rows` does from its text files.

    Args:
      folder: DIR of `tfds:DIR`, which holds `sts12/`, ..., `sickr/` or `glue/stsb/`.
      task: `sts12` to `sts16`, `stsb` or `sickr`.
      splits: of train, dev, test.
      field: flag or config field of the splits, for messages.

    Raises:
      DataNotFoundError: the task or a split of it is not prepared there.
      DataError: prepared in another format than array_record, damaged, or (GLUE's test split)
        without gold scores.
    """
    builder, glue = _open(folder, task, splits, field)
    names = ("sentence1", "sentence2", *(("label", "idx") if glue else ("gold", "subset", "id")))
    rows: dict[str, list[Row]] = {} if task in STS_YEARS else {"+".join(splits): []}
    for split in splits:
        place = f"{builder.data_dir}, split {SPLITS[split]}"
        for number, example in enumerate(_examples(builder, split, names)):
            here = f"{place}, example {number}"
            row = _glue_row(example, here) if glue else _row(example, here)
            key = row.subset if task in STS_YEARS else "+".join(splits)
            rows.setdefault(key, []).append(row)
    return rows


def read_sentences(
    folder: Path, task: str, splits: Sequence[str], field: str
) -> dict[str, list[tuple[str, str]]]:
    """Return the sentence pairs of a task by subset, scored or not; labels are not even decoded.

    Arguments and errors as of `read_rows`; GLUE's test split is text like any other.
    """
    builder, glue = _open(folder, task, splits, field)
    names = ("sentence1", "sentence2", "idx") if glue else _TEXT
    pairs: dict[str, list[tuple[str, str]]] = {}
    for split in splits:
        for example in _examples(builder, split, names):
            subset = example["subset"] if task in STS_YEARS else ""
            pairs.setdefault(subset, []).append((example["sentence1"], example["sentence2"]))
    return pairs


def prepared_version(folder: Path, name: str) -> Path | None:
    """Return the folder of the newest prepared version of a data set, or None."""
    versions = [
        path
        for path in (folder / name).glob("*")
        if re.fullmatch(r"\d+\.\d+\.\d+", path.name) and (path / "dataset_info.json").is_file()
    ]
    return max(
        versions, key=lambda path: [int(part) for part in path.name.split(".")], default=None
    )


def _open(folder: Path, task: str, splits: Sequence[str], field: str) -> tuple[Any, bool]:
    """Return the builder of a prepared task, and whether it is GLUE's."""
    sts_files.check_task(task)
    sts_files.check_splits(task, splits, field)
    path, glue = prepared_version(folder, task), False
    if path is None and task == "stsb":
        path, glue = prepared_version(folder, _GLUE), True
    if path is None:
        also = f" or {folder / _GLUE}" if task == "stsb" else ""
        raise DataNotFoundError(
            f"tfds:{folder} holds no prepared {task} (looked for {folder / task}{also}); prepare "
            f"it with python -m bertflow_jax.data.tfds_builders --tasks={task} --data_dir={folder}"
        )
    check_metadata(path)
    import tensorflow_datasets as tfds

    try:
        builder = tfds.builder_from_directory(path)
    except Exception as error:
        # Whatever stands in its metadata files, TFDS alone reads them.
        raise _damaged(path, error) from error
    missing = [SPLITS[split] for split in splits if SPLITS[split] not in builder.info.splits]
    if missing:
        raise DataNotFoundError(
            f"{path} has no split {', '.join(missing)}; it holds {', '.join(builder.info.splits)}"
        )
    return builder, glue


def _examples(builder: Any, split: str, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the named features of the examples of a split in the order of the release."""
    import tensorflow_datasets as tfds

    formats = {str(kind.value) for kind in builder.info.available_file_formats()}
    if "array_record" not in formats:
        raise DataError(
            f"{builder.data_dir} is prepared as {', '.join(formats) or 'nothing'}, which only "
            "TensorFlow reads; prepare it with "
            'builder.download_and_prepare(file_format="array_record")'
        )
    examples = []
    try:
        # tfds.decode.PartialDecoding does the same, but imports TensorFlow.
        features = tfds.features.FeaturesDict({name: builder.info.features[name] for name in names})
        source = builder.as_data_source(
            SPLITS[split],
            deserialize_method=tfds.decode.DeserializeMethod.RAW_BYTES,
            file_format="array_record",
        )
        for start in range(0, len(source), _CHUNK):
            records = source.__getitems__(range(start, min(start + _CHUNK, len(source))))
            examples += [features.deserialize_example_np(record) for record in records]
    except Exception as error:
        # TFDS and array_record raise anything from ValueError to C++ errors; none is ours.
        raise _damaged(builder.data_dir, error) from error
    if "idx" in names:
        # TFDS shuffles GLUE while it writes; idx is the line of the release.
        examples.sort(key=lambda example: int(example["idx"]))
    for number, example in enumerate(examples):
        try:
            yield {
                name: value.decode() if isinstance(value, bytes) else value
                for name, value in example.items()
            }
        except UnicodeDecodeError as error:
            raise DataError(
                f"{builder.data_dir}, split {SPLITS[split]}, example {number}: a text is not valid "
                "utf-8; delete the folder and prepare it again"
            ) from error


def _damaged(path: Any, error: Exception) -> DataError:
    return DataError(
        f"{path} cannot be read as a TFDS data set: {type(error).__name__}: {error}. It is damaged "
        "or something else; delete the folder and prepare it again"
    )


def _row(example: dict[str, Any], place: str) -> Row:
    return Row(
        example["sentence1"],
        example["sentence2"],
        example["gold"],
        place,
        subset=example["subset"],
        key=example["id"],
    )


def _glue_row(example: dict[str, Any], place: str) -> Row:
    label = np.float32(example["label"])
    if label < 0:
        raise DataError(
            f"{place}: GLUE publishes no gold scores of this split (label {label:g}); score "
            "--splits=train,dev, or prepare the STS Benchmark's own release, which has them: "
            "python -m bertflow_jax.data.tfds_builders --tasks=stsb --data_dir=DIR"
        )
    # The shortest decimal that is this float32: what the release writes, up to seven digits.
    gold = np.format_float_positional(label, unique=True, trim="-")
    return Row(example["sentence1"], example["sentence2"], gold, place, key=str(example["idx"]))
