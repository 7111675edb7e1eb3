"""Checkpoints read without TensorFlow: what its own writer wrote, and every kind of damage."""

import importlib.util
import shutil
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from tf_bundle_writer import crc32c as bytewise_crc32c
from tf_bundle_writer import entry, field, write_bundle, write_table

from bertflow_jax.convert import sstable
from bertflow_jax.convert.crc32c import crc32c
from bertflow_jax.convert.tf_bundle import TensorBundle, find_prefix
from bertflow_jax.errors import BertFlowError, ConfigError, DataNotFoundError, WeightsError

REAL = Path(__file__).parent / "tf1_checkpoint"


def load_make():
    spec = importlib.util.spec_from_file_location("make", REAL / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"a", 0xC1D04330),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
    ],
)
def test_crc32c_of_published_vectors(data, crc):
    """RFC 3720's vectors: a wrong polynomial, bit order or end correction."""
    assert crc32c(data) == crc


@pytest.mark.parametrize("size", [3, 4, 5, 255, 256, 257, 1000, 768 * 3 + 2])
def test_crc32c_is_the_bytewise_one_at_every_length(size):
    """Lanes joined in the wrong order or moved on by the wrong number of bytes."""
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    assert crc32c(data) == bytewise_crc32c(data.tobytes())


def test_tensorflows_own_file_is_read_whole():
    """Two data files, shared key starts, an int64: each value as TensorFlow was given it."""
    make = load_make()
    bundle = TensorBundle(find_prefix(REAL))
    expected = {name: make.value(name, shape) for name, shape in make.shapes().items()}
    expected["global_step"] = np.array(269, np.int64)
    assert set(bundle.shapes) == set(expected)
    for name, value in expected.items():
        found = bundle.read(name)
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found, value)
        assert bundle.shapes[name] == value.shape


def test_released_checkpoint_is_read_whole(shared):
    """A Saver checkpoint of TensorFlow 1 with 108 variables in several blocks."""
    folder = shared / "fixtures" / "released_tf1_additive"
    bundle = TensorBundle(folder / "flow.ckpt")
    expected = np.load(folder / "variables.npz")
    assert set(bundle.shapes) == set(expected.files)
    for name in expected.files:
        np.testing.assert_array_equal(bundle.read(name), expected[name])


@pytest.fixture
def bundle(tmp_path):
    """Write 50 tensors in two data files and return the prefix."""
    rng = np.random.default_rng(0)
    tensors = {f"scope/part_{i}/w": rng.normal(size=(2, i)).astype("f4") for i in range(1, 50)}
    return write_bundle(tmp_path / "model.ckpt", {**tensors, "step": np.int64(3)}, shards=2)


def read_all(prefix):
    opened = TensorBundle(prefix)
    return {name: opened.read(name) for name in opened.shapes}


def part(prefix, suffix):
    return prefix.with_name(prefix.name + suffix)


def test_other_types_are_read(tmp_path):
    """float64, float16, bool and scalars keep type and value."""
    tensors = {
        "a": np.array([[1.5, -2.0]]),
        "b": np.array([0.25], np.float16),
        "c": np.array([True, False]),
        "d": np.array(7, np.int32),
    }
    found = read_all(write_bundle(tmp_path / "x", tensors))
    for name, value in tensors.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], value)


def test_every_flipped_bit_of_a_value_is_found(bundle):
    """A checksum that is not looked at, or of the wrong bytes."""
    path = part(bundle, ".data-00001-of-00002")
    good = path.read_bytes()
    for at in range(0, len(good), 97):
        path.write_bytes(good[:at] + bytes([good[at] ^ 16]) + good[at + 1 :])
        with pytest.raises(WeightsError, match=r"data-00001-of-00002 is damaged.*checksum of s"):
            read_all(bundle)


def test_truncated_data_names_the_file(bundle):
    path = part(bundle, ".data-00000-of-00002")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(WeightsError, match=r"data-00000-of-00002 is truncated"):
        TensorBundle(bundle)


def test_missing_data_file_is_named(bundle):
    part(bundle, ".data-00001-of-00002").unlink()
    with pytest.raises(DataNotFoundError, match=r"data-00001-of-00002 is missing"):
        TensorBundle(bundle)


def damaged(prefix, rng, suffixes, count):
    """Damage one of the files in turn (cut, a flipped bit, eight random bytes), then mend it."""
    good = {suffix: part(prefix, suffix).read_bytes() for suffix in suffixes}
    for _ in range(count):
        suffix = suffixes[rng.integers(len(suffixes))]
        data = bytearray(good[suffix])
        at, kind = int(rng.integers(len(data))), rng.integers(3)
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at] ^= 1 << int(rng.integers(8))
        else:
            data[at : at + 8] = rng.integers(0, 256, 8, dtype=np.uint8).tobytes()[: len(data) - at]
        part(prefix, suffix).write_bytes(data)
        yield suffix
        part(prefix, suffix).write_bytes(good[suffix])


def outcome(prefix):
    """The tensors, or the text of an error of ours; any other error escapes and fails the test."""
    try:
        return read_all(prefix)
    except BertFlowError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(4))
def test_damage_is_found_and_told(bundle, seed):
    """200 damaged files: only errors of ours, which name the file, and never other numbers."""
    whole = read_all(bundle)
    suffixes = (".index", ".data-00000-of-00002", ".data-00001-of-00002")
    caught = 0
    for _ in damaged(bundle, np.random.default_rng(seed), suffixes, 50):
        found = outcome(bundle)
        if isinstance(found, str):
            caught += 1
            assert bundle.name in found
        else:  # zeros before the footer's mark, the unused metaindex block
            assert found.keys() == whole.keys()
            assert all(np.array_equal(found[key], whole[key]) for key in whole)
    assert caught > 40


@pytest.mark.parametrize("seed", range(4))
def test_damage_behind_a_good_checksum(bundle, monkeypatch, seed):
    """The parser alone, as for a file made on purpose: errors of ours, whatever the bytes."""
    monkeypatch.setattr(sstable, "masked_crc32c", lambda data: mock.ANY)
    rng = np.random.default_rng(100 + seed)
    texts = {str(outcome(bundle))[:400] for _ in damaged(bundle, rng, (".index",), 150)}
    assert len(texts) > 10


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (entry(1, (2,), 0, 0, b"1234"), "4 bytes for shape"),
        (entry(1, (1 << 40, 1 << 40), 0, 0, b"1234"), "4 bytes for shape"),
        (entry(1, (1,), 5, 0, b"1234"), "data file 5 of 1"),
        (entry(1, (1,), 0, 1 << 50, b"1234"), "truncated"),
        (entry(1, (1,), 0, 0, b"1234") + field(7, b""), "partitioned variable"),
        (entry(1, (1,) * 40, 0, 0, b"1234"), "rank 40"),
        (entry(1, (1,), 0, 0, b"1234") + field(4, (1 << 64) - 1), "negative"),
        (b"\x08", "cut off"),
        (b"\x0b", "kind 3"),
        (field(2, 5), "a number where a message"),
    ],
)
def test_impossible_entries_with_good_checksums(tmp_path, message, text):
    """What a checksum cannot catch: sizes beyond the file, whose allocation would end the process."""
    write_table(tmp_path / "x.index", {b"": field(1, 1), b"name": message})
    (tmp_path / "x.data-00000-of-00001").write_bytes(b"1234")
    with pytest.raises(WeightsError, match=text):
        read_all(tmp_path / "x")


def test_type_that_no_weight_has(tmp_path):
    """A string tensor is an error when it is read, naming it; its size need not follow its shape."""
    write_table(tmp_path / "x.index", {b"": field(1, 1), b"words": entry(7, (9,), 0, 0, b"1234")})
    (tmp_path / "x.data-00000-of-00001").write_bytes(b"1234")
    bundle = TensorBundle(tmp_path / "x")
    with pytest.raises(WeightsError, match="words has TensorFlow's type 7"):
        bundle.read("words")


def test_prefix_is_found_however_it_is_named(bundle, tmp_path):
    """Prefix, index, data file and folder mean one checkpoint."""
    for name in ("", ".index", ".data-00001-of-00002", ".meta"):
        assert find_prefix(part(bundle, name)) == bundle
    assert find_prefix(tmp_path) == bundle


def test_folder_with_several_checkpoints(bundle, tmp_path):
    """The newest is what the file `checkpoint` says, never the first by name."""
    for suffix in (".index", ".data-00000-of-00002", ".data-00001-of-00002"):
        shutil.copy(part(bundle, suffix), tmp_path / f"model.ckpt-9{suffix}")
    with pytest.raises(ConfigError, match=r"several checkpoints.*model\.ckpt-9"):
        find_prefix(tmp_path)
    state = 'model_checkpoint_path: "/home/me/model.ckpt-9"\nall_model_checkpoint_paths: "x"\n'
    (tmp_path / "checkpoint").write_text(state)
    assert find_prefix(tmp_path) == tmp_path / "model.ckpt-9"


def test_what_is_no_checkpoint(tmp_path):
    """Nothing there, an empty folder, and the V1 format, each said in its own words."""
    with pytest.raises(DataNotFoundError, match=r"nothing\.index not found"):
        find_prefix(tmp_path / "nothing")
    with pytest.raises(DataNotFoundError, match="no TensorFlow checkpoint"):
        find_prefix(tmp_path)
    write_table(tmp_path / "old.ckpt", {b"a": b"b"})
    with pytest.raises(WeightsError, match="old V1 format"):
        find_prefix(tmp_path / "old.ckpt")
