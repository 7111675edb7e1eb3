"""Kill a run again and again; what it ends with must be what an uninterrupted run ends with.

    python -m benchmarks.survive --kills=20 --signal=KILL|TERM --seed=0 [--steps=600]
                                 [--objective=flow|regression]

Fits a small flow on the bundled corpus with mini_bert, or trains mini_bert on a few scored pairs,
saved every few steps, once without a stop.
Then the same run again, which gets a signal at random moments: half of them while a save is under
way (its temporary folder is there), the others at a random time after its first line of metrics.
Each time it is resumed with --resume, until it has been stopped so often; the last one ends by
itself. Prints one line a kill and compares the parameters and optimiser states bit for bit; exit
code 1 where they differ, or where a process ends in another way than it should.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bertflow_jax.checkpoint import CheckpointStore

ROOT = Path(__file__).resolve().parents[1]
_EVERY = 4  # steps between two saves
_DELAY = 1.0  # seconds after the first metrics in which a random moment lies
_PAIRS = """sentence1\tsentence2\tlabel
A man sleeps.\tA person rests.\t4.5
A man sleeps.\tA man is awake.\t1
It rains.\tThe hills are green.\t2
A dog runs.\tAn animal moves.\t4
A dog runs.\tThe cat is asleep.\t1.5
Two men talk.\tNo one speaks.\t0.5
"""
# What a stopped process may end with: killed, or saved (75); TERM before the loop is a death (-15).
_ENDS = {"KILL": {-signal.SIGKILL}, "TERM": {75, -signal.SIGTERM}}


def command(workdir: Path, steps: int, cache: Path, objective: str) -> list[str]:
    """Return the command line of the run."""
    fields = {
        "objective": objective,
        "encoder.path": "mini_bert",
        "flow.levels": 2,
        "flow.depth": 2,
        "flow.width": 16,
        "flow.dropout": 0.1,
        "data.held_out": 0.1,
        "train.steps": steps,
        "train.log_every": 1,
        "train.tensorboard": False,
        "checkpoint.every": _EVERY,
        "checkpoint.keep": 2,
        "cache_dir": cache,
    }
    if objective != "flow":
        pairs = workdir.parent / "pairs.tsv"
        pairs.write_text(_PAIRS, "utf-8")
        fields |= {
            "supervision.path": pairs,
            "supervision.dev_path": pairs,
            "supervision.dev_metric": "spearman",
            "train.batch_size": 4,
        }
    flags = [f"--config.{name}={value}" for name, value in fields.items()]
    return [sys.executable, "train.py", "--config=configs/demo.py", f"--workdir={workdir}", *flags]


def digests(workdir: Path) -> tuple[int, dict[str, str]]:
    """Return the last step of a run and the digests of its arrays."""
    store = CheckpointStore(workdir)
    step = store.steps()[-1]
    return step, store.records(step).state["digests"]


def is_saving(workdir: Path) -> bool:
    """Return whether a save is under way: its temporary folder is there."""
    folder = workdir / "checkpoints"
    return folder.is_dir() and any("tmp" in path.name for path in folder.iterdir())


def steps_logged(workdir: Path) -> int:
    """Return how many lines of metrics there are."""
    path = workdir / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def newest(workdir: Path) -> int:
    """Return the newest complete step, 0 for none."""
    return max(CheckpointStore(workdir).steps(), default=0)


class Victim:
    """A run that is killed once."""

    def __init__(self, arguments: list[str], workdir: Path, name: str, rng: random.Random):
        self.in_save = rng.random() < 0.5
        self.moment = 0.0
        self._workdir, self._name = workdir, name
        self._delay = rng.uniform(0.0, _DELAY)
        resume = ["--resume"] if newest(workdir) else []
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            [*arguments, *resume], cwd=ROOT, stdout=quiet, stderr=subprocess.PIPE, text=True
        )

    def kill(self) -> tuple[int, str]:
        """Wait for the moment, kill; return exit code and stderr."""
        started = time.monotonic()
        before = steps_logged(self._workdir)
        while self._process.poll() is None and steps_logged(self._workdir) <= before:
            time.sleep(0.01)
        self._process_wait(self._delay)
        while self.in_save and self._process.poll() is None and not is_saving(self._workdir):
            time.sleep(0.0002)
        self.moment = time.monotonic() - started
        self._process.send_signal(getattr(signal, f"SIG{self._name}"))
        _, errors = self._process.communicate(timeout=120)
        return self._process.returncode, errors

    def _process_wait(self, seconds: float) -> None:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return


def finish(arguments: list[str]) -> None:
    """Run to the end; a run that fails is the end of the program, with its stderr."""
    done = subprocess.run(arguments, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"exit code {done.returncode}:\n{done.stderr}")


def survive(
    kills: int, name: str, seed: int, steps: int, folder: Path, objective: str = "flow"
) -> bool:
    """Run both; print a table; return whether everything is as it should be.

    An uninterrupted run of so many steps that lies in `folder` already is used again.
    """
    rng = random.Random(f"{seed} {name}")
    reference, stopped = folder / "reference", folder / name
    # Caches of their own: that embeddings come from one makes no difference.
    if not newest(reference):
        finish(command(reference, steps, folder / "cache-reference", objective))
    arguments = command(stopped, steps, folder / f"cache-{name}", objective)
    print(
        f"{objective}, SIG{name}: {kills} kills, seed {seed}, {steps} steps, saved every {_EVERY}"
    )
    print("kill  second  in a save  exit  steps logged  resumes from  left behind", flush=True)
    good = True
    for number in range(1, kills + 1):
        victim = Victim(arguments, stopped, name, rng)
        code, errors = victim.kill()
        left = ", ".join(sorted(_leftovers(stopped))) or "-"
        saving = "yes" if victim.in_save else "no"
        print(
            f"{number:4d}  {victim.moment:6.2f}  {saving:>9}  {code:4d}  "
            f"{steps_logged(stopped):12d}  {newest(stopped):12d}  {left}",
            flush=True,
        )
        if code not in _ENDS[name]:
            print(f"ended with {code}, not with {sorted(_ENDS[name])}; its stderr:\n{errors}")
            if code != 0:
                return False
            print("the run was over before: raise --steps")
            good = False
            break
    finish([*arguments, *(["--resume"] if newest(stopped) else [])])
    ours, theirs = digests(stopped), digests(reference)
    print(f"step {ours[0]} of {theirs[0]}: {'equal' if ours == theirs else 'DIFFERENT'}")
    return good and ours == theirs and not _leftovers(stopped)


def _leftovers(workdir: Path) -> list[str]:
    folder = workdir / "checkpoints"
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return [name for name in names if not name.isdigit() and not name.endswith(".passed_over")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--kills", type=int, default=20, help="how often the run is killed; default: %(default)s"
    )
    parser.add_argument(
        "--signal", choices=sorted(_ENDS), default="KILL", help="what it gets; default: %(default)s"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the random moments; default: %(default)s"
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=600,
        help="of the run; more for more kills; default: %(default)s",
    )
    parser.add_argument(
        "--objective",
        choices=("flow", "regression"),
        default="flow",
        help="what is trained; default: %(default)s",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bertflow-survive-") as folder:
        fine = survive(
            options.kills,
            options.signal,
            options.seed,
            options.steps,
            Path(folder),
            options.objective,
        )
    raise SystemExit(0 if fine else 1)


if __name__ == "__main__":
    main()
