"""Prepared TFDS folders of SNLI and GLUE's QNLI, as sources of `benchmarks.fuzz_data`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fuzz_data import Source, check_task, check_texts
from bertflow_jax.data.glue import load_glue_task
from bertflow_jax.data.supervision import load_training_pairs
from bertflow_jax.supervision_config import SupervisionConfig

_ROWS = [("caf\xe9", "a", 0), ("b", "c", 1), ("d", "e", 0)]


def sources() -> list[Source]:
    """Return the sources."""
    return [Source("tfds-snli", _snli, _read_snli), Source("tfds-qnli", _qnli, _read_qnli)]


def prepare(
    folder: Path,
    dataset: str,
    config: str,
    texts: tuple[str, str],
    labels: Any,
    rows: Sequence[tuple[Any, Any, int]] = _ROWS,
) -> None:
    """Prepare a data set of two texts and a label, with the same rows in each split."""
    import tensorflow_datasets as tfds

    version = tfds.core.Version("1.0.0")

    class Made(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
        name = dataset
        VERSION = version
        BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=config, version=version)] * bool(config)
        # A module of a package would make TFDS look for its files.
        __module__ = "made_here"

        def _info(self) -> Any:
            features: dict[str, Any] = {text: tfds.features.Text() for text in texts}
            features |= {"label": tfds.features.ClassLabel(names=labels), "idx": np.int32}
            return tfds.core.DatasetInfo(
                builder=self, features=tfds.features.FeaturesDict(features), disable_shuffling=True
            )

        def _split_generators(self, dl_manager: Any) -> Any:
            return {split: self._rows() for split in ("train", "validation")}

        def _rows(self) -> Any:
            for i, (first, second, label) in enumerate(rows):
                yield i, {texts[0]: first, texts[1]: second, "label": label, "idx": i}

        def _generate_examples(self) -> Any:
            raise NotImplementedError

    tfds.display_progress_bar(enable=False)
    Made(
        data_dir=str(folder), file_format="array_record", **({"config": config} if config else {})
    ).download_and_prepare()


def _snli(folder: Path) -> None:
    names = ["entailment", "neutral", "contradiction"]
    prepare(folder, "snli", "", ("premise", "hypothesis"), names)


def _read_snli(folder: Path) -> object:
    config = SupervisionConfig(path=str(folder), task="snli", splits="train")
    pairs = load_training_pairs(config, "siamese")
    check_texts((*pairs.sentences1, *pairs.sentences2))
    assert set(pairs.targets.tolist()) <= {0, 1, 2}
    return pairs


def _qnli(folder: Path) -> None:
    prepare(folder, "glue", "qnli", ("question", "sentence"), ["entailment", "not_entailment"])


def _read_qnli(folder: Path) -> object:
    return check_task(load_glue_task("qnli", f"tfds:{folder}", ["dev"]), 1.0)
