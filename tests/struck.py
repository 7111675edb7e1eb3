"""Commands that a signal strikes at a known point: the process strikes itself, so time is no matter.

A point is `import NAME` (as that module begins to load), `rename PIECE` (before a file or folder
with this in its name is moved to its place) or `call MODULE:NAME` (as that function is called).
"""

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What a shell sees as 130 and 143, with all that may be said.
ENDS = {signal.SIGINT: (130, ["interrupted"]), signal.SIGTERM: (-signal.SIGTERM, [])}
# What came before the signal: bars, log lines, Ray's word on every pool of workers.
_BEFORE = re.compile(
    r".*\d+%\|.*|.*\[\d\d:\d\d.*|[IW]\d{4} .*|(INFO|WARNING):.*|<frozen runpy>.*|\[.* core_worker.*"
)
_PROGRAM = """
import functools, importlib, runpy, signal, sys
number, kind, what, module, *arguments = sys.argv[1:]
# A suite in the background of a shell is started with Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
left = [1]
def strike():
    if left:
        left.clear()
        signal.raise_signal(int(number))
if kind == "call":
    place, _, path = what.partition(":")
    *owners, name = path.split(".")
    owner = functools.reduce(getattr, owners, importlib.import_module(place))
    real = getattr(owner, name)
    @functools.wraps(real)
    def struck(*args, **kwargs):
        strike()
        return real(*args, **kwargs)
    setattr(owner, name, struck)
else:
    event = {"import": "import", "rename": "os.rename"}[kind]
    def hook(found, args):
        if found == event and (args[0] == what or kind == "rename" and what in str(args[0])):
            strike()
    sys.addaudithook(hook)
sys.argv[1:] = arguments
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def environment(cwd: Path, **more: str) -> dict[str, str]:
    """Return the environment of a command whose temporary files go to cwd.tmp."""
    temporary = cwd.with_suffix(".tmp")
    temporary.mkdir(exist_ok=True)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
    ours = {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "TMPDIR": str(temporary)}
    return {**clean, **ours, "STRUCK_MARK": uuid.uuid4().hex, **more}


def start(words: list[str], cwd: Path, env: dict[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ended(
    process: "subprocess.Popen[str]", cwd: Path, env: dict[str, str]
) -> tuple[int, list[str]]:
    """Return the exit code and what was said; nothing temporary and no process may be left."""
    _, err = process.communicate(timeout=200)
    said = [line for line in re.split("[\r\n]+", err) if line and not _BEFORE.fullmatch(line)]
    assert not gone(env["STRUCK_MARK"]), "a process is left"
    temporary = [path.name for path in cwd.with_suffix(".tmp").iterdir()]
    assert [name for name in temporary if name != "ray"] == []
    return process.returncode, said


def gone(mark: str) -> list[str]:
    """Wait until no process has the mark in its environment; return those that stay."""
    for _ in range(100):
        found = [
            path.parent.name for path in Path("/proc").glob("[0-9]*/environ") if _has(path, mark)
        ]
        if not found:
            break
        time.sleep(0.1)
    return found


def _has(path: Path, mark: str) -> bool:
    try:
        return mark.encode() in path.read_bytes()
    except OSError:  # it has ended, or is another user's
        return False


def struck(number: int, point: str, module: str, *arguments: str, cwd: Path, **more: str):
    """Run a command that is struck; return its exit code and the lines that it said."""
    env = environment(cwd, **more)
    kind, _, what = point.partition(" ")
    words = ["-c", _PROGRAM, str(int(number)), kind, what, module, *arguments]
    return ended(start(words, cwd, env), cwd, env)


def whole(module: str, *arguments: str, cwd: Path, **more: str) -> None:
    """Run a command to its end."""
    env = environment(cwd, **more)
    code, said = ended(start(["-m", module, *arguments], cwd, env), cwd, env)
    assert code == 0, said


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return everything in a folder: name -> bytes, None of a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }
