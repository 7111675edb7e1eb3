"""What data differ in from the released ones. Each test names the bug it catches."""

import pytest

from bertflow_jax.data.published_sizes import data_note, other_split, unlike_published
from bertflow_jax.data.sts import load_task
from bertflow_jax.data.tfds_builders.releases import RELEASES

STS12 = RELEASES["sts12"].sizes


@pytest.mark.parametrize("task", list(RELEASES))
def test_the_released_data_are_comparable(shared, task):
    # Bug: a mark on a whole data set, for a wrong size or blank gold lines that count as pairs.
    pairs = load_task(task, shared / "sts").subsets
    assert unlike_published(task, {name: len(part) for name, part in pairs.items()}) is None


@pytest.mark.parametrize(
    ("task", "sizes", "said"),
    [
        (
            "sts12",
            {name: size for name, size in STS12.items() if name != "MSRpar"},
            "subset MSRpar is missing",
        ),
        (
            "sts12",
            {**STS12, "MSRvid2": 750, "x": 1},
            "subsets MSRvid2, x are not part of the published scores",
        ),
        ("sts12", {**STS12, "MSRvid": 700}, "MSRvid has 700 scored pairs instead of 750"),
        ("sickr", {"test": 499}, "test has 499 scored pairs instead of 4927"),
        ("stsb", {"train+dev": 7248}, "train+dev has 7248 scored pairs instead of 7249"),
        ("qnli", {"dev": 5462}, "dev has 5462 scored pairs instead of 5463"),
        ("mrpc", {"test": 1724}, "test has 1724 scored pairs instead of 1725"),
        ("mrpc", {"train+dev": 4000}, "train+dev has 4000 scored pairs instead of 4076 or 4484"),
        ("qqp", {"dev": 40431}, "dev has 40431 scored pairs instead of 40430"),
    ],
)
def test_other_pairs_are_named(task, sizes, said):
    # Bug: a cut file scored as the whole one without a word.
    assert data_note(task, sizes) == f"{said}: not comparable with published scores"
    assert unlike_published(task, sizes) == data_note(task, sizes)


def test_another_split_is_named_but_no_fault_of_the_data():
    # Bug: STS-B of dev read as STS-B of test; a warning about data that are whole.
    assert unlike_published("stsb", {"dev": 1500}) == (
        "scored on dev: not comparable with scores of test"
    )
    assert data_note("stsb", {"dev": 1500}) is None
    assert other_split("sickr", {"train+dev+test": 9927}) == "train+dev+test"
    assert other_split("stsb", {"test": 1379}) is None


@pytest.mark.parametrize(
    ("task", "sizes"),
    [
        ("qnli", {"dev": 5463}),
        ("qnli", {"train+dev": 110206}),
        ("mrpc", {"test": 1725}),
        ("mrpc", {"dev": 408}),
        ("mrpc", {"train": 3668}),
        ("mrpc", {"train": 4076}),  # as it was published, without a dev
        ("qqp", {"dev": 40430}),
    ],
)
def test_the_sizes_of_glue(task, sizes):
    # Bug: a cut dev.tsv of QNLI scored as the whole one: its sizes were not known.
    assert unlike_published(task, sizes) is None


def test_of_other_tasks_nothing_is_said():
    # Bug: a KeyError, or a mark on the bundled pairs and on sizes that nobody knows.
    assert unlike_published("qqp", {"train": 3}) is None
    assert unlike_published("qqp", {"train+dev": 3}) is None
    assert unlike_published("everyday", {"everyday": 3}) is None
