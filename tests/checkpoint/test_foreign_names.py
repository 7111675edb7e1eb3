"""Steps that somebody has tampered with: nothing outside the run is read, nothing waits or fills.

Where it says so the digests are made anew, as one does who wants a changed record to be believed.
"""

import gc
import json
import os
import shutil
import warnings

import jax
import numpy as np
import pytest
import tensorstore

from bertflow_jax.checkpoint import CheckpointStore, Records
from bertflow_jax.checkpoint_records import (
    check_flow_records,
    check_start,
    records_digest,
    stored_config,
)
from bertflow_jax.errors import CheckpointError, WorkdirError
from bertflow_jax.step_names import is_step
from bertflow_jax.workdir import prepare_workdir

RECORDS = ("state", "config", "encoder", "manifest")


@pytest.fixture(scope="module")
def two_steps(tmp_path_factory):
    """A workdir with the steps 1 and 2."""
    folder = tmp_path_factory.mktemp("whole")
    store = CheckpointStore(folder)
    for step in (1, 2):
        arrays = {"flow": {"params": {f"a{i}": np.full(1000, step + i, "f4") for i in range(4)}}}
        store.save(arrays, Records({"step": step}, {"seed": 1}, {}, {}))
    store.finish()
    return folder


@pytest.fixture
def store(two_steps, tmp_path):
    shutil.copytree(two_steps, tmp_path / "run")
    return CheckpointStore(tmp_path / "run")


SHAPES = {
    "flow": {"params": {f"a{i}": jax.ShapeDtypeStruct((1000,), np.float32) for i in range(4)}}
}


def _restored(store, step=None):
    return store.newest_good(lambda s: (s, store.restore(s, lambda _: SHAPES)[0])[0], step)


def _moved_out(path, outside):
    outside.mkdir(exist_ok=True)
    path.rename(outside / path.name)
    return outside / path.name


NAMES = [
    "",  # the step itself
    "flow",
    "flow/_METADATA",
    "flow/manifest.ocdbt",
    "flow/ocdbt.process_0",
    "state",
    "state/metadata",
    "manifest/metadata",
    "_CHECKPOINT_METADATA",
]


@pytest.mark.parametrize("name", [*NAMES, "data file"])
def test_a_link_out_of_the_run(store, name, tmp_path, caplog):
    """Bug: it was followed, and what lies elsewhere taken for the run's: the digests agree."""
    step = store.folder / "2"
    if name == "data file":
        name = max((step / "flow").rglob("d/*"), key=lambda path: path.stat().st_size)
    path = step / name
    path.symlink_to(_moved_out(path, tmp_path / "outside"))
    assert _restored(store) == 1
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"checkpoint {store.place}/2 is damaged or incomplete (")
    assert " a link" in said
    with pytest.raises(CheckpointError, match=r"checkpoints/2 .* a link"):
        _restored(store, 2)


@pytest.mark.parametrize("name", NAMES[2:4] + NAMES[6:])
@pytest.mark.parametrize("kind", ["pipe", "device", "huge"])
def test_what_never_ends_or_fills_the_memory(store, name, kind):
    """Bug: a pipe was waited for, /dev/zero read for ever, 1 TiB allocated or the process ended."""
    path = store.folder / "2" / name
    if kind == "huge":
        os.truncate(path, 1 << 40)
    else:
        path.unlink()
        if kind == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")
    assert _restored(store) == 1
    said = {"pipe": "is a pipe", "device": "is a link to /dev/zero", "huge": "1099511627776 bytes"}
    with pytest.raises(CheckpointError, match=f"{path.name} .*{said[kind]}|{said[kind]}"):
        _restored(store, 2)


def test_what_nobody_reads_may_be_anything(store):
    """Notes of somebody beside the items are not opened, and so no reason to refuse the step."""
    (store.folder / "2" / "notes").mkdir()
    os.mkfifo(store.folder / "2" / "notes" / "pipe")
    assert _restored(store, 2) == 2


def _array(**fields):
    """A change of what is said of the first array, inside the database of arrays."""

    def change(step):
        base = {"driver": "ocdbt", "base": f"file://{step / 'flow'}/"}
        found = tensorstore.KvStore.open(base).result()
        said = json.loads(found.read(b"params.a0/.zarray").result().value)
        found.write(b"params.a0/.zarray", json.dumps(said | fields).encode()).result()

    return change


def _text(name, text):
    return lambda step: (step / name).write_text(text)


def _described(change):
    def edit(step):
        path = step / "flow" / "_METADATA"
        said = json.loads(path.read_text())
        change(said)
        path.write_text(json.dumps(said))

    return edit


def _key(value):
    def change(said):
        said["tree_metadata"]["('params', 'a1')"]["key_metadata"][1]["key"] = value

    return _described(change)


DEEP = '{"a":' * 100_000 + "1" + "}" * 100_000


@pytest.mark.parametrize(
    "change",
    [
        _array(shape=[10**15], chunks=[10**15]),
        _array(shape=[10**30]),
        _array(shape=[-1]),
        _array(chunks=[10**15]),
        _array(chunks=[0]),
        _array(dtype="<x9"),
        _array(dtype="|O"),
        _array(compressor={"id": "../x"}),
        _text("flow/_METADATA", DEEP),
        _text("flow/_METADATA", "[]"),
        _key("../../x"),
        _key("a0"),  # which is there
        _key(10**30),
        _described(lambda said: said.update(use_ocdbt=False)),
        _text("state/metadata", DEEP),
        _text("state/metadata", '{"step": ' + "9" * 5000 + "}"),
        _text("config/metadata", '{"a":' + "[" * 900 + "]" * 900 + "}"),
        _text("encoder/metadata", "[1]"),
    ],
)
def test_absurd_descriptions(store, change):
    """Nor is anything printed of what orbax never came to, whenever the rubbish is collected."""
    change(store.folder / "2")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert _restored(store) == 1
        with pytest.raises(CheckpointError, match="checkpoints/2 is damaged"):
            _restored(store, 2)
        gc.collect()
    assert [str(w.message) for w in warned if "never awaited" in str(w.message)] == []


@pytest.mark.parametrize("text", ["{}", "[1]", DEEP, '{"item_handlers": {"../../x": "os.system"}}'])
def test_what_orbax_notes_for_itself_is_not_believed(store, text):
    (store.folder / "2" / "_CHECKPOINT_METADATA").write_text(text)
    assert _restored(store) == 2


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
def test_records_with_a_digest_of_their_own(store, fields, said, caplog):
    """Bug: KeyError, TypeError and the like, from wherever the record was used."""
    _changed(store.folder / "2", lambda records: records["state"].update(fields))
    assert _restored(store) == 1
    with pytest.raises(CheckpointError, match=f"checkpoints/2 is damaged.*{said}"):
        _restored(store, 2)
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


@pytest.mark.parametrize(
    "name", ["-1", "007", "1e3", "٣", "²", "+3", " 3", str(2**31), "1" + "0" * 30]
)
def test_names_that_no_run_writes(store, name, tmp_path):
    """Bug: step 10**30 was restored from; a folder named in other digits was one to overwrite."""
    assert not is_step(name)
    (store.folder / "2").rename(store.folder / name)
    assert store.steps() == [1]
    assert _restored(store) == 1
    mine = tmp_path / "mine"
    (mine / "checkpoints" / name).mkdir(parents=True)
    with pytest.raises(WorkdirError, match="would delete a folder that is no run's"):
        prepare_workdir(mine, resume=False, overwrite=True)


def test_what_is_written_stays_in_the_run(store, tmp_path):
    """Links under the names that a save uses lead nowhere, and what they lead to stays."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_text("mine")
    for name in ("3.orbax-checkpoint-tmp", "2.deleted"):
        (store.folder / name).symlink_to(outside)
    arrays = {"flow": {"params": {f"a{i}": np.zeros(1000, "f4") for i in range(4)}}}
    with CheckpointStore(store.folder.parent, keep=1) as writer:
        writer.save(arrays, Records({"step": 3}, {}, {}, {}))
    assert sorted(path.name for path in store.folder.iterdir()) == ["3"]
    assert [path.name for path in outside.iterdir()] == ["mine"]
