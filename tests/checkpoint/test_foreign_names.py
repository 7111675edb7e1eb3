"""Steps that somebody has tampered with: nothing outside the run is read, nothing waits or fills.

`test_records_that_lie` has records that were changed with their digests.
"""

import gc
import json
import os
import warnings

import numpy as np
import pytest
import tensorstore

from bertflow_jax.checkpoint import CheckpointStore, Records
from bertflow_jax.errors import CheckpointError, WorkdirError
from bertflow_jax.step_names import is_step
from bertflow_jax.workdir import prepare_workdir


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
def test_a_link_out_of_the_run(store, read, name, tmp_path, caplog):
    """Bug: it was followed, and what lies elsewhere taken for the run's: the digests agree."""
    step = store.folder / "2"
    if name == "data file":
        name = max((step / "flow").rglob("d/*"), key=lambda path: path.stat().st_size)
    path = step / name
    path.symlink_to(_moved_out(path, tmp_path / "outside"))
    assert read(store)[0] == 1
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"checkpoint {store.place}/2 is damaged or incomplete (")
    assert " a link" in said
    with pytest.raises(CheckpointError, match=r"checkpoints/2 .* a link"):
        read(store, 2)


@pytest.mark.parametrize("name", NAMES[2:4] + NAMES[6:])
@pytest.mark.parametrize("kind", ["pipe", "device", "huge"])
def test_what_never_ends_or_fills_the_memory(store, read, name, kind):
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
    assert read(store)[0] == 1
    said = {"pipe": "is a pipe", "device": "is a link to /dev/zero", "huge": "1099511627776 bytes"}
    with pytest.raises(CheckpointError, match=f"{path.name} .*{said[kind]}|{said[kind]}"):
        read(store, 2)


def test_what_nobody_reads_may_be_anything(store, read):
    """Notes of somebody beside the items are not opened, and so no reason to refuse the step."""
    (store.folder / "2" / "notes").mkdir()
    os.mkfifo(store.folder / "2" / "notes" / "pipe")
    assert read(store, 2)[0] == 2


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
def test_absurd_descriptions(store, read, change):
    """Nor is anything printed of what orbax never came to, whenever the rubbish is collected."""
    change(store.folder / "2")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert read(store)[0] == 1
        with pytest.raises(CheckpointError, match="checkpoints/2 is damaged"):
            read(store, 2)
        gc.collect()
    assert [str(w.message) for w in warned if "never awaited" in str(w.message)] == []


@pytest.mark.parametrize("text", ["{}", "[1]", DEEP, '{"item_handlers": {"../../x": "os.system"}}'])
def test_what_orbax_notes_for_itself_is_not_believed(store, read, text):
    (store.folder / "2" / "_CHECKPOINT_METADATA").write_text(text)
    assert read(store)[0] == 2


@pytest.mark.parametrize(
    "name", ["-1", "007", "1e3", "٣", "²", "+3", " 3", str(2**31), "1" + "0" * 30]
)
def test_names_that_no_run_writes(store, read, name, tmp_path):
    """Bug: step 10**30 was restored from; a folder named in other digits was one to overwrite."""
    assert not is_step(name)
    (store.folder / "2").rename(store.folder / name)
    assert store.steps() == [1]
    assert read(store)[0] == 1
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
