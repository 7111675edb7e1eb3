"""GLUE's sentence pairs from prepared TensorFlow Datasets, without TensorFlow."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bertflow_jax.data.glue_files import GlueRows
from bertflow_jax.data.sts_files import Row
from bertflow_jax.data.tfds_builders.metadata import check_metadata
from bertflow_jax.data.tfds_builders.reader import prepared_version
from bertflow_jax.errors import DataError, DataNotFoundError

_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
_TEXTS = {
    "stsb": ("sentence1", "sentence2"),
    "mrpc": ("sentence1", "sentence2"),
    "qqp": ("question1", "question2"),
    "qnli": ("question", "sentence"),
}
# TFDS numbers QNLI's labels in this order; the numbers of MRPC and QQP are those of the files.
_QNLI_LABELS = ("entailment", "not_entailment")


@dataclasses.dataclass(frozen=True)
class GlueRecords:
    """One set, `glue/<task>`, of a folder of prepared TFDS data.

    Attributes:
      task: `stsb`, `qnli`, `mrpc` or `qqp`.
      folder: that holds `glue/`, prepared with file_format="array_record".
    """

    task: str
    folder: Path

    def has_gold(self, split: str) -> bool:
        """Return whether a split is there and labelled; TFDS writes -1 for labels held back."""
        records = self._splits.get(_SPLITS[split], ())
        with self._readable():
            return len(records) > 0 and float(records[0]["label"]) >= 0

    def read(self, split: str) -> GlueRows:
        """Return the rows of a split in the order of GLUE's files (TFDS shuffles its records).

        Raises:
          DataNotFoundError: glue/<task> or the split is not there.
          DataError: the data lie in a format that needs TensorFlow, or a text is not UTF-8.
        """
        name = _SPLITS[split]
        place = f"{self.folder}, glue/{self.task}, split {name}"
        if name not in self._splits:
            raise DataNotFoundError(f"{place} is not there; there are {', '.join(self._splits)}")
        with self._readable():
            records = sorted(self._splits[name], key=lambda record: int(record["idx"]))
        return GlueRows(place, [self._row(place, record) for record in records])

    def _row(self, split_place: str, record: dict[str, Any]) -> Row:
        place = f"{split_place}, idx {record['idx']}"
        with self._readable():
            texts, gold = [record[name] for name in _TEXTS[self.task]], self._gold(record["label"])
        try:
            first, second = (bytes(text).decode("utf-8") for text in texts)
        except (UnicodeDecodeError, TypeError, ValueError) as error:
            raise DataError(f"{place}: the text is not valid utf-8 ({error})") from error
        return Row(first, second, gold, place)

    def _gold(self, label: Any) -> str:
        if self.task == "stsb":
            # The digits of the file: as a float64, 2.6 would be 2.5999999046325684.
            return str(np.float32(label))
        if self.task == "qnli" and label in (0, 1):
            return _QNLI_LABELS[int(label)]
        return str(int(label))

    @cached_property
    def _splits(self) -> dict[str, Sequence[dict[str, Any]]]:
        version = prepared_version(self.folder, f"glue/{self.task}")
        if version is None:
            wanted = self.folder / "glue" / self.task / "VERSION" / "dataset_info.json"
            raise DataNotFoundError(
                f"--data_dir=tfds:{self.folder} holds no prepared glue/{self.task} (looked for "
                f"{wanted}); prepare it with TFDS and file_format='array_record'"
            )
        check_metadata(version)
        # Imported here: TFDS takes a while to load, and only this source needs it.
        import tensorflow_datasets as tfds

        # By its folder: by its name TFDS would look for the version that its own code makes.
        with self._readable():
            splits = tfds.builder_from_directory(version).as_data_source()
        return {str(name): records for name, records in splits.items()}

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        """Turn what can go wrong in reading prepared data into errors that name them."""
        try:
            yield
        except NotImplementedError as error:
            raise DataError(
                f"--data_dir=tfds:{self.folder}: glue/{self.task} is in a format that only "
                "TensorFlow reads; prepare it again with file_format='array_record'"
            ) from error
        # TFDS, protobuf and array_record share no class of errors for a damaged file.
        except Exception as error:
            raise DataError(
                f"--data_dir=tfds:{self.folder}: glue/{self.task} cannot be read ({error}); "
                "prepare it again"
            ) from error
