"""evaluate.py from flags to files. Each test names the bug it catches."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bertflow_jax import cli
from bertflow_jax.config import Config, DataConfig, TrainConfig
from bertflow_jax.errors import (
    BertFlowError,
    ConfigError,
    DataError,
    DataNotFoundError,
    WorkdirError,
)
from bertflow_jax.evaluation import captions, run, sources
from bertflow_jax.evaluation.options import EvalOptions, output_folder
from bertflow_jax.evaluation.run import run_evaluation

ROOT = Path(__file__).parents[2]


def evaluate_py(*args, cwd):
    return run_python(str(ROOT / "evaluate.py"), *args, cwd=cwd)


def run_program(program, *args, cwd, **env):
    return run_python("-c", program, *args, cwd=cwd, **env)


def run_python(*args, cwd, **env):
    return subprocess.run(
        [sys.executable, *args],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
    )


class AngleEncoder:
    """Places a sentence, whose text is a cosine, at that cosine from the sentence "1"."""

    processor = None

    def encode(self, sentences):
        cosines = np.array([float(text) for text in sentences])
        return np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1)

    def identity(self):
        return {"pooling": "none"}


@pytest.fixture
def data_dir(tmp_path):
    """STS-B with three pairs (Spearman 50) and SICK with two (Spearman -100)."""
    root = tmp_path / "data"
    (root / "STSBenchmark").mkdir(parents=True)
    (root / "SICK").mkdir()
    pairs = [(0.1, 0), (0.5, 3), (0.9, 2)]
    rows = "".join(f"g\tf\ty\ti\t{gold}\t1\t{cosine}\n" for cosine, gold in pairs)
    (root / "STSBenchmark" / "sts-test.csv").write_text(rows)
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    sick = header + "1\t1\t0.2\t4\tX\n2\t1\t0.8\t3\tX\n"
    (root / "SICK" / "SICK_test_annotated.txt").write_text(sick)
    return str(root)


@pytest.fixture
def angles(monkeypatch):
    monkeypatch.setattr(sources, "_load_encoder", lambda options: AngleEncoder())


def options(data_dir, tmp_path, /, **fields):
    defaults = {"data_dir": data_dir, "encoder": "angles", "tasks": ("sickr", "stsb")}
    return EvalOptions(**{**defaults, "output": str(tmp_path / "out"), **fields})


def test_an_encoder_is_scored_and_everything_written(data_dir, tmp_path, angles, capsys):
    # Bug: scores, file and table disagree, or something is written elsewhere.
    figure = tmp_path / "pictures" / "effect.svg"
    run_evaluation(options(data_dir, tmp_path, figure=str(figure)))
    found = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    assert list(found["rows"]) == ["raw"]
    assert found["model"] == {"encoder": {"path": "angles", "pooling": "none"}, "flow": None}
    assert found["rows"]["raw"]["stsb"]["all"]["spearman"] == pytest.approx(50)
    assert found["rows"]["raw"]["sickr"]["all"]["spearman"] == pytest.approx(-100)
    assert found["rows"]["raw"]["average"] == pytest.approx(-25)
    table = capsys.readouterr().out.splitlines()
    assert table[1].split() == ["STS-B*", "SICK-R*", "Avg*"]  # of a few pairs
    assert table[2].split() == ["raw", "50.00", "-100.00", "-25.00"]
    files = ["report.html", "results.json", "table.md", "table.tex"]
    assert sorted(os.listdir(tmp_path / "out")) == files
    assert figure.is_file()
    assert sorted(os.listdir(tmp_path)) == ["data", "out", "pictures"]


def test_tilde_is_the_home_folder(data_dir, tmp_path, angles, monkeypatch):
    # Bug: a folder named "~" made in the current one, as no shell expands --output=~/x.
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    run_evaluation(options("~/data", tmp_path, output="~/out", report=False))
    assert sorted(os.listdir(tmp_path)) == ["data", "out"]


def test_b03_results_are_written_before_anything_is_drawn(data_dir, tmp_path, angles, monkeypatch):
    # Bug: a plotting failure loses the scores.
    def fail(*args):
        raise RuntimeError("drawing failed")

    monkeypatch.setattr(run, "plot_rows", fail)
    with pytest.raises(RuntimeError, match="drawing failed"):
        run_evaluation(options(data_dir, tmp_path))
    assert json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))["rows"]


def test_without_report_only_the_scores_are_written(data_dir, tmp_path, angles):
    # Bug: --noreport ignored.
    run_evaluation(options(data_dir, tmp_path, report=False, splits=("test",)))
    assert sorted(os.listdir(tmp_path / "out")) == ["results.json", "table.md", "table.tex"]


CONFLICTS = [
    ({"encoder": None}, ConfigError, "either --workdir=DIR"),
    ({"workdir": "."}, ConfigError, "either --workdir=DIR"),
    ({"encoder": " "}, ConfigError, "--encoder is blank"),
    ({"step": 3}, ConfigError, "--step"),
    ({"max_length": 2}, ConfigError, "--max_length=2"),
    ({"tasks": ("sts11",)}, ConfigError, "--tasks: unknown sts11; known are stsb"),
    ({"tasks": ("stsb", "stsb")}, ConfigError, "named twice"),
    ({"tasks": ("stsb", "")}, ConfigError, "--tasks=stsb,: a name is blank"),
    ({"tasks": ("stsb",), "splits": ("",)}, DataError, "--splits=: stsb has no split ''; set"),
    ({"tasks": ("stsb",), "splits": ("test", "")}, DataError, "--splits=test,: stsb has no split"),
    ({"figure": ""}, ConfigError, "--figure is blank"),
    ({"data_dir": "~nosuchuser/x"}, ConfigError, "--data_dir=~nosuchuser/x: the home folder"),
    ({"output": "~nosuchuser/x"}, ConfigError, "--output=~nosuchuser/x: the home folder"),
    ({"figure": "~nosuchuser/x.png"}, ConfigError, "--figure=~nosuchuser"),
    ({"cache_dir": "~nosuchuser/x"}, ConfigError, "--cache_dir=~nosuchuser"),
    ({"encoder": None, "workdir": "~nosuchuser/x"}, ConfigError, "--workdir=~nosuchuser"),
    ({"data_dir": None}, ConfigError, "--tasks=sickr,stsb needs --data_dir"),
    ({"data_dir": "missing"}, DataNotFoundError, "missing: no such folder"),
    ({"tasks": ("sts12",)}, DataNotFoundError, "no data of sts12"),
    ({"tasks": ()}, DataNotFoundError, "no data of sts12"),
    ({"output": ""}, WorkdirError, "--output is blank"),
    ({"output": "data/SICK/SICK_test_annotated.txt"}, WorkdirError, "is a file"),
    ({"figure": "x.xyz"}, ConfigError, "'.xyz'"),
    ({"encoder": None, "workdir": "missing"}, DataNotFoundError, "--workdir=missing"),
    ({"encoder": None, "workdir": ""}, DataNotFoundError, "--workdir="),
    ({"encoder": None, "workdir": "data"}, DataNotFoundError, "no checkpoints/"),
    ({"encoder": None, "workdir": "data", "pooling": "cls"}, ConfigError, "--pooling goes with"),
]


@pytest.mark.parametrize(("fields", "kind", "message"), CONFLICTS)
def test_mistakes_are_found_before_a_model_is_loaded(
    data_dir, tmp_path, monkeypatch, fields, kind, message
):
    # Bug: found after minutes of loading and encoding, or a random flow scored.
    for source in ("encoder_source", "workdir_source"):
        monkeypatch.setattr(sources, source, lambda *args: pytest.fail("a model was loaded"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind) as caught:
        run_evaluation(options(data_dir, tmp_path, **fields))
    assert message in str(caught.value)
    assert isinstance(caught.value, BertFlowError)


def test_b03_missing_matplotlib_is_told_at_the_start(data_dir, tmp_path, monkeypatch):
    # Bug: ImportError after the scores.
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install matplotlib.*--noreport"):
        run_evaluation(options(data_dir, tmp_path))


@pytest.mark.parametrize(
    ("fields", "folder"),
    [
        ({"encoder": "org/name-v2", "pooling": "first_last"}, "runs/eval-name-v2-first_last"),
        ({"encoder": "mini_bert"}, "runs/eval-mini_bert"),
        ({"encoder": "./a b/c d/"}, "runs/eval-c-d"),
        ({"encoder": None, "workdir": "runs/x"}, str(Path("runs/x/eval"))),
        ({"encoder": "e", "output": "o"}, "o"),
    ],
)
def test_default_output(fields, folder):
    # Bug: results of two encoders or poolings in one folder.
    assert output_folder(EvalOptions(**fields)) == folder


def test_command_line_mistakes_exit_with_2_and_no_traceback(tmp_path):
    # Bug: absl exits with 1 for an unknown flag; "--report False" is taken for True.
    for arguments, message in [
        (["--bad"], "Unknown command line flag 'bad'"),
        (["--encoder=mini_bert", "--report", "False"], "unexpected argument 'False'"),
        (["--workdir=missing"], "--workdir=missing: no such folder"),
    ]:
        answer = evaluate_py(*arguments, cwd=tmp_path)
        assert answer.returncode == 2, answer.stderr
        assert answer.stderr.startswith("error: "), answer.stderr
        assert message in answer.stderr
        assert "Traceback" not in answer.stderr
        assert os.listdir(tmp_path) == []


def test_a_config_field_without_a_config_file(tmp_path):
    # Bug: "Unknown command line flag", of a flag that the README names.
    done = evaluate_py("--encoder=mini_bert", "--config.train.steps=5", cwd=tmp_path)
    assert done.returncode == 2
    assert "--config.train.steps=5 sets a field of a config file: give --config=FILE" in done.stderr
    done = evaluate_py("--encoder=mini_bert", "--nothing=5", cwd=tmp_path)
    assert "Unknown command line flag 'nothing'" in done.stderr


def step_line(step, examples=100, **fields):
    train = TrainConfig(batch_size=32, **fields.pop("train", {}))
    return captions.step_line(step, Config(train=train, **fields), examples)


def test_a_run_that_was_cut_off_is_told():
    # Bug: the scores of a killed run that look like those of a finished one.
    assert step_line(40, train={"steps": 300}) == "step 40 of 300 planned"
    assert step_line(3) == "step 3 of 3 planned"
    assert step_line(2, train={"epochs": 2.0}) == "step 2 of 6 planned"
    # Fewer examples than a batch make a batch of all of them.
    assert step_line(2, 10, train={"epochs": 5.0}) == "step 2 of 5 planned"
    held_out = DataConfig(held_out=0.1)
    assert step_line(2, data=held_out) == "step 2 of 2 planned, or a few more (data.held_out)"
    assert step_line(2, objective="joint") == "step 2"


def test_help_is_no_failure(tmp_path):
    # Bug: absl's --help exits with 1.
    answer = evaluate_py("--help", cwd=tmp_path)
    assert answer.returncode == 0
    assert "--data_dir" in answer.stdout


@pytest.mark.parametrize(
    ("raised", "code", "text"),
    [
        (WorkdirError("the folder is full"), 2, "error: the folder is full\n"),
        (DataNotFoundError("no file"), 2, "error: no file\n"),
        (None, 0, ""),
    ],
)
def test_exit_codes(monkeypatch, capsys, raised, code, text):
    # Bug: an error of ours with a traceback and exit code 1.
    def main():
        if raised is not None:
            raise raised

    monkeypatch.setattr(sys, "argv", ["program"])
    with pytest.raises(SystemExit) as caught:
        cli.run(main)
    assert (caught.value.code, capsys.readouterr().err) == (code, text)


# A process that was started in the background inherits SIGINT as ignored.
INTERRUPTED_PROGRAM = """
import signal
from bertflow_jax import cli
from bertflow_jax.config import Config, DataConfig, TrainConfig
signal.signal(signal.SIGINT, signal.default_int_handler)
def main():
    print("kept")
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        print("cleaned up")
cli.run(main)
"""


def test_ctrl_c_cleans_up_and_exits_with_130(tmp_path):
    # Bug: a traceback, an exit code of success, or output lost with the process.
    answer = run_program(INTERRUPTED_PROGRAM, cwd=tmp_path)
    assert answer.returncode == 130
    assert (answer.stdout, answer.stderr) == ("kept\ncleaned up\n", "interrupted\n")


CONFIG_PROGRAM = """
from ml_collections import config_flags
from bertflow_jax import cli
from bertflow_jax.config import Config, DataConfig, TrainConfig
config = config_flags.DEFINE_config_file("config")
cli.run(lambda: print(config.value.seed))
"""


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--config=good.py", "--config.seed=5"], 0, "5"),
        (["--config=good.py", "--config.train.sed=5"], 2, "unknown config field 'train.sed'"),
        (["--config=good.py", "--config.seed=x"], 2, "--config.seed=x"),
        (["--config=missing.py"], 2, "missing.py"),
        (["--config=missing.py", "--config.seed=5"], 2, "missing.py"),
        (["--config=."], 2, "is a folder"),
        (["--config=good.py", "--config.train.steps.x=1"], 2, "train.steps.x"),
        (["--config=good.py", "--config.data.path.x=1"], 2, "did you mean --config.data.path?"),
        (["--config=good.py", "--config.train.=1"], 2, "--config.train.=1: SyntaxError"),
        (["--config=good.py:x"], 2, "--config=good.py:x: TypeError"),
        (["--config=syntax.py"], 2, "syntax.py, line 2"),
        (["--config=without.py"], 2, "must define get_config()"),
        (["--config=raises.py"], 2, "ZeroDivisionError at raises.py, line 2"),
        (["--config=raises.py", "--config.seed=5"], 2, "ZeroDivisionError at raises.py, line 2"),
        (["--config=refused.py"], 2, "ConfigError at refused.py, line 3: train.steps=-1"),
    ],
)
def test_config_file_mistakes_exit_with_2(tmp_path, arguments, code, message):
    # Bug: ml_collections tells an unknown field or a broken file with a traceback.
    lines = ["from bertflow_jax.config import Config", "def get_config():", "    return Config()"]
    (tmp_path / "good.py").write_text("\n".join(lines))
    refused = [*lines[:2], "    Config(train=TrainConfig(steps=-1)).validate()"]
    refused[0] += ", TrainConfig"
    (tmp_path / "refused.py").write_text("\n".join(refused))
    (tmp_path / "syntax.py").write_text("a = 1\ndef get_config(:\n")
    (tmp_path / "without.py").write_text("a = 1\n")
    (tmp_path / "raises.py").write_text("def get_config():\n    return 1 / 0\n")
    answer = run_program(CONFIG_PROGRAM, *arguments, cwd=tmp_path)
    assert answer.returncode == code, answer.stderr
    assert message in answer.stdout + answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_terminal_that_cannot_show_a_character(tmp_path):
    # Bug: the last line of a long run, a path, ends in UnicodeEncodeError.
    program = "from bertflow_jax import cli; cli.run(lambda: print('runs/\\xe9\\udcff'))"
    answer = run_program(program, cwd=tmp_path, LC_ALL="C", PYTHONIOENCODING="ascii")
    assert (answer.returncode, answer.stdout) == (0, "runs/\\xe9\\udcff\n"), answer.stderr


def test_our_own_bugs_keep_their_traceback(monkeypatch):
    # Bug: a KeyError of ours told to the user as a mistake of theirs.
    def main():
        raise KeyError("spam")

    monkeypatch.setattr(sys, "argv", ["program"])
    with pytest.raises(KeyError):
        cli.run(main)
