"""Ctrl-C and SIGTERM at every stage of the commands that write folders and files."""

import functools
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from struck import ENDS, struck, tree, whole

from bertflow_jax import Whitening

pytestmark = pytest.mark.slow

CHECKPOINT = Path(__file__).parent / "convert" / "tf1_checkpoint"
ENCODER = "--encoder=mini_bert"
# Command -> module and flags, and where it is struck: as it starts, in the work, in the output.
COMMANDS = {
    "export": (
        ["bertflow_jax.export", ENCODER, "--platforms=cpu", "--output=out"],
        [
            "call bertflow_jax.export.artifact:_function",
            "call bertflow_jax.export.artifact:_digest",
            "call bertflow_jax.export.artifact:_check",
        ],
    ),
    "convert": (
        ["bertflow_jax.convert", f"--checkpoint={CHECKPOINT}", "--do_lower_case", "--output=out"],
        [
            "call bertflow_jax.convert.run:import_params",
            # The flow is written.
            "call bertflow_jax.convert.run:save_encoder",
        ],
    ),
    "push": (
        [
            *("bertflow_jax.push", ENCODER, "--flow=fitted", "--repo_id=org/x", "--dry_run"),
            "--output=pushed",
        ],
        [
            "call bertflow_jax.encoder_spec:EncoderSpec.load",
            "call bertflow_jax.integrations.sentence_transformers:save_encoder",
            "call bertflow_jax.integrations.sentence_transformers:write_st_modules",
        ],
    ),
    "fit": (
        [
            *("bertflow_jax.postprocess", "fit", "--method=whitening", "--input=given.npy"),
            "--output=fitted",
        ],
        [
            "call bertflow_jax.postprocess.fit_files:_batches",
            # The new arrays are written, the old settings are there.
            "call bertflow_jax.postprocess.storage:write_text",
        ],
    ),
    "fit a flow": (
        [
            *("bertflow_jax.postprocess", "fit", "--method=flow", "--input=given.npy"),
            *("--steps=40", "--output=flow"),
        ],
        ["call bertflow_jax.training.loop:Interrupt.check"],
    ),
    "apply": (
        [
            *("bertflow_jax.postprocess", "apply", "--model=fitted", "--input=given.npy"),
            *("--output=mapped.npy", "--normalize"),
        ],
        ["call bertflow_jax.postprocess.apply_files:unit_rows", "rename mapped.npy.unfinished-"],
    ),
    "doctor": (["bertflow_jax.doctor"], ["call subprocess:Popen._wait"]),
}
START = ["import absl", "import jax"]
STRIKES = [
    (command, point)
    for command, (_, points) in COMMANDS.items()
    # The doctor loads JAX in a process of its own.
    for point in [*START[: 1 if command == "doctor" else 2], *points]
]
WRITING = {command: points[-1] for command, (_, points) in COMMANDS.items() if command != "doctor"}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with the inputs, and with outputs of an earlier day that nobody wants to lose."""
    folder = tmp_path_factory.mktemp("made")
    vectors = np.random.default_rng(0).normal(size=(300, 256)).astype(np.float32)
    np.save(folder / "given.npy", vectors)
    Whitening(k=8).fit(vectors[:200]).save(folder / "fitted")
    np.save(folder / "mapped.npy", vectors[:2])
    return folder


@pytest.fixture
def place(made, tmp_path) -> Path:
    return shutil.copytree(made, tmp_path / "place")


@pytest.fixture(scope="module")
def uninterrupted(made, tmp_path_factory):
    @functools.cache
    def outputs(command: str) -> dict[str, bytes | None]:
        place = shutil.copytree(made, tmp_path_factory.mktemp("whole") / "place")
        whole(*COMMANDS[command][0], cwd=place)
        return tree(place)

    return outputs


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("command", "point"), STRIKES)
def test_a_stopped_command_leaves_everything_as_it_was(command, point, number, place):
    """A traceback before the command runs; `.unfinished` folders, locks and temporary files; a
    conversion without its encoder; an older save whose arrays and settings no longer fit; the
    doctor's process that goes on; exit code 1."""
    before = tree(place)
    assert struck(number, point, *COMMANDS[command][0], cwd=place) == ENDS[number]
    assert tree(place) == before


@pytest.mark.parametrize(("command", "point"), WRITING.items())
def test_the_next_run_is_as_if_nothing_had_been(command, point, place, uninterrupted):
    """A refusal because of what was left ("already holds flow"), or another output."""
    assert struck(signal.SIGTERM, point, *COMMANDS[command][0], cwd=place) == ENDS[signal.SIGTERM]
    whole(*COMMANDS[command][0], cwd=place)
    assert tree(place) == uninterrupted(command)


@pytest.mark.parametrize(("command", "point"), WRITING.items())
def test_the_next_run_after_sigkill(command, point, place, uninterrupted):
    """What nobody could tidy up must be in nobody's way."""
    code, _ = struck(signal.SIGKILL, point, *COMMANDS[command][0], cwd=place)
    assert code == -signal.SIGKILL
    for left in place.with_suffix(".tmp").iterdir():
        shutil.rmtree(left)
    whole(*COMMANDS[command][0], cwd=place)
    found = tree(place)
    hidden = [name for name in found if any(p.startswith(".") for p in Path(name).parts)]
    assert {name: found[name] for name in found.keys() - hidden} == uninterrupted(command)
    assert all(os.sep not in name or ".unfinished-" in name for name in hidden)
