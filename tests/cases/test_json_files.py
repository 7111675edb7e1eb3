"""JSON files of any reader that cannot be read: one parser, in our words. Each test names the bug."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import bertflow_jax
from bertflow_jax import Compose, Flow, FlowConfig, TrainConfig, Whitening, postprocess
from bertflow_jax.checkpoint import CheckpointStore
from bertflow_jax.checkpoint_records import Records
from bertflow_jax.data.json_files import parse_json_line, read_json, read_json_object
from bertflow_jax.doctor.devices import _read
from bertflow_jax.errors import BertFlowError, InputError
from bertflow_jax.integrations.card_metrics import read_metrics
from bertflow_jax.integrations.ray_inputs import open_place
from bertflow_jax.integrations.ray_manifest import check_output
from bertflow_jax.postprocess.vector_files import open_vectors
from bertflow_jax.reproduce.kept import read_score, write_sealed
from bertflow_jax.training.metrics import metric_records

PACKAGE = Path(bertflow_jax.__file__).parent
DIGITS = b"9" * 5000
# What a file holds -> what is said of it.
DAMAGE = {
    "an integer of thousands of digits": (b'{"a": -%s}' % DIGITS, "an integer of more than 4300"),
    "nested too deeply": (b"[" * 200_000, "it is nested too deeply"),
    "another encoding": (b'{"a": "\xe9"}', "can't decode byte 0xe9"),
    "cut short": (b'{"a": ', "Expecting value: line 1 column 7"),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with one of each of what is saved with JSON."""
    folder = tmp_path_factory.mktemp("saved")
    u = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    Whitening().fit(u).save(folder / "white")
    Compose([Whitening()]).fit(u).save(folder / "several")
    Flow(FlowConfig(1, 1, 4), train=TrainConfig(steps=1)).fit(u).save(folder / "flow")
    with CheckpointStore(folder / "run") as store:
        store.save({"flow": {"a": u}}, Records({"step": 4}, {}, {}, {}))
    (folder / "parts").mkdir()
    np.save(folder / "parts" / "part-00000-of-00001.npy", u)
    (folder / "results.json").touch()
    (folder / "ray").mkdir()
    return folder


READERS = {
    "read_json": ("results.json", lambda p: read_json(p / "results.json")),
    "read_json_object": ("results.json", lambda p: read_json_object(p / "results.json")),
    "push": ("results.json", lambda p: read_metrics(p / "results.json")),
    "a whitening": ("white/postprocess.json", lambda p: Whitening.load(p / "white")),
    "of any kind": ("white/postprocess.json", lambda p: postprocess.load(p / "white")),
    "several": ("several/compose.json", lambda p: postprocess.load(p / "several")),
    "a flow": ("flow/flow_config.json", lambda p: Flow.load(p / "flow")),
    "parts": ("parts/index.json", lambda p: open_vectors(p / "parts")),
    "a checkpoint": (
        "run/checkpoints/4/config/metadata",
        lambda p: CheckpointStore(p / "run").restore(4, lambda _: {}),
    ),
    "ray": ("ray/_manifest.json", lambda p: check_output(open_place(str(p / "ray"), "--output"))),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("reader", READERS)
def test_what_cannot_be_read(saved, reader, damage):
    """Bug: "use sys.set_int_max_str_digits() to increase the limit", or an error that is none of ours."""
    if reader == "ray":
        pytest.importorskip("pyarrow")
    name, read = READERS[reader]
    content, said = DAMAGE[damage]
    file = saved / name
    before = file.read_bytes() if file.exists() else b""
    file.write_bytes(content)
    with pytest.raises(BertFlowError) as caught:
        read(saved)
    file.write_bytes(before)
    text = str(caught.value)
    assert said in text
    assert "set_int_max" not in text
    # A checkpoint is named, with all that is in it.
    assert (str(saved / "run/checkpoints/4") if reader == "a checkpoint" else file.name) in text
    assert len(text) < 500


def test_a_line_of_a_jsonl_file():
    """Bug: as above."""
    with pytest.raises(BertFlowError, match=r"^f\.jsonl, line 3: not JSON \(an integer of more"):
        parse_json_line(f'{{"a": {DIGITS.decode()}}}', "f.jsonl, line 3")


def test_lines_that_are_passed_over(tmp_path):
    """Bug: one that cannot be read ends the reader of the others."""
    good, bad = b'{"step": 3, "a": 1}', [content for content, _ in DAMAGE.values()]
    (tmp_path / "metrics.jsonl").write_bytes(b"\n".join([*bad, good]))
    assert metric_records(tmp_path / "metrics.jsonl") == [{"step": 3, "a": 1}]
    said = b'{"check": "jax", "value": "1", "problem": ""}'
    assert [found.value for found in _read(b"\n".join([*bad, said]), "", b"")] == ["1"]


def test_scores_beyond_every_float(tmp_path):
    """Bug: OverflowError: int too large to convert to float."""
    huge = 10**400
    write_sealed(tmp_path / "s.json", {"key": "k", "score": huge, "details": {}, "made": {}})
    assert read_score(tmp_path / "s.json", "k") is None
    scores = {"stsb": {k: {"spearman": huge, "pearson": 1} for k in ("all", "mean", "wmean")}}
    scores["stsb"] |= {"subsets": {}, "pairs": 3}
    content = {"model": {}, "rows": {"raw": scores}, "provenance": {"similarity": "cosine"}}
    (tmp_path / "results.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"is no results\.json of evaluate\.py \(OverflowError"):
        read_metrics(tmp_path / "results.json")


def test_an_unknown_kind_is_shown_short(saved):
    """Bug: a message of 4,000 digits."""
    file = saved / "white" / "postprocess.json"
    before = file.read_text()
    file.write_text(re.sub(r'"kind": "\w+"', f'"kind": {"9" * 4000}', before))
    with pytest.raises(BertFlowError, match=r"unknown kind 9+\.\.\.; known: ") as caught:
        postprocess.load(saved / "white")
    file.write_text(before)
    assert len(str(caught.value)) < 700


def test_one_parser():
    """Bug: a reader of its own, with other words for the same fault, or with none."""
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(r"json\.loads?\(", path.read_text("utf-8"))
    }
    alone = {"export/load.py", "integrations/bertflow_modules.py"}  # run without this package
    # No file: what this process, or another one of the run, has just written.
    in_memory = {
        "checkpoint_records.py",
        "distributed.py",
        "data/long_texts.py",
        "data/tokenizer_files.py",
        "data/tokenizer_json.py",
    }
    assert found == {"data/json_files.py"} | alone | in_memory
