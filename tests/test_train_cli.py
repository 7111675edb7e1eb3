"""train.py as a user meets it: flags, messages, exit codes."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from forked_commands import run_commands

ROOT = Path(__file__).resolve().parents[1]


def _run(*arguments):
    return subprocess.run(
        [sys.executable, "train.py", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--workdir=x"], "--config is missing"),
        (["--config=configs/none.py", "--workdir=x"], "--config=configs/none.py: no such file"),
        (
            ["--config=configs/demo.py", "--workdir=x", "--config.train.stepz=3"],
            "did you mean --config.train.steps?",
        ),
        (["--config=configs/demo.py", "--workdir=x", "--config.train.steps=many"], "steps"),
        (["--config=configs/demo.py", "--workdir=x", "--config.flow.coupling=add"], "additive"),
        (["--config=configs/demo.py"], "--workdir is missing: name a folder"),
        (["--config=configs/demo.py", "--workdir=configs"], "not empty"),
        (["--config=configs/demo.py", "--workdir=x", "--resume", "--overwrite"], "exclude"),
        (["--config=configs/demo.py", "--workdir=x", "--speed=3"], "speed"),
        (
            ["--config=configs/demo.py", "--workdir=x", "--data.path=y"],
            "flag 'data.path'; did you mean --config.data.path?",
        ),
        (
            ["--config=configs/demo.py", "--workdir=x", "--config.objective=siamese"],
            "supervision.path",
        ),
    ],
)
def test_mistakes_exit_with_2_and_no_traceback(arguments, words):
    """A wrong flag, field, value or folder: its name on stderr, exit code 2, nothing written."""
    done = _run(*arguments)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (ROOT / "x").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--config=configs/siamese_nli.py", "--config.supervision.path=no.jsonl"], "no.jsonl"),
        (
            [
                "--config=configs/joint_stsb.py",
                "--config.supervision.path=tests",
                "--config.supervision.task=stsx",
            ],
            "unknown STS task 'stsx'",
        ),
    ],
)
def test_labelled_pairs_that_are_not_there(arguments, words, tmp_path):
    """train.py with another objective answers in the same way."""
    done = _run(*arguments, f"--workdir={tmp_path / 'run'}")
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_help_names_the_flags():
    """--help is no failure and tells what there is."""
    done = _run("--help")
    assert done.returncode == 0
    for flag in ("--config", "--workdir", "--[no]resume", "--[no]overwrite"):
        assert flag in done.stdout


def test_a_config_file_that_exits_is_a_mistake(tmp_path):
    """exit(3) inside get_config looked like --help: nothing was done, and the exit code said 0."""
    (tmp_path / "c.py").write_text("import sys\ndef get_config():\n    sys.exit(3)\n")
    done = _run(f"--config={tmp_path / 'c.py'}", f"--workdir={tmp_path / 'run'}")
    assert done.returncode == 2
    assert "exit(3)" in done.stderr
    assert "line 3" in done.stderr


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("trian.steps=5", "unknown config field 'trian.steps'; did you mean --config.train.steps?"),
        ("trian.stepz=5", "unknown config field 'trian.stepz'; did you mean --config.train.steps?"),
        ("trian=5", "unknown config field 'trian'; the fields of --config.train are "),
        ("stepz=5", "unknown config field 'stepz'; did you mean --config.train.steps?"),
        ("steps=5", "unknown config field 'steps'; did you mean --config.train.steps?"),
        ("flow.levels.x=5", "unknown config field 'flow.levels.x'; did you mean --config.flow.lev"),
        ("flow.seed=5", "unknown config field 'flow.seed'; did you mean --config.seed?"),
        ("path=a", "did you mean --config.encoder.path or --config.data.path or --config.superv"),
        ("encodr.path=a", "'encodr.path'; did you mean --config.encoder.path?"),
        ("xyzzy=4", "unknown config field 'xyzzy' (--help lists the flags)"),
        ("flow=3", "flow is a section of the config; set a field of it: --config.flow.levels, "),
        ("flow=1", "flow is a section of the config; set a field of it: --config.flow.levels, "),
        ("data=x.txt", "data is a section of the config; set a field of it: --config.data.path, "),
    ],
)
def test_a_field_that_is_none_is_named_in_one_line(tmp_path, field, said):
    """Bug: the text of a KeyError, "values allowed are [0/none, or 1]"; flow=1 reset the section."""
    arguments = [f"--config={ROOT}/configs/demo.py", "--workdir=run", f"--config.{field}"]
    arguments.append("--config.data.path=none.txt")
    ((code, text),) = run_commands("train", [arguments], tmp_path)
    assert code == 2
    assert text.startswith(f"error: --config.{field}: ")
    assert said in text
    assert text.count("\n") == 1


def test_overwrite_never_deletes_the_config_file(tmp_path):
    """Bug: a config kept beside the run's checkpoints was gone without a word."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").touch()
    config = tmp_path / "run" / "mine.py"
    shutil.copy(ROOT / "configs" / "text.py", config)
    arguments = [f"--config={config}", "--workdir=run", "--overwrite", "--config.data.path=t.txt"]
    ((code, text),) = run_commands("train", [arguments], tmp_path)
    assert code == 2
    assert (
        text == f"error: --workdir={tmp_path / 'run'} --overwrite would delete --config={config}\n"
    )
    assert config.exists()
