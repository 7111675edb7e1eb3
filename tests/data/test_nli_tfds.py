"""SNLI and MultiNLI as TFDS prepares them: array_record files, no TensorFlow."""

import sys

import pytest

from bertflow_jax.data.supervision import load_dev_pairs, load_training_pairs
from bertflow_jax.errors import ConfigError, DataError
from bertflow_jax.supervision_config import SupervisionConfig

tfds = pytest.importorskip("tensorflow_datasets")
NAMES = ["entailment", "neutral", "contradiction"]


def _builder(dataset, label_names, splits):
    """A TFDS builder class that writes tiny splits: name -> [(premise, hypothesis, label)]."""

    class Builder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        name = dataset
        # A module of a package would make TFDS import importlib_resources, which may not be there.
        __module__ = "made_for_this_test"
        VERSION = tfds.core.Version("1.1.0")

        def _info(self):
            return tfds.core.DatasetInfo(
                builder=self,
                features=tfds.features.FeaturesDict(
                    {
                        "premise": tfds.features.Text(),
                        "hypothesis": tfds.features.Text(),
                        "label": tfds.features.ClassLabel(names=label_names),
                    }
                ),
                disable_shuffling=True,
            )

        def _split_generators(self, dl_manager):
            return {name: self._rows(rows) for name, rows in splits.items()}

        def _rows(self, rows):
            for i, (premise, hypothesis, label) in enumerate(rows):
                yield i, {"premise": premise, "hypothesis": hypothesis, "label": label}

        def _generate_examples(self):
            raise NotImplementedError

    return Builder


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tfds")
    snli = {
        "train": [("café", "a", 0), ("b", "c", -1), ("d", "e", 2)],
        "validation": [("dev", "f", 1)],
    }
    # Another order of the names than SNLI's: the names count, not the numbers.
    multi = {"train": [("m", "n", 0)], "validation_matched": [("vm", "o", 2)]}
    for name, labels, splits in (("snli", NAMES, snli), ("multi_nli", NAMES[::-1], multi)):
        _builder(name, labels, splits)(
            data_dir=str(folder), file_format="array_record"
        ).download_and_prepare()
    return folder


def test_two_prepared_sets(data_dir):
    """Catches labels taken by number, bytes instead of text, a pair without gold kept."""
    config = SupervisionConfig(path=str(data_dir), task="snli,multi_nli")
    pairs = load_training_pairs(config, "siamese")
    assert pairs.sentences1 == ["café", "d", "m"]
    assert pairs.sentences2 == ["a", "e", "n"]
    assert pairs.targets.tolist() == [0, 2, 2]
    assert pairs.manifest["without_gold"] == 1
    dev, metric = load_dev_pairs(config, "siamese")
    assert (metric, dev.sentences1, dev.targets.tolist()) == ("accuracy", ["dev", "vm"], [1, 0])
    assert "tensorflow" not in sys.modules


def test_mistakes_are_named(data_dir):
    config = SupervisionConfig(path=str(data_dir), task="snli", splits="tran")
    with pytest.raises(
        DataError, match=r"no split tran; set supervision\.splits.*train, validation"
    ):
        load_training_pairs(config, "siamese")
    with pytest.raises(ConfigError, match=r"task='snli' has classes, and scores are needed"):
        load_training_pairs(SupervisionConfig(path=str(data_dir), task="snli"), "regression")
