"""Ctrl-C and SIGTERM at every stage of a Ray job that has started its own Ray."""

import shutil
import signal

import pytest
from struck import ENDS, struck, tree, whole

pyarrow = pytest.importorskip("pyarrow", reason="the files are Parquet")
pytest.importorskip("ray.data", reason="ray is not installed")
from pyarrow import parquet  # noqa: E402

pytestmark = pytest.mark.slow

COMMAND = [
    *("bertflow_jax.integrations.ray_data", "--encoder=mini_bert", "--input=in", "--output=out"),
    *("--rows_per_batch=20", "--concurrency=1"),
]
# The path of Ray's sockets must be short.
RAY = {"RAY_TMPDIR": "/tmp"}
WORKING = "call bertflow_jax.integrations.ray_job:_Finishing.start"


@pytest.fixture
def place(tmp_path):
    place = tmp_path / "place"
    (place / "in").mkdir(parents=True)
    for number in range(3):
        texts = [f"Sentence {number}, {row}." for row in range(60)]
        parquet.write_table(pyarrow.table({"text": texts}), place / "in" / f"{number}.parquet")
    return place


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "point",
    [
        "import absl",
        "import ray",
        "call ray._private.node:Node.start_ray_processes",
        "call bertflow_jax.integrations.ray_job:take_over",
    ],
)
def test_a_job_that_has_not_begun_leaves_nothing(point, number, place):
    """Ray's processes that stay; its own handler of SIGTERM, which ended a job with exit code 15."""
    before = tree(place)
    assert struck(number, point, *COMMAND, cwd=place, **RAY) == ENDS[number]
    assert tree(place) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_job_keeps_what_is_whole_and_goes_on(number, place):
    """Half pieces of workers that were ended, a lock, rows that are lost or there twice."""
    # As a worker leaves it that is ended while it writes.
    half = place / "out" / "_pieces" / "0.parquet" / f".000.piece.{'0' * 32}"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"half")
    assert struck(number, WORKING, *COMMAND, cwd=place, **RAY) == ENDS[number]
    left = sorted(path.relative_to(place / "out") for path in (place / "out").rglob("*"))
    assert [path for path in left if path.name.startswith(".")] == []
    assert any(path.name.endswith(".piece") for path in left)
    whole(*COMMAND, cwd=place, **RAY)
    stopped = tree(place / "out")
    shutil.rmtree(place / "out")
    whole(*COMMAND, cwd=place, **RAY)
    assert stopped == tree(place / "out")
