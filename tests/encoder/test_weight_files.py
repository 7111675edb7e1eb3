"""Weight files on disk: formats, shards, and every way a file can be damaged."""

import importlib.util
import json
import pickle
import subprocess
import sys
import zipfile

import jax
import ml_dtypes
import msgpack
import numpy as np
import pytest
import safetensors.numpy
from flax import serialization, traverse_util

from bertflow_jax.encoder import load_params, read_config
from bertflow_jax.encoder.weight_files import find_weights, read_weights
from bertflow_jax.errors import DataNotFoundError, WeightsError

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c9\nsize 440449768\n"
NAMES = ("model.safetensors", "flax_model.msgpack", "pytorch_model.bin")


def flax_tree(tensors):
    """{PyTorch name: array} as the nested tree Flax classes saved."""
    flat = {}
    for name, value in tensors.items():
        module, _, leaf = name.rpartition(".")
        if leaf == "weight":
            norm, table = module.endswith("LayerNorm"), module.endswith("_embeddings")
            leaf = "scale" if norm else "embedding" if table else "kernel"
        flat[(*module.split("."), leaf)] = value.T if leaf == "kernel" else value
    return traverse_util.unflatten_dict(flat)


def write(path, tensors):
    if path.suffix == ".safetensors":
        safetensors.numpy.save_file(tensors, path)
    elif path.suffix == ".msgpack":
        path.write_bytes(serialization.msgpack_serialize(flax_tree(tensors)))
    else:
        torch = pytest.importorskip("torch", reason="a .bin file needs torch")
        torch.save({k: torch.from_numpy(np.array(v)) for k, v in tensors.items()}, path)


@pytest.fixture
def as_format(bert_folder):
    """Return a function that rewrites a folder's weights in another format, maybe in shards."""

    def convert(name, shards=0, dtype=np.float32):
        folder = bert_folder(f"{name}-{shards}-{np.dtype(dtype).name}")
        tensors = dict(safetensors.numpy.load_file(folder / "model.safetensors"))
        (folder / "model.safetensors").unlink()
        tensors = {k: v.astype(dtype) for k, v in tensors.items()}
        if not shards:
            write(folder / name, tensors)
            return folder
        stem, suffix = name.split(".")
        weight_map = {}
        for i in range(shards):
            shard = f"{stem}-{i + 1:05d}-of-{shards:05d}.{suffix}"
            part = dict(sorted(tensors.items())[i::shards])
            write(folder / shard, part)
            keys = part
            if suffix == "msgpack":
                keys = traverse_util.flatten_dict(flax_tree(part), sep="/")
            weight_map |= dict.fromkeys(keys, shard)
        index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
        (folder / f"{name}.index.json").write_text(json.dumps(index))
        return folder

    return convert


def load(folder):
    return load_params(folder, read_config(folder))[0]


@pytest.mark.parametrize("shards", [0, 3])
@pytest.mark.parametrize("name", NAMES)
def test_formats_and_shards_give_the_same_parameters(as_format, small_params, name, shards):
    """Catches a shard that is skipped and a format whose kernels stay transposed."""
    jax.tree.map(np.testing.assert_array_equal, load(as_format(name, shards)), small_params)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", ["model.safetensors", "flax_model.msgpack"])
def test_half_precision_files(as_format, small_params, name, dtype):
    """Catches 16-bit files read as integers, or kept as 16 bits."""
    rounded = jax.tree.map(lambda x: x.astype(dtype).astype(np.float32), small_params)
    jax.tree.map(np.testing.assert_array_equal, load(as_format(name, dtype=dtype)), rounded)


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_half_precision_bin(as_format, small_params, half):
    torch = pytest.importorskip("torch", reason="a .bin file needs torch")
    folder = as_format("pytorch_model.bin")
    path = folder / "pytorch_model.bin"
    dtype = getattr(torch, half)
    state = {k: v.to(dtype) for k, v in torch.load(path, weights_only=True).items()}
    torch.save(state, path)
    rounded = jax.tree.map(
        lambda x: torch.from_numpy(x.copy()).to(dtype).float().numpy(), small_params
    )
    jax.tree.map(np.testing.assert_array_equal, load(folder), rounded)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: LFS, "git-lfs pointer, not the weights"),
        (lambda data: b"", "empty"),
        (lambda data: data[: len(data) // 2], r"truncated \(\d+ bytes"),
        (lambda data: data[:-1], r"truncated \(\d+ bytes"),
        (lambda data: data[:40], "truncated|damaged"),
    ],
)
def test_w09_damaged_file_is_named_and_no_other_is_taken(as_format, name, damage, message):
    """Catches HeaderTooLarge, ExtraData and a silent step to the next file (case W09)."""
    folder = as_format(name)
    path = folder / name
    path.write_bytes(damage(path.read_bytes()))
    if name != "pytorch_model.bin":
        (folder / "pytorch_model.bin").write_bytes(b"must not be read")
    with pytest.raises(WeightsError, match=rf"{name} is .*({message})") as caught:
        load(folder)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_junk_is_named(as_format, name):
    folder = as_format(name)
    (folder / name).write_bytes(b"<html>404</html>" * 20)
    with pytest.raises(WeightsError, match=name):
        load(folder)


def test_w09_damaged_shard_is_named(as_format):
    folder = as_format("model.safetensors", shards=2)
    shard = folder / "model-00002-of-00002.safetensors"
    shard.write_bytes(LFS)
    with pytest.raises(WeightsError, match=r"model-00002-of-00002\.safetensors is a git-lfs"):
        load(folder)
    shard.unlink()
    with pytest.raises(WeightsError, match=r"model-00002-of-00002\.safetensors is missing"):
        load(folder)


@pytest.mark.parametrize(
    "entry",
    [
        *("../outside.safetensors", "/etc/x.safetensors", "sub/x.safetensors", "x.bin", 3),
        *("\ud800.safetensors", "\0.safetensors"),
    ],
)
def test_index_entries_stay_in_the_folder(as_format, entry):
    """Catches an index that reads a file elsewhere, or another format through the back door.

    The last two, which no file can be called, were errors of Python.
    """
    folder = as_format("model.safetensors", shards=2)
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["pooler.dense.bias"] = entry
    path.write_text(json.dumps(index))
    with pytest.raises(WeightsError, match=r"index\.json: shard .* in the same folder"):
        load(folder)


def test_index_that_promises_too_much(as_format):
    folder = as_format("model.safetensors", shards=2)
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["pooler.extra"] = "model-00001-of-00002.safetensors"
    path.write_text(json.dumps(index))
    with pytest.raises(WeightsError, match=r"pooler\.extra should be in model-00001"):
        load(folder)


@pytest.mark.parametrize("text", ["{", "{}", '{"weight_map": []}'])
def test_damaged_index_is_a_weights_error(tmp_path, text):
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(text)
    with pytest.raises(WeightsError, match=r"index\.json"):
        read_weights(path)


class Trap:
    """Unpickling this would create a file."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (open, (str(self.marker), "w"))


@pytest.mark.parametrize("zipped", [True, False])
def test_w11_pickled_code_is_refused_and_never_run(tmp_path, zipped):
    """Case W11: no fallback to weights_only=False."""
    torch = pytest.importorskip("torch", reason="a .bin file needs torch")
    marker, path = tmp_path / "marker", tmp_path / "pytorch_model.bin"
    if zipped:
        torch.save({"x": Trap(marker)}, path)
    else:
        path.write_bytes(pickle.dumps({"x": Trap(marker)}, protocol=2))
    with pytest.raises(
        WeightsError, match=r"pytorch_model\.bin is not a plain state dict.*safetensors"
    ):
        read_weights(path)
    assert not marker.exists()


def test_a_pickle_of_another_protocol_is_one_message(tmp_path, recwarn):
    """Bug: two lines of PyTorch's own above the error, about opening an issue there."""
    pytest.importorskip("torch", reason="a .bin file needs torch")
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(pickle.dumps({"x": Trap(tmp_path / "marker")}, protocol=4))
    with pytest.raises(WeightsError, match="not a plain state dict"):
        read_weights(path)
    assert [str(warning.message) for warning in recwarn] == []


@pytest.mark.parametrize("member", ["../../pwned", "/pwned", "a/..\\pwned"])
def test_a_member_that_leads_out_of_the_archive_is_named(tmp_path, member):
    """Bug: called truncated, so that the same file is downloaded again and again."""
    torch = pytest.importorskip("torch", reason="a .bin file needs torch")
    path = tmp_path / "pytorch_model.bin"
    torch.save({"x": torch.ones(2)}, path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(member, "x")
    with pytest.raises(WeightsError) as caught:
        read_weights(path)
    assert f"its member {member!r} leads out of the archive" in str(caught.value)
    assert "truncated" not in str(caught.value)
    assert "download" not in str(caught.value)


def test_w11_whole_module_and_plain_values_are_refused(tmp_path):
    torch = pytest.importorskip("torch", reason="a .bin file needs torch")
    path = tmp_path / "pytorch_model.bin"
    torch.save(torch.nn.Linear(2, 2), path)
    with pytest.raises(WeightsError, match="not a plain state dict"):
        read_weights(path)
    torch.save({"epoch": 3}, path)
    with pytest.raises(WeightsError, match="epoch is a int, not a tensor"):
        read_weights(path)
    torch.save([1, 2], path)
    with pytest.raises(WeightsError, match="not a plain state dict"):
        read_weights(path)


def test_w11_bin_without_torch_says_so(tmp_path, monkeypatch):
    """Catches a bare ImportError (case W11)."""
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK\x03\x04" + bytes(80))
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "torch" else find_spec(name)
    )
    with pytest.raises(WeightsError, match=r"needs PyTorch.*safetensors"):
        read_weights(tmp_path / "pytorch_model.bin")


def test_no_weights_lists_what_was_looked_for(tmp_path):
    with pytest.raises(DataNotFoundError, match=r"model\.safetensors, flax_model\.msgpack"):
        find_weights(tmp_path)


def test_importing_the_encoder_imports_no_torch_or_transformers():
    """Catches an import that costs seconds and a dependency that is not ours."""
    code = (
        "import sys, bertflow_jax.embed; "
        "print([m for m in ('torch', 'transformers', 'tensorflow') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_tensor_type_numpy_lacks(tmp_path):
    """float8 ended in an AttributeError."""
    header = json.dumps({"a": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0")
    with pytest.raises(WeightsError, match=r"model\.safetensors"):
        read_weights(path)


@pytest.mark.parametrize("member", ["data.pkl", "data/0", "version"])
def test_a_flipped_byte_in_a_bin_is_found(tmp_path, member):
    """torch.load checks no checksum: weights with a flipped bit were read as good ones."""
    torch = pytest.importorskip("torch", reason="a .bin file needs torch")
    path = tmp_path / "glow.bin"
    torch.save({"x": torch.arange(6.0)}, path)
    with zipfile.ZipFile(path) as archive:
        (found,) = (i for i in archive.infolist() if i.filename.endswith(f"/{member}"))
    data = bytearray(path.read_bytes())
    local = found.header_offset
    start = (
        local
        + 30
        + sum(int.from_bytes(data[local + i : local + i + 2], "little") for i in (26, 28))
    )
    data[start + found.file_size - 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(WeightsError, match=rf"glow\.bin is damaged.*member .*{member} is wrong"):
        read_weights(path)


def test_a_bin_without_checksums_is_read(tmp_path):
    """PyTorch may be told to write none; that file is not damaged."""
    torch = pytest.importorskip("torch", reason="a .bin file needs torch")
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"x": torch.arange(6.0)}, tmp_path / "a.bin")
    finally:
        torch.serialization.set_crc32_options(True)
    np.testing.assert_array_equal(read_weights(tmp_path / "a.bin")["x"], np.arange(6.0))


@pytest.mark.filterwarnings("ignore::UserWarning")  # quantised tensors are deprecated
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda torch: {"x": torch.eye(3).to_sparse()}, "x is sparse"),
        (lambda torch: {"x": torch.eye(3).to_sparse_csr()}, "x is sparse"),
        (
            lambda torch: {"x": torch.quantize_per_tensor(torch.ones(2), 1, 0, torch.qint8)},
            "x is quan",
        ),
        (lambda torch: {"x": torch.empty(3, device="meta")}, "x is without values"),
        (lambda torch: {"x": torch.ones(2).to(torch.float8_e4m3fn)}, "x has dtype torch.float8"),
        (lambda torch: {"x": torch.ones(2), 3: torch.ones(2)}, "names is 3, not a string"),
    ],
    ids=["sparse", "csr", "quantised", "meta", "float8", "integer key"],
)
def test_tensors_without_plain_values_are_named(tmp_path, make, words):
    """TypeError of numpy, or of a sort of names later on."""
    torch = pytest.importorskip("torch", reason="a .bin file needs torch")
    torch.save(make(torch), tmp_path / "a.bin")
    with pytest.raises(WeightsError, match=rf"a\.bin.*{words}"):
        read_weights(tmp_path / "a.bin")


def test_another_file_as_bin_is_no_pytorch_file(tmp_path):
    """A text was called damaged, KeyError: 101; another archive truncated."""
    pytest.importorskip("torch", reason="a .bin file needs torch")
    (tmp_path / "glow.bin").write_text("hello, this is a text\n" * 5)
    with pytest.raises(
        WeightsError, match=r"glow\.bin is not a PyTorch file: it begins with b'hello"
    ):
        read_weights(tmp_path / "glow.bin")
    with zipfile.ZipFile(tmp_path / "glow.bin", "w") as archive:
        archive.writestr("readme.txt", "r")
    with pytest.raises(WeightsError, match="not a PyTorch file: it is a zip archive without data"):
        read_weights(tmp_path / "glow.bin")


def nested(depth):
    tree = {"x": np.ones(1, np.float32)}
    for _ in range(depth):
        tree = {"x": tree}
    return tree


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"a": {5: np.ones(1)}}, "a name of its tree is 5, not a string"),
        ({"a": {b"x": np.ones(1)}}, "a name of its tree is b'x', not a string"),
        (nested(1015), "damaged"),
        (
            {"a": {"__msgpack_chunked_array__": True, "shape": {"0": 2**60}, "chunks": {}}},
            "damaged",
        ),
        ({"a": {"__msgpack_chunked_array__": True, "shape": 5, "chunks": 5}}, "damaged"),
    ],
    ids=["number", "bytes", "deep", "chunks", "chunks of a wrong type"],
)
def test_trees_that_no_model_has_are_damage(tmp_path, tree, words):
    """TypeError of a join of names, RecursionError, and what flax raises for pieces of an array."""
    path = tmp_path / "flax_model.msgpack"
    path.write_bytes(
        msgpack.packb(tree, default=serialization._msgpack_ext_pack, strict_types=True)
    )
    with pytest.raises(WeightsError, match=rf"flax_model\.msgpack is .*{words}"):
        read_weights(path)


def test_an_error_of_pytorch_without_a_text(tmp_path):
    """IndexError: an old file that ends after its first bytes makes PyTorch raise EOFError()."""
    torch = pytest.importorskip("torch", reason="a .bin file needs torch")
    path = tmp_path / "pytorch_model.bin"
    torch.save({"x": torch.ones(50)}, path, _use_new_zipfile_serialization=False)
    data = path.read_bytes()
    for size in range(1, len(data) - 1, 23):
        path.write_bytes(data[:size])
        with pytest.raises(
            WeightsError, match=r"pytorch_model\.bin is (truncated|damaged|not a plain)"
        ):
            read_weights(path)
