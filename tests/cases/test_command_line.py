"""Encoders that are not there, told apart; outputs that go where they are asked for and nowhere else.

What the Hub's answers look like is in tests/encoder/test_hub.py and test_hub_access.py, outputs that
cannot be written and switches written as `--x False` are rows of docs/errors.md.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from documents.fast_bash import fast_bash

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def bash():
    with fast_bash() as run:
        yield run


@pytest.fixture
def place(tmp_path):
    (tmp_path / "given.txt").write_text("".join(f"Sentence number {n}.\n" for n in range(20)))
    (tmp_path / "bare").mkdir()
    (tmp_path / "here").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("encoder", "said"),
    [
        ("./no/such/dir", "folder not found: ./no/such/dir\n"),
        ("/abs/missing", "folder not found: /abs/missing\n"),
        ("../bare/no", "folder not found: ../bare/no\n"),
        ("../bare", "../bare/config.json is missing"),
        ("../given.txt", "../given.txt is a file; give the folder of the encoder"),
    ],
)
@pytest.mark.parametrize("command", ["embed", "train"])
def test_x01_a_path_is_never_taken_for_a_hub_id(bash, place, encoder, said, command):
    """ "repo id must be in the form ...", or a minute's wait for the network, for a mistyped path."""
    line = {
        "embed": f"python -m bertflow_jax.embed --encoder={encoder} --input=../given.txt --output=v.npy",
        "train": f"python {ROOT}/train.py --config={ROOT}/configs/demo.py --workdir=run "
        f"--config.data.path=../given.txt --config.encoder.path={encoder}",
    }[command]
    done = bash(line, place / "here")
    assert done.returncode == 2, done.stdout
    assert done.stdout.startswith("error: ")
    assert said in done.stdout
    assert os.listdir(place / "here") == []


def test_x01_offline_says_so_and_where_it_looked(place):
    """An offline machine whose user is told that a repository does not exist."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "bertflow_jax.embed",
            "--encoder=org/x",
            "--input=given.txt",
            "--output=v/v.npy",
        ],
        cwd=place,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(place / "hub"),
            "HF_TOKEN": "hf_s3cret",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2, done.stderr
    assert "'org/x': HF_HUB_OFFLINE is set" in done.stderr
    assert str(place / "hub") in done.stderr
    assert "hf_s3cret" not in done.stderr + done.stdout
    assert not (place / "v").exists()


COMMANDS = {
    "train": f"{ROOT}/train.py --config={ROOT}/configs/demo.py --workdir=../out "
    "--config.data.path=../given.txt --config.flow.levels=1 --config.flow.depth=1 "
    "--config.train.steps=5 --config.cache_dir=../cache",
    "embed": "-m bertflow_jax.embed --encoder=mini_bert --input=../given.txt --output=../out/v.npy",
    "fit": "-m bertflow_jax.postprocess fit --method=center --input=../out/v.npy --output=../out",
    "push": "-m bertflow_jax.push --encoder=mini_bert --repo_id=a/b --dry_run --output=../out",
}


@pytest.mark.parametrize("names", [["train"], ["embed", "fit"], ["push"]], ids="-".join)
def test_x02_nothing_is_written_to_the_current_folder(bash, place, names):
    """A current folder that is read-only ended a run whose --output was good."""
    for name in names:
        done = bash(f"python {COMMANDS[name]}", place / "here")
        assert done.returncode == 0, done.stdout
    assert os.listdir(place / "here") == []
    assert os.listdir(place / "out")
    written = {path.name for path in place.iterdir()}
    assert written <= {"given.txt", "bare", "here", "out", "cache"}
