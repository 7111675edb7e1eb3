"""Files that are not the weights (W09) and pickles that ask for code (W11), in every format."""

import contextlib
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks.fuzz_weight_damage import LFS
from benchmarks.fuzz_weight_folders import ENCODERS, PROCESSORS, write_good
from bertflow_jax.convert.run import ConvertOptions, run_convert
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.encoder.weight_files import WEIGHT_FILES, read_weights
from bertflow_jax.errors import BertFlowError, DataNotFoundError, WeightsError
from bertflow_jax.postprocess import load

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A folder for each format that weights are read from."""
    place = tmp_path_factory.mktemp("good")
    write_good(place)
    return place


def read(place):
    """Read a folder of any format as a user would."""
    if (place / "glow.bin").exists():
        return run_convert(ConvertOptions(flow=str(place), output=str(place / "output")))
    if list(place.glob("*.index")):
        return run_convert(ConvertOptions(checkpoint=str(place), output=str(place / "output")))
    if (place / "config.json").exists() or (place / "config.json").is_symlink():
        return SentenceEncoder.from_pretrained(place)
    return load(place)


def weight_files(folder):
    return [
        p
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.suffix not in (".json", ".txt", ".py", ".md")
    ]


# The three whole files of an encoder are in tests/encoder/test_weight_files.py.
KINDS = [kind for kind in ENCODERS if kind not in (*WEIGHT_FILES, "dense")]
KINDS += [*PROCESSORS, "tf1", "port"]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: LFS, "is a git-lfs pointer, not the weights"),
        (lambda data: b"", r"is (empty|truncated \(0 bytes)"),
        (
            lambda data: data[: len(data) // 2],
            r"is (truncated \(\d+ bytes|damaged \(the mark at the end)",
        ),
    ],
    ids=["pointer", "empty", "half"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_w09_every_weight_file_of_every_format_is_named(good, tmp_path, kind, damage, words):
    """Bug: HeaderTooLarge, "invalid load key", or another file read in its place."""
    if not (good / kind).is_dir():
        pytest.skip("a .bin file needs torch")
    files = [p for p in weight_files(good / kind) if p.parent.name[:2] not in ("2_", "3_")]
    assert files
    for number, file in enumerate(files):
        place = tmp_path / str(number)
        shutil.copytree(good / kind, place)
        damaged = place / file.relative_to(good / kind)
        damaged.write_bytes(damage(damaged.read_bytes()))
        with pytest.raises(BertFlowError, match=rf"{file.name} {words}"):
            read(place)


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "modules.json",
        "1_Pooling/config.json",
    ],
)
def test_w09_a_pointer_in_place_of_a_small_file_is_named(good, tmp_path, name):
    """Bug: "not valid JSON" for a file that git-lfs holds, as large tokenizer.json are."""
    place = shutil.copytree(good / "sentence-transformers", tmp_path / "x")
    (place / name).write_bytes(LFS)
    with pytest.raises(BertFlowError, match=rf"{name} is a git-lfs pointer, not the file"):
        read(place)
    place = shutil.copytree(good / "model.safetensors", tmp_path / "vocab")
    (place / "vocab.txt").write_bytes(LFS)
    with pytest.raises(BertFlowError, match=r"vocab\.txt is a git-lfs pointer, not the file"):
        read(place)


@pytest.mark.parametrize("name", [*WEIGHT_FILES, "model.safetensors.index.json"])
def test_w09_a_link_that_leads_nowhere_is_not_passed_over(good, tmp_path, name):
    """Bug: a cache whose blob was deleted: the next format in the folder was read instead."""
    place = shutil.copytree(good / "model.safetensors", tmp_path / "x")
    (place / "model.safetensors").rename(place / "unused")
    for other in WEIGHT_FILES[WEIGHT_FILES.index(name) + 1 :] if name in WEIGHT_FILES else ():
        (place / other).write_bytes(b"must not be read")
    (place / name).symlink_to("../blobs/gone")
    with pytest.raises(BertFlowError, match=rf"{name} is missing: it is a link to ../blobs/gone"):
        read(place)


@pytest.mark.parametrize(
    "name", ["tokenizer_config.json", "modules.json", "config.json", "tokenizer.json"]
)
def test_w09_a_small_file_whose_link_leads_nowhere_is_not_passed_over(good, tmp_path, name):
    """Bug: read as a folder without it: another pooling, another lower-casing."""
    place = shutil.copytree(good / "sentence-transformers", tmp_path / "x")
    (place / name).unlink()
    (place / name).symlink_to("../blobs/gone")
    with pytest.raises(DataNotFoundError, match=rf"{name} is missing: it is a link to"):
        read(place)


def test_w09_a_folder_or_a_circle_of_links_is_named(good, tmp_path):
    """Bug: IsADirectoryError and ELOOP as they come."""
    for name in ("model.safetensors", "config.json", "vocab.txt", "tokenizer_config.json"):
        for make in (Path.mkdir, lambda path: path.symlink_to(path.name)):
            place = tmp_path / "x"
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(good / "model.safetensors", place)
            (place / name).unlink()
            make(place / name)
            with pytest.raises(BertFlowError, match=rf"{name} cannot be read"):
                SentenceEncoder.from_pretrained(place)


ENTRIES = {
    "embed": [
        "-m",
        "bertflow_jax.embed",
        "--encoder=ENCODER",
        "--input=text.txt",
        "--output=o.npy",
    ],
    "evaluate": [str(ROOT / "evaluate.py"), "--encoder=ENCODER", "--output=evaluated"],
    "train": [
        str(ROOT / "train.py"),
        f"--config={ROOT}/configs/demo.py",
        "--workdir=run",
        "--config.encoder.path=ENCODER",
    ],
    "export": ["-m", "bertflow_jax.export", "--encoder=ENCODER", "--output=exported"],
    "push": [
        "-m",
        "bertflow_jax.push",
        "--encoder=ENCODER",
        "--repo_id=a/b",
        "--dry_run",
        "--output=p",
    ],
    "convert": [
        "-m",
        "bertflow_jax.convert",
        "--checkpoint=tf1",
        "--output=converted",
        "--do_lower_case",
    ],
    "postprocess": [
        "-m",
        "bertflow_jax.postprocess",
        "apply",
        "--model=flow",
        "--input=v.npy",
        "--output=w.npy",
    ],
}


@pytest.fixture(scope="module")
def ended(good, tmp_path_factory):
    """Every command on weights that are pointers, all at once: name -> (exit code, its text)."""
    place = tmp_path_factory.mktemp("commands")
    for kind in ("model.safetensors", "tf1", "flow"):
        shutil.copytree(good / kind, place / kind)
        for file in weight_files(place / kind):
            file.write_bytes(LFS)
    (place / "text.txt").write_text("the dog\n")
    np.save(place / "v.npy", np.ones((3, 8), np.float32))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    with contextlib.ExitStack() as stack:
        started = {}
        for name, arguments in ENTRIES.items():
            arguments = [word.replace("ENCODER", "./model.safetensors") for word in arguments]
            started[name] = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, *arguments],
                    cwd=place,
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        return {
            name: (process.communicate()[1], process.returncode)
            for name, process in started.items()
        }


@pytest.mark.parametrize("name", ENTRIES)
def test_w09_every_command_ends_with_the_files_name(ended, name):
    """Bug: a command that prints a traceback, or another exit code, where the others have a line."""
    text, code = ended[name]
    assert code == 2, text
    assert "is a git-lfs pointer, not the weights" in text
    assert "Traceback" not in text


class Trap:
    """Unpickling this would create a file."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (open, (str(self.marker), "w"))


def trap(path, zipped, marker):
    """Write a file of PyTorch that would make a file."""
    torch = pytest.importorskip("torch", reason="a .bin file needs torch")
    if zipped:
        torch.save({"x": Trap(marker)}, path)
    else:
        path.write_bytes(pickle.dumps({"x": Trap(marker)}, protocol=2))


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("pytorch_model.bin", "pytorch_model.bin"),
        ("pytorch_model.bin in shards", "pytorch_model-00002-of-00002.bin"),
        ("port", "glow.bin"),
    ],
)
def test_w11_no_file_of_pytorch_runs_code(good, tmp_path, monkeypatch, kind, name, zipped):
    """Bug: weights_only switched off, also by PyTorch's own variable for it."""
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    marker = tmp_path / "marker"
    place = shutil.copytree(good / kind, tmp_path / "x") if (good / kind).exists() else tmp_path
    trap(place / name, zipped, marker)
    with pytest.raises(WeightsError, match=rf"{name} is not a plain state dict.*safetensors"):
        read(place)
    assert not marker.exists()


def test_w11_a_member_of_the_archive_never_lands_outside(tmp_path):
    """Bug: an archive that is unpacked to disk, to where its members' names say."""
    torch = pytest.importorskip("torch", reason="a .bin file needs torch")
    path = tmp_path / "x" / "y" / "pytorch_model.bin"
    path.parent.mkdir(parents=True)
    torch.save({"x": torch.ones(2)}, path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../../escaped", "x")
        archive.writestr(str(tmp_path / "absolute"), "x")
    with contextlib.suppress(WeightsError):
        np.testing.assert_array_equal(read_weights(path)["x"], [1, 1])
    assert {p.name for p in tmp_path.rglob("*")} == {"x", "y", "pytorch_model.bin"}
