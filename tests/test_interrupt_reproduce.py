"""Ctrl-C and SIGTERM at every stage of a reproduction, which goes on where it stopped."""

import json
import signal

import pytest
from paper_made import SMALL, write_stsb
from struck import ENDS, struck, tree, whole

pytestmark = pytest.mark.slow

COMMAND = [
    *("bertflow_jax.reproduce", "--table=5", "--rows=raw,flow_target", "--data_dir=."),
    *("--encoders=base=mini_bert", "--output=out"),
    "--set="
    + ",".join(f"{name}={value}" for name, value in {**SMALL, "cache_dir": "cache"}.items()),
]
# Where steps are made, SIGTERM saves them.
SAVED = {**ENDS, signal.SIGTERM: (75, ["stopped by SIGTERM"])}


@pytest.fixture
def place(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    write_stsb(place)
    return place


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    place = tmp_path_factory.mktemp("whole") / "place"
    place.mkdir()
    write_stsb(place)
    whole(*COMMAND, cwd=place)
    return scores(place)


def scores(place):
    return json.loads((place / "out" / "table5.json").read_text())["rows"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("point", ["import absl", "import jax"])
def test_before_the_work_nothing_is_left(point, number, place):
    """A traceback while the command is loaded, or an empty output folder."""
    before = tree(place)
    assert struck(number, point, *COMMAND, cwd=place) == ENDS[number]
    assert tree(place) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("point", "ends"),
    [
        ("call bertflow_jax.reproduce.scoring:evaluate_task", ENDS),
        ("call bertflow_jax.training.loop:Interrupt.check", SAVED),
        ("rename .raw.stsb.json", ENDS),
        ("rename .table5.json", ENDS),
    ],
)
def test_it_goes_on_where_it_stopped(point, ends, number, place, uninterrupted):
    """A half score file or its temporary one, another score than that of a run in one go, or an
    exit code that tells a scheduler that all was saved where nothing was."""
    assert struck(number, point, *COMMAND, cwd=place) == ends[number]
    hidden = {name.rpartition("/")[2] for name in tree(place) if "/." in name}
    assert hidden <= {".lock"}, hidden
    whole(*COMMAND, cwd=place)
    assert scores(place) == uninterrupted
