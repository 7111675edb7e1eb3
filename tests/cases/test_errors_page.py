"""docs/errors.md: every row of its table is what the command does, and a refusal leaves nothing."""

import dataclasses
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from documents.fast_bash import fast_bash
from errors_page_files import make_files
from struck import struck
from unprivileged import as_a_user

from bertflow_jax import cli
from bertflow_jax.__main__ import COMMANDS
from bertflow_jax.checkpoint import CheckpointStore
from bertflow_jax.output_locks import sole_writer
from bertflow_jax.staging import whole_folder
from bertflow_jax.workdir import prepare_workdir
from bertflow_jax.workdir_lock import lock_workdir

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "errors.md"
# The flags that are right; one that a row gives too is left out.
RIGHT = {
    "train.py": "--config=configs/demo.py --workdir=run",
    "evaluate.py": "--encoder=mini_bert --tasks=everyday --output=out",
    "embed": "--encoder=mini_bert --input=given.txt --output=vectors.npy",
    "postprocess fit": "--method=center --input=given.npy --output=fitted",
    "postprocess apply": "--model=whitening --input=given.npy --output=mapped.npy",
    "integrations.ray_data": "--encoder=mini_bert --input=folder --output=out",
    "export": "--encoder=mini_bert --output=exported",
    "push": "--repo_id=org/x --encoder=mini_bert --dry_run --output=pushed",
    "convert": "--output=imported",
    "reproduce": "--table=2 --data_dir=folder --output=paper",
    "data.tfds_builders": "--data_dir=tfds --tasks=stsb",
    "doctor": "",
}


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table; `said` are pieces of the output, in their order."""

    command: str
    given: str
    said: tuple[str, ...]
    code: int

    @property
    def runs(self) -> bool:
        return self.given.startswith("`")

    def is_said_in(self, output: str) -> bool:
        at = 0
        for piece in self.said:
            at = output.find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        return True


def _rows() -> list[Row]:
    rows = []
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 4 and cells[3].isdecimal():
            said = tuple(piece.strip() for piece in cells[2].strip("`").split("…"))
            rows.append(Row(cells[0], cells[1], tuple(filter(None, said)), int(cells[3])))
    return rows


ROWS = _rows()


def the_row(command: str, given: str) -> Row:
    return next(row for row in ROWS if (row.command, row.given) == (command, given))


@pytest.fixture(scope="module")
def bash():
    with fast_bash() as run:
        yield run


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """The files that the page speaks of."""
    folder = tmp_path_factory.mktemp("place")
    for name in ("train.py", "evaluate.py", "configs"):
        (folder / name).symlink_to(ROOT / name)
    make_files(folder)
    return folder


def listing(folder: Path) -> dict[str, int]:
    found = [path for path in folder.rglob("*") if "configs" not in path.parts]
    return {str(path.relative_to(folder)): path.lstat().st_mtime_ns for path in found}


def line_of(row: Row) -> str:
    """Return the command line of a row."""
    flags = row.given.strip("`")
    alone = flags.startswith("alone")
    flags = flags.removeprefix("alone").strip()
    names = {word.partition("=")[0] for word in shlex.split(flags)}
    right = [] if alone else RIGHT[row.command].split()
    kept = [word for word in right if word.partition("=")[0] not in names]
    start = row.command if row.command.endswith(".py") else f"-m bertflow_jax.{row.command}"
    return f"python {start} {' '.join(kept)} {flags}"


@pytest.mark.parametrize("row", [row for row in ROWS if row.runs], ids=lambda row: line_of(row)[7:])
def test_a_row_is_what_the_command_does(row, bash, place):
    """A message that has changed, a traceback, exit code 1, or a folder that a refusal leaves."""
    if row.command.endswith("ray_data") and importlib.util.find_spec("ray") is None:
        pytest.skip("needs ray")
    before = listing(place)
    done = bash(line_of(row), place)
    assert done.returncode == row.code, done.stdout
    assert row.is_said_in(done.stdout), done.stdout
    assert "Traceback" not in done.stdout
    if row.code == 2:
        assert re.search("^error: ", done.stdout, re.MULTILINE)
        assert listing(place) == before
    else:
        made = {Path(name).parts[0] for name in set(listing(place)) - set(before)}
        assert made
        for name in made:
            shutil.rmtree(place / name) if (place / name).is_dir() else (place / name).unlink()


def limited(limit: int, line: str) -> str:
    """Return a command line whose files may have so many bytes, as on a disk that is full."""
    program, *words = line.split()[1:]
    code = (
        f"import resource, runpy, sys\nresource.setrlimit(resource.RLIMIT_FSIZE, ({limit},) * 2)\n"
        f"sys.argv = {[program, *words]!r}\nrunpy.run_path({program!r}, run_name='__main__')"
    )
    return f"BERTFLOW_COMPILATION_CACHE=off python -c {shlex.quote(code)}"


SMALL = (
    "--config=configs/demo.py --workdir={} --config.data.path=given.txt --config.flow.levels=1 "
    "--config.flow.depth=1 --config.train.tensorboard=False --config.cache_dir=cache "
)


def test_a_workdir_in_use(bash, place):
    row = the_row("train.py", "a workdir that another run uses")
    (place / "run").mkdir()
    with lock_workdir(place / "run"):
        done = bash("python train.py " + SMALL.format("run"), place)
    shutil.rmtree(place / "run")
    assert done.returncode == row.code
    assert row.is_said_in(done.stdout), done.stdout


def test_x02_a_workdir_that_is_read_only(capsys):
    row = the_row("train.py", "a workdir that may not be written")
    with as_a_user(), tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        code = cli._call(lambda: prepare_workdir(f"{folder}/run", resume=False, overwrite=False))
    assert code == row.code
    assert row.is_said_in(capsys.readouterr().err)


def test_c05_a_full_disk_while_training(bash, place):
    """No half checkpoint that counts, and no exit code that says all is well."""
    row = the_row("train.py", "a disk that is full")
    done = bash(
        limited(60_000, f"python train.py {SMALL.format('disk')} --config.flow.width=128"), place
    )
    assert done.returncode == row.code, done.stdout
    assert row.is_said_in(done.stdout), done.stdout
    assert "Traceback" not in done.stdout
    assert CheckpointStore(place / "disk").steps() == []
    shutil.rmtree(place / "disk")
    shutil.rmtree(place / "cache")


def test_a_full_disk_while_evaluating(bash, place):
    row = the_row("evaluate.py", "a disk that is full")
    (place / "data" / "STSBenchmark").mkdir(parents=True)
    rows = "".join(f"g\tf\ty\ti\t{gold}\tA cat.\tA dog.\n" for gold in (1, 2, 3))
    (place / "data" / "STSBenchmark" / "sts-test.csv").write_text(rows)
    line = (
        "python evaluate.py --encoder=mini_bert --tasks=stsb --data_dir=data --output=scores "
        "--cache_dir=cache --noreport"
    )
    done = bash(limited(2300, line), place)
    assert done.returncode == row.code, done.stdout
    assert row.is_said_in(done.stdout), done.stdout
    assert not (place / "scores").exists()
    shutil.rmtree(place / "data")
    shutil.rmtree(place / "cache")


def test_rows_beside_a_run_whose_text_was_edited(bash, place):
    """The rows would have been fitted on another text than the flow that they stand beside."""
    row = the_row("evaluate.py", "a run whose text was edited, and `--rows=center`")
    text = (place / "given.txt").read_text("utf-8")
    (place / "edited.txt").write_text(text, "utf-8")
    flags = SMALL.format("run").replace("given.txt", "edited.txt")
    done = bash(f"python train.py {flags} --config.train.steps=1", place)
    assert done.returncode == 0, done.stdout
    (place / "edited.txt").write_text(text.replace("number 7", "number seven"), "utf-8")
    before = listing(place)
    line = "python evaluate.py --workdir=run --tasks=everyday --output=out --noreport --rows=center"
    done = bash(line, place)
    assert done.returncode == row.code, done.stdout
    assert row.is_said_in(done.stdout), done.stdout
    assert "Traceback" not in done.stdout
    assert listing(place) == before
    (place / "edited.txt").write_text(text, "utf-8")
    done = bash(line, place)
    assert done.returncode == 0, done.stdout
    for name in ("run", "cache", "out"):
        shutil.rmtree(place / name)
    (place / "edited.txt").unlink()


def test_a_folder_that_another_evaluation_writes(bash, place):
    row = the_row("evaluate.py", "a folder that another evaluation writes")
    (place / "scores").mkdir()
    with sole_writer(place / "scores" / ".lock", "--output=scores"):
        line = "python evaluate.py --encoder=mini_bert --tasks=everyday --output=scores"
        done = bash(line, place)
    assert done.returncode == row.code, done.stdout
    assert row.is_said_in(done.stdout), done.stdout
    assert os.listdir(place / "scores") == []
    shutil.rmtree(place / "scores")


def test_a_folder_that_another_command_has_written(capsys, tmp_path):
    row = the_row("export", "a folder that another command has written meanwhile")

    def write():
        with whole_folder(tmp_path / "exported"):
            (tmp_path / "exported" / "first").mkdir(parents=True)

    assert cli._call(write) == row.code
    assert row.is_said_in(capsys.readouterr().err)
    assert os.listdir(tmp_path / "exported") == ["first"]


def test_sigterm_while_training(bash, place):
    """The run is saved where it was stopped, and goes on there."""
    row = the_row("train.py", "SIGTERM while steps are made")
    words = [*SMALL.format("stopped").split(), "--config.train.steps=1000000"]
    code = f"""
import os, pathlib, runpy, signal, sys, threading, time
def stop():
    lines = pathlib.Path("stopped/metrics.jsonl")
    while not (lines.exists() and lines.stat().st_size): time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=stop, daemon=True).start()
sys.argv = {["train.py", *words]!r}
runpy.run_path("train.py", run_name="__main__")
"""
    done = bash(f"python -c {shlex.quote(code)}", place)
    assert done.returncode == row.code, done.stdout
    assert row.is_said_in(done.stdout), done.stdout
    (step,) = CheckpointStore(place / "stopped").steps()[-1:]
    assert 0 < step < 1_000_000
    shutil.rmtree(place / "stopped")
    shutil.rmtree(place / "cache")


def _real(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script with the real python, whose streams are those of the shell."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", script.replace("python", sys.executable)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_hub_that_is_not_there(place):
    row = the_row("push", "a Hub that cannot be reached")
    done = _real(
        "python -m bertflow_jax.push --repo_id=org/x --encoder=mini_bert",
        place,
        HF_ENDPOINT="http://127.0.0.1:9",
        HF_TOKEN="hf_not_a_real_one",
        HF_HOME=str(place / "home"),
    )
    assert done.returncode == row.code, done.stderr
    assert row.is_said_in(done.stderr), done.stderr
    assert "hf_not_a_real_one" not in done.stderr + done.stdout


def test_a_reader_that_has_gone(place):
    """BrokenPipeError, and the fit was lost for the reader's sake."""
    row = the_row("every command", "a reader that has gone, as after … head -1")
    done = _real(
        "python -m bertflow_jax.postprocess fit --method=center --input=given.npy --output=f | true"
        " && python -m bertflow_jax | true && python -m bertflow_jax.postprocess --help | true",
        place,
    )
    assert done.returncode == row.code, done.stderr
    assert "Error" not in done.stderr
    assert sorted(os.listdir(place / "f")) == ["postprocess.json", "postprocess.safetensors"]
    shutil.rmtree(place / "f")


def test_a_full_disk_as_standard_output(place):
    """A list cut short and exit code 0 or 120, with a traceback at the interpreter's end."""
    row = the_row("every command", "a full disk as standard output")
    for flags in ("", " --help", " --version"):
        done = _real(f"python -m bertflow_jax{flags} > /dev/full", place)
        assert done.returncode == row.code
        assert row.is_said_in(done.stderr), done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "given",
    [
        "JAX_ENABLE_X64=1",
        "JAX_ENABLE_X64=maybe",
        "JAX_PLATFORMS=tpu without a TPU",
        "JAX_THREEFRY_PARTITIONABLE=0",
        "PYTHONOPTIMIZE=2",
    ],
)
def test_a_variable_of_the_environment(given, place):
    """tests/test_jax_settings.py has more commands."""
    row = next(row for row in ROWS if row.given == given)
    name, _, value = given.split()[0].partition("=")
    before = listing(place)
    done = _real(f"python train.py {SMALL.format('run')}", place, **{name: value})
    assert done.returncode == row.code, done.stderr
    assert row.is_said_in(done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    assert listing(place) == before


@pytest.mark.parametrize(
    ("given", "number"),
    [("Ctrl-C", signal.SIGINT), ("SIGTERM where there is nothing to save", signal.SIGTERM)],
)
def test_a_command_that_is_stopped(given, number, place):
    """Other codes than the page gives; tests/test_interrupt_commands.py has every command."""
    row, before = the_row("every command", given), listing(place)
    arguments = ["fit", "--method=whitening", "--input=given.npy", "--output=stopped"]
    code, said = struck(number, "import jax", "bertflow_jax.postprocess", *arguments, cwd=place)
    # A shell says 128 + N of a process that signal N has ended.
    assert (code if code >= 0 else 128 - code) == row.code
    assert said == ([row.said[0]] if code >= 0 else [])
    assert listing(place) == before


SPECIAL = {
    "a workdir that another run uses": test_a_workdir_in_use,
    "a workdir that may not be written": test_x02_a_workdir_that_is_read_only,
    "a run whose text was edited, and `--rows=center`": (
        test_rows_beside_a_run_whose_text_was_edited
    ),
    "a folder that another evaluation writes": test_a_folder_that_another_evaluation_writes,
    "a folder that another command has written meanwhile": (
        test_a_folder_that_another_command_has_written
    ),
    "a disk that is full": test_c05_a_full_disk_while_training,
    "SIGTERM while steps are made": test_sigterm_while_training,
    "Ctrl-C while rows are computed": "tests/test_interrupt.py",
    "a Hub that cannot be reached": test_a_hub_that_is_not_there,
    "Ctrl-C": test_a_command_that_is_stopped,
    "SIGTERM where there is nothing to save": test_a_command_that_is_stopped,
    "a reader that has gone, as after … head -1": test_a_reader_that_has_gone,
    "a full disk as standard output": test_a_full_disk_as_standard_output,
    "JAX_ENABLE_X64=1": test_a_variable_of_the_environment,
    "JAX_ENABLE_X64=maybe": test_a_variable_of_the_environment,
    "JAX_PLATFORMS=tpu without a TPU": test_a_variable_of_the_environment,
    "JAX_THREEFRY_PARTITIONABLE=0": test_a_variable_of_the_environment,
    "PYTHONOPTIMIZE=2": test_a_variable_of_the_environment,
    "a current folder that was deleted": "tests/test_current_folder.py",
    "an input that may not be read": "tests/cases/test_permissions.py",
    "a run with a read-only folder, and --overwrite": "tests/test_overwrite.py",
}


def test_every_row_has_a_test():
    """A row that nobody checks."""
    assert {row.given for row in ROWS if not row.runs} == set(SPECIAL)
    kept = (ROOT / "tests" / "test_interrupt.py").read_text("utf-8")
    assert all(piece in kept for piece in ("stopping after this window", "interrupted", "== 130"))


def test_every_command_is_on_the_page():
    """A command that was added without its mistakes."""
    named = {row.command.split()[0] for row in ROWS} - {"every"}
    assert named == {command.removeprefix("-m bertflow_jax.") for command in COMMANDS}
