"""TFDS builders of STS 2012 to 2016, STS Benchmark and SICK.

An example is one candidate pair, in the order of the release (subsets sorted by name, lines as in
the file): `sentence1`, `sentence2`; `score` float32, the gold similarity 0 to 5, NaN where the pair
is not scored; `scored` bool; `gold` the score as the release writes it ("" where not scored: a
float32 does not hold the 15 digits some have); `subset`; `id`; SICK also `entailment`.
Importing this module registers the builders, so that `tfds.builder("sts12", data_dir=DIR)` works.
"""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from bertflow_jax.data import sts, sts_files
from bertflow_jax.data.sts_files import Row
from bertflow_jax.data.tfds_builders.archives import fetch, mirrored, read_checksums
from bertflow_jax.data.tfds_builders.reader import SPLITS
from bertflow_jax.data.tfds_builders.releases import RELEASES
from bertflow_jax.errors import DataError, DataNotFoundError

ENTAILMENT = ("NEUTRAL", "ENTAILMENT", "CONTRADICTION")
_LAYOUT = """
A folder with STS/STS12-en-test ... STS16-en-test (STS.input.*.txt, STS.gs.*.txt), STSBenchmark
(sts-train.csv, sts-dev.csv, sts-test.csv) and SICK (SICK_train.txt, SICK_trial.txt,
SICK_test_annotated.txt) side by side, as SentEval lays them out.
"""


class ScoredPairsBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
    """What the builders share; a subclass is known by its name, a task.

    Where `DownloadConfig(manual_dir=DIR)` names a folder with files, the task is read from there
    (in SentEval's layout); else the official archives are downloaded.

    Args:
      mirror: address of a folder with the archives under their own names, instead of the
        official one; "" for the official one.
      check_sizes: whether the numbers of scored pairs must be the published ones. They stand in
        for checksums of the archives, of which no distributor publishes any.
      encoding: of the text files.
      **kwargs: of tfds.core.GeneratorBasedBuilder.
    """

    VERSION = tfds.core.Version("1.0.0")
    MANUAL_DOWNLOAD_INSTRUCTIONS = _LAYOUT
    # TFDS would look for a checksums.tsv through importlib_resources, which it does not install.
    url_infos: Any = None

    def __init__(
        self,
        *,
        mirror: str = "",
        check_sizes: bool = True,
        checksums: str = "",
        encoding: str = "utf-8",
        **kwargs: Any,
    ):
        self._options = {
            "mirror": mirror,
            "check_sizes": check_sizes,
            "checksums": checksums,
            "encoding": encoding,
        }
        if checksums:
            self.url_infos = read_checksums(Path(checksums))
        super().__init__(**kwargs)
        # What TFDS rebuilds an unpickled builder from.
        self._original_state |= self._options

    def _info(self) -> tfds.core.DatasetInfo:
        release = RELEASES[self.name]
        text = tfds.features.Text
        features: dict[str, Any] = {
            "sentence1": text(),
            "sentence2": text(),
            "score": np.float32,
            "scored": np.bool_,
            "gold": text(),
            "subset": text(),
            "id": text(),
        }
        if self.name == "sickr":
            features["entailment"] = tfds.features.ClassLabel(names=ENTAILMENT)
        return tfds.core.DatasetInfo(
            builder=self,
            description=release.title,
            features=tfds.features.FeaturesDict(features),
            homepage=release.homepage,
            license=release.license,
            citation=release.citation,
            # The order of a task is part of its digest, and of the flow text made of it.
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator[tuple[int, dict[str, Any]]]]:
        manual = _manual_folder(dl_manager)
        if manual is not None:
            rows = self._rows(manual)
        else:
            release = RELEASES[self.name]
            urls = [mirrored(url, str(self._options["mirror"])) for url in release.archives]
            unpacked = fetch(dl_manager, self.name, urls, release.folder)
            try:
                rows = self._rows(unpacked)
            except (DataError, DataNotFoundError) as error:
                kept = Path(dl_manager.download_dir) / self.name
                raise DataError(
                    f"{error} (unpacked from {', '.join(urls)}; to download it anew, delete {kept})"
                ) from error
        return {SPLITS[split]: self._generate_examples(rows[split]) for split in rows}

    def _rows(self, folder: Path) -> dict[str, list[Row]]:
        """Return the rows of each split: all is read and checked before anything is written."""
        encoding = str(self._options["encoding"])
        rows = {}
        for split in sts_files.task_splits(self.name):
            by_subset = sts.read_task_rows(folder, self.name, [split], encoding=encoding)
            rows[split] = [row for subset in by_subset.values() for row in subset]
            for row in rows[split]:
                self._example(row)
        if self._options["check_sizes"]:
            _check_sizes(self.name, rows, folder)
        return rows

    def _generate_examples(self, rows: list[Row]) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, row in enumerate(rows):
            yield number, self._example(row)

    def _example(self, row: Row) -> dict[str, Any]:
        example = {
            "sentence1": row.sentence1,
            "sentence2": row.sentence2,
            "score": sts.gold_score(row) if row.gold else math.nan,
            "scored": bool(row.gold),
            "gold": row.gold,
            "subset": row.subset,
            "id": row.key,
        }
        if self.name == "sickr":
            if row.entailment not in ENTAILMENT:
                raise DataError(
                    f"{row.place}: entailment label {row.entailment!r} is none of "
                    f"{', '.join(ENTAILMENT)}; SICK has one in every row"
                )
            example["entailment"] = row.entailment
        return example


def _manual_folder(dl_manager: Any) -> Path | None:
    try:
        return Path(dl_manager.manual_dir)
    except AssertionError:
        # TFDS's way to say that the folder is empty or not there, as its default is.
        return None


def _check_sizes(task: str, rows: dict[str, list[Row]], folder: Path) -> None:
    published = RELEASES[task].sizes
    year = task in sts_files.STS_YEARS
    found = Counter(
        row.subset if year else split for split, kept in rows.items() for row in kept if row.gold
    )
    wrong = [
        f"{name} {found[name]} instead of {published.get(name, 0)}"
        for name in dict.fromkeys((*published, *found))
        if found[name] != published.get(name, 0)
    ]
    if wrong:
        raise DataError(
            f"{folder}: not the published {task}: scored pairs of {', '.join(wrong)}. The files "
            "are incomplete, damaged or of another release; --nocheck_sizes takes them as they are"
        )


class Sts12(ScoredPairsBuilder):
    """STS 2012: http://ixa2.si.ehu.eus/stswiki/index.php/Main_Page."""

    name = "sts12"


class Sts13(ScoredPairsBuilder):
    """STS 2013 without SMT, which is licensed separately and left out of published scores."""

    name = "sts13"


class Sts14(ScoredPairsBuilder):
    """STS 2014: http://ixa2.si.ehu.eus/stswiki/index.php/Main_Page."""

    name = "sts14"


class Sts15(ScoredPairsBuilder):
    """STS 2015: http://ixa2.si.ehu.eus/stswiki/index.php/Main_Page."""

    name = "sts15"


class Sts16(ScoredPairsBuilder):
    """STS 2016: 9,183 candidate pairs, of which 1,186 are scored."""

    name = "sts16"


class StsBenchmark(ScoredPairsBuilder):
    """STS Benchmark as released: unlike GLUE's stsb with the gold scores of its test split."""

    name = "stsb"


class Sick(ScoredPairsBuilder):
    """SICK as in SemEval-2014 Task 1, with relatedness and entailment."""

    name = "sickr"


BUILDERS: dict[str, type[ScoredPairsBuilder]] = {
    builder.name: builder for builder in (Sts12, Sts13, Sts14, Sts15, Sts16, StsBenchmark, Sick)
}
