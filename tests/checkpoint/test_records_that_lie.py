"""Records that somebody has changed, their digest made anew so that they are believed."""

import json

import pytest

from bertflow_jax.checkpoint import Records
from bertflow_jax.checkpoint_records import (
    check_flow_records,
    check_start,
    records_digest,
    stored_config,
)
from bertflow_jax.errors import CheckpointError

RECORDS = ("state", "config", "encoder", "manifest")


def _changed(step, change):
    """Change records and make their digest anew."""
    said = {name: json.loads((step / name / "metadata").read_text()) for name in RECORDS}
    del said["state"]["records_sha256"]
    change(said)
    said["state"]["records_sha256"] = records_digest(said)
    for name, record in said.items():
        (step / name / "metadata").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"digests": []}, "no digests"),
        ({"digests": {"flow": 3}}, "no digests"),
        ({"digests": {}}, "'flow' differ from their digest"),
        ({"step": 2.0}, "checkpoint of step 2.0"),
        ({"step": "../1"}, "checkpoint of step '../1'"),
        ({"step": 10**30}, "checkpoint of step 1000"),
        ({"features": 10**12}, "features=1000000000000"),
        ({"features": True}, "features=True"),
        ({"score": [1]}, r"score=\[1\]"),
        ({"score": {"metric": "colour", "value": 1}}, "score="),
        ({"score": {"metric": "loss", "value": "1"}}, "score="),
        ({"best": {"metric": "loss"}}, "best="),
        ({"best": 3}, "best=3"),
    ],
)
def test_records_with_a_digest_of_their_own(store, read, fields, said):
    """Bug: KeyError, TypeError and the like, from wherever the record was used."""
    _changed(store.folder / "2", lambda records: records["state"].update(fields))
    assert read(store)[0] == 1
    with pytest.raises(CheckpointError, match=f"checkpoints/2 is damaged.*{said}"):
        read(store, 2)
    assert store.best() is None


@pytest.mark.parametrize(
    "config", [{"flow": {"levels": 10**30}}, {"flow": 3}, {"../x": 1}, {"encoder": {"path": 3}}]
)
def test_a_config_that_is_none(config):
    """Bug: named a flag that nobody has given, or a TypeError."""
    with pytest.raises(CheckpointError, match=r"checkpoint run/4 holds a config that is none: "):
        stored_config(Records({}, config, {}, {}), "run/4")


def test_records_without_what_is_needed():
    text = {"examples": 3, "path": "everyday"}
    check_flow_records(Records({"features": 4}, {}, {}, text), "run/4")
    for state, manifest in [
        ({}, text),
        ({"features": 4}, {}),
        ({"features": 4}, {"examples": "3"}),
    ]:
        with pytest.raises(CheckpointError, match=r"checkpoint run/4: its record "):
            check_flow_records(Records(state, {}, {}, manifest), "run/4")
    begun = {"features": 4, "actnorm_init": {"rows": 2}, "constant_dims": [3]}
    check_start(begun, "run/4")
    for wrong in ({"constant_dims": [4]}, {"actnorm_init": 3}, {"constant_deviation": "1"}):
        with pytest.raises(CheckpointError, match="does not say how the run began"):
            check_start(begun | wrong, "run/4")
