"""python -m bertflow_jax.postprocess: its words, its flags, its exit codes."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax import Whitening

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "embeddings.md"


def start(*command, cwd):
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*arguments, cwd):
    process = start("-m", "bertflow_jax.postprocess", *arguments, cwd=cwd)
    out, err = process.communicate()
    return process.returncode, out, err


@pytest.fixture
def vectors(tmp_path):
    u = np.random.default_rng(0).normal(size=(300, 8)) * np.arange(1, 9) + 2
    np.save(tmp_path / "v.npy", u.astype(np.float32))
    return u.astype(np.float32)


def test_fit_and_apply(tmp_path, vectors):
    """Flags that do not reach the fit; figures that are of something else."""
    code, out, err = run(
        "fit",
        "--method=whitening",
        "--k=3",
        "--alpha=0.5",
        "--input=v.npy",
        "--output=w",
        cwd=tmp_path,
    )
    assert code == 0, err
    pattern = r"fitted: Whitening\(k=3, alpha=0\.5\) on 300 vectors of 8 dimensions in \d+\.\d s\n"
    assert re.match(pattern, out)
    before, after = re.search(r"pairs: (\S+) before, (\S+) after \(300 rows", out).groups()
    assert float(before) > 0.05 > abs(float(after))
    code, out, err = run("apply", "--model=w", "--input=v.npy", "--output=z.npy", cwd=tmp_path)
    assert (code, out) == (0, "300 vectors of 3 dimensions: z.npy\n"), err
    expected = Whitening(3, 0.5).fit(vectors).transform(vectors)
    np.testing.assert_allclose(np.load(tmp_path / "z.npy"), expected, atol=1e-6)


def test_help_of_each_command_lists_its_own_flags(tmp_path):
    """Flags of the other command, or absl's own words with exit code 1."""
    help_of = {}
    for words in ("fit", "apply", ""):
        code, help_of[words], err = run(*filter(None, [words, "--help"]), cwd=tmp_path)
        assert (code, err) == (0, "")
    assert "fit    fits a flow" in help_of[""]
    assert "--alpha" in help_of["fit"]
    assert "--inverse" not in help_of["fit"]
    assert "--[no]inverse" in help_of["apply"]
    assert "--alpha" not in help_of["apply"]
    assert help_of["apply"].startswith("Apply a saved post-processor")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "no command: give fit or apply as the first word"),
        ("train --input=v.npy", "'train' is no command"),
        ("--input=v.npy fit", "fit must come first, before --input=v.npy"),
        ("fit apply", "unexpected argument 'apply'"),
        ("apply --k=2", "Unknown command line flag 'k'"),
        ("fit --method=whitening --input=v.npy", "--output is missing"),
        (
            "fit --method=whitening --input=v.npy --output=w --steps=3",
            "--steps goes with --method=f",
        ),
        ("apply --model=w --input=no.npy --output=z.npy", "--input=no.npy: no such file"),
    ],
)
def test_a_mistake_is_one_line_without_loading_jax(tmp_path, vectors, arguments, words):
    """A traceback, exit code 1, or seconds of imports for a typing error."""
    program = (
        "import atexit, sys; from bertflow_jax.postprocess.__main__ import main\n"
        "atexit.register(lambda: print('jax' in sys.modules)); main()"
    )
    process = start("-c", program, *arguments.split(), cwd=tmp_path)
    out, err = process.communicate()
    assert process.returncode == 2
    assert err.startswith(f"error: {words}")
    assert err.count("\n") == 1
    assert out == "False\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15)])
def test_signals(tmp_path, vectors, number, code):
    """A half output, under the final name or another, or a Ctrl-C that ends with a traceback."""
    Whitening().fit(vectors).save(tmp_path / "w")
    program = (
        # A suite in the background of a shell is started with Ctrl-C ignored.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import time; from bertflow_jax.postprocess import vector_files as v, __main__ as m\n"
        "v._BLOCK_ROWS, blocks = 50, v.NpyVectors.blocks\n"
        "def slow(self):\n"
        "  for block in blocks(self):\n"
        "    yield block\n"
        "    print('block', flush=True); time.sleep(30)\n"
        "v.NpyVectors.blocks = slow; m.main()"
    )
    arguments = ["--model=w", "--input=v.npy", "--output=z.npy"]
    process = start("-c", program, "apply", *arguments, cwd=tmp_path)
    assert process.stdout.readline() == "block\n"
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert {path.name for path in tmp_path.iterdir()} == {"v.npy", "w"}


def test_the_page_names_flags_that_are_there():
    """A flag that was renamed, or never was."""
    text = PAGE.read_text("utf-8").replace("\\\n", " ")
    commands = re.findall(r"-m bertflow_jax\.postprocess (fit|apply) ([^`\n]*)", text)
    assert {word for word, _ in commands} == {"fit", "apply"}
    for word, rest in commands:
        source = (ROOT / f"bertflow_jax/postprocess/{word}_flags.py").read_text("utf-8")
        known = set(re.findall(r'DEFINE_\w+\(\s*"(\w+)"', source))
        assert set(re.findall(r"--(\w+)", rest)) <= known, rest


def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    """An example that uses a name that is not there."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    rng = np.random.default_rng(0)
    np.save("vectors.npy", rng.normal(size=(400, 32)) @ rng.normal(size=(32, 32)) + 1)
    space = {"labels": rng.integers(2, size=400)}
    for block in blocks:
        exec(block, space)
    assert space["search"].best_params_["whiten__k"] in (8, 16, 32)
