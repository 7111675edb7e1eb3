"""python -m bertflow_jax.export from the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax import SentenceEncoder, Whitening

pytest.importorskip("flatbuffers", reason="jax.export writes with flatbuffers")
ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: object, program: str = "-mbertflow_jax.export", cwd: Path = ROOT):
    return subprocess.run(
        [sys.executable, program, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def test_a_folder_from_the_command_line_and_its_loader(bert_folder, tmp_path):
    """Flags that are parsed and then forgotten; a loader that prints something else than vectors."""
    folder = bert_folder()
    plain = SentenceEncoder.from_pretrained(folder, pooling="max", max_length=9)
    u = plain.encode([text for text in "abcdefghijklmnop"])
    white = Whitening(k=3).fit(u)
    white.save(tmp_path / "white")
    done = run(
        f"--encoder={folder}",
        "--pooling=max",
        "--max_length=9",
        f"--flow={tmp_path / 'white'}",
        "--normalize",
        "--platforms=cpu,cuda",
        f"--output={tmp_path / 'a' / 'out'}",
    )
    assert done.returncode == 0, done.stderr
    assert "3 dimensions" in done.stdout
    manifest = json.loads((tmp_path / "a" / "out" / "manifest.json").read_text())
    assert manifest["platforms"] == ["cpu", "cuda"]
    texts = ["a dog", "b . c d e f g h i j k l"]
    shown = run(*texts, program=str(tmp_path / "a" / "out" / "load.py"), cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    got = [json.loads(line) for line in shown.stdout.splitlines()]
    wanted = plain.with_postprocess(white).encode(texts, normalize=True)
    np.testing.assert_allclose(got, wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--encoder=mini_bert"], "--output=FOLDER is missing"),
        (["--output=out", "--workdir=x", "--pooling=cls"], "--pooling goes with --encoder"),
        (
            ["--output=out", "--encoder=mini_bert", "--platforms=cpu,gpu"],
            "--platforms=cpu,gpu: must",
        ),
        (["--output=tests", "--encoder=mini_bert"], "--output=tests is not empty"),
    ],
)
def test_mistakes_end_with_2_and_leave_nothing(arguments, words):
    """Minutes of work before a wrong flag is told, or a traceback."""
    done = run(*arguments)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (ROOT / "out").exists()
