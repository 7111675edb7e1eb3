"""Damage that once ended in a traceback, one test for each. Each names the bug it catches."""

import json

import numpy as np
import pytest

from benchmarks import fuzz_data_tfds
from bertflow_jax.data.glue import load_glue_task
from bertflow_jax.data.json_files import read_json
from bertflow_jax.data.nli_tfds import read_tfds_rows
from bertflow_jax.data.sts import load_task
from bertflow_jax.data.tfds_builders import metadata, reader
from bertflow_jax.data.tfds_builders.archives import read_checksums
from bertflow_jax.embed_parts import Part
from bertflow_jax.errors import CheckpointError, ConfigError, DataError, WorkdirError
from bertflow_jax.evaluation.plot_data import training_curves
from bertflow_jax.postprocess import Compose, Standardize, load
from bertflow_jax.postprocess.vector_files import open_vectors
from bertflow_jax.training.metrics import MetricsWriter

ROWS = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)


def npy(shape, kind="<f4"):
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(96)


@pytest.mark.parametrize(
    "shape", ["(8, 3", f"({2**63}, 4)", "(1000000000000, 1000000000000)", "(8.5, 3)", "('a', 3)"]
)
def test_a_header_that_numpy_stumbles_over(tmp_path, shape):
    """Bug: TokenError, OverflowError or TypeError of numpy's header, with a traceback."""
    path = tmp_path / "u.npy"
    path.write_bytes(npy(shape))
    with pytest.raises(DataError, match=r"u\.npy (cannot be read as \.npy|is cut short)"):
        open_vectors(path)
    assert not Part(0, 8, path, {}, 3).is_whole(path)


@pytest.mark.parametrize(
    "content", ["[" * 100_000, "[]", "7", '"x"', '{"kind": []}', '{"kind": {}}']
)
def test_a_description_that_is_none(tmp_path, content):
    """Bug: RecursionError of JSON, TypeError of a kind that is a list."""
    Standardize().fit(ROWS).save(tmp_path)
    (tmp_path / "postprocess.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"postprocess\.json"):
        load(tmp_path)


@pytest.mark.parametrize("shapes", [[], 7, None, {"mean": 3}, {"mean": ["x"]}])
def test_shapes_that_are_none(tmp_path, shapes):
    """Bug: AttributeError where "shapes" is no object."""
    Standardize().fit(ROWS).save(tmp_path)
    file = tmp_path / "postprocess.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "shapes": shapes}))
    with pytest.raises(CheckpointError, match=str(tmp_path)):
        load(tmp_path)


def test_compose_of_brackets(tmp_path):
    """Bug: RecursionError, and a folder that cannot be saved into again."""
    Compose([Standardize()]).fit(ROWS).save(tmp_path)
    (tmp_path / "compose.json").write_text("[" * 100_000)
    with pytest.raises(CheckpointError, match=r"compose\.json is not readable"):
        load(tmp_path)
    Compose([Standardize()]).fit(ROWS).save(tmp_path)
    assert load(tmp_path).features == 3


def test_metrics_with_lines_that_are_none(tmp_path):
    """Bug: a report or a resumed run ended by one odd line, after the long computation."""
    odd = [
        *('{"b": 1.0}', '{"step": null, "b": 1.0}', '{"step": [], "b": 1.0}', "[1]", "7", "null"),
        *('{"step": "2", "b": 1.0}', '{"step": 1e999, "b": 1.0}', '{"step": 2, "b": 1e999}'),
        *(f'{{"step": 2, "b": 1{"0" * 400}}}', '{"step": 2, "b": true}', "[" * 100_000, "\0\0\0"),
    ]
    path = tmp_path / "metrics.jsonl"
    lines = ['{"step": 1, "b": 4.0}', *odd, '{"step": 3, "b": 2.0}']
    path.write_bytes("\n".join(lines).encode() + b"\n\xff\xfe")
    assert training_curves(path, {"fit": "b"}) == {"fit": [(1, 4.0), (3, 2.0)]}
    with MetricsWriter(tmp_path, tensorboard=False, resume_step=2) as writer:
        writer.write(3, {"b": 1.5})
    assert training_curves(path, {"fit": "b"}) == {"fit": [(1, 4.0), (3, 1.5)]}


def test_json_that_cannot_be_opened(tmp_path):
    """Bug: IsADirectoryError with a traceback where a folder has the name of a file."""
    (tmp_path / "config.json").mkdir()
    with pytest.raises(ConfigError, match=r"config\.json cannot be read \(Is a directory\)"):
        read_json(tmp_path / "config.json")


@pytest.mark.parametrize("size", ["9" * 5000, "", "-1", "1.5", "\u0663"])
def test_a_checksum_file_with_odd_numbers(tmp_path, size):
    """Bug: ValueError for a number of more than 4300 digits."""
    (tmp_path / "sums").write_text(f"http://host/a\t{size}\t{'0' * 64}\ta\n", "utf-8")
    with pytest.raises(DataError, match="line 1: address, bytes, sha256"):
        read_checksums(tmp_path / "sums")


LABELS = ["entailment", "neutral", "contradiction"]


def test_an_nli_record_that_is_none(tmp_path):
    """Bug: UnicodeDecodeError or IndexError of one record, without its place."""
    texts = ("premise", "hypothesis")
    rows = [("a", "b", 0), (b"caf\xe9", "b", 0)]
    fuzz_data_tfds.prepare(tmp_path / "bytes", "snli", "", texts, LABELS, rows)
    with pytest.raises(DataError, match=r"1\.0\.0, train example 1: no two texts in utf-8"):
        list(read_tfds_rows(tmp_path / "bytes", "snli", ["train"]))
    fuzz_data_tfds.prepare(tmp_path / "label", "snli", "", texts, LABELS, [("a", "b", 2)])
    (names,) = (tmp_path / "label").rglob("*.labels.txt")
    names.write_text("entailment\n")
    with pytest.raises(DataError, match=r"1\.0\.0.* example 0|cannot be read as a TFDS data set"):
        list(read_tfds_rows(tmp_path / "label", "snli", ["train"]))


def test_prepared_text_of_another_encoding(tmp_path):
    """Bug: UnicodeDecodeError where a prepared text is no UTF-8: TFDS writes any bytes."""
    rows = [(b"caf\xe9", "a", 0)]
    fuzz_data_tfds.prepare(tmp_path, "glue", "stsb", ("sentence1", "sentence2"), ["x"], rows)
    with pytest.raises(DataError, match=r"split validation, example 0: a text is not valid utf-8"):
        load_task("stsb", f"tfds:{tmp_path}", ["dev"])
    with pytest.raises(DataError, match="is not valid utf-8"):
        load_glue_task("stsb", f"tfds:{tmp_path}", ["dev"])
    assert reader.prepared_version(tmp_path, "glue/stsb") is not None


@pytest.mark.parametrize("content", ["", "[]", "{", "[" * 100_000])
def test_metadata_that_are_none(tmp_path, content):
    """Bug: whatever protobuf raises, without the name of the file."""
    (tmp_path / "dataset_info.json").write_text("{}")
    (tmp_path / "features.json").write_text(content)
    with pytest.raises(DataError, match=r"features\.json.*prepare it again"):
        metadata.check_metadata(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "[" * 100_000,
        "[]",
        '{"inputs": 7}',
        '{"inputs": [7]}',
        '{"inputs": [{"name": []}]}',
        '{"inputs": [], "made_by": []}',
    ],
)
def test_a_manifest_of_ray_that_is_none(tmp_path, content):
    """Bug: RecursionError, TypeError or AttributeError of an output folder's manifest."""
    pytest.importorskip("pyarrow")
    from bertflow_jax.integrations.ray_inputs import open_place
    from bertflow_jax.integrations.ray_manifest import check_output
    from bertflow_jax.integrations.ray_outputs import MANIFEST

    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(WorkdirError, match=rf"{MANIFEST} cannot be read"):
        check_output(open_place(str(tmp_path), "--output"))
