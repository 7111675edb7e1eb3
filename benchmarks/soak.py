"""Does anything grow in a long run? Memory, open files, threads, compiled programs.

    python -m benchmarks.soak [--minutes=30] [--cycles=200] [--encoder=mini_bert] [--seed=0]

First `encode`, for so many minutes: calls with 1 to 512 texts of 0 to 400 words, six batch sizes,
with and without a flow behind the encoder. Every row must be finite, and a probe of 32 texts,
embedded again and again, must give the vectors of the start to 1e-5.

Then cycles of a run: fit a flow anew in the same workdir, save, resume to twice the steps, save,
restore, embed. The flow restored must be the one trained: its parameters are compared bit for bit.

Prints a line at intervals and a verdict; exit code 1 where something has grown after the warm-up:
a program compiled, a file or a thread more than before, or resident memory of the last third above
that of the second by more than --tolerance: a save costs some 0.03 MB that TensorStore keeps.
"""

import argparse
import ctypes
import gc
import logging
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from bertflow_jax import Config, Flow, SentenceEncoder
from bertflow_jax.config import (
    CheckpointConfig,
    DataConfig,
    EncoderConfig,
    FlowConfig,
    TrainConfig,
)
from bertflow_jax.restore import load_run
from bertflow_jax.training.run import train

_BATCH_SIZES = (None, 8, 32, 64, 128, 256)
_SAMPLES = 60  # lines of a phase, about
FLOW = FlowConfig(levels=2, depth=2, width=16)
_STEPS = 20
_compiled = 0


def _count(event: str, _seconds: float, **_: object) -> None:
    global _compiled
    _compiled += event == "/jax/core/compile/backend_compile_duration"


@dataclass(frozen=True)
class Sample:
    """What the process holds at one moment."""

    rss: float  # MB, resident
    files: int  # open descriptors
    threads: int
    compiled: int  # programs, since the start

    @classmethod
    def now(cls) -> "Sample":
        """Return what there is once garbage is collected and freed memory given back."""
        gc.collect()
        # Else what lies free between blocks in use counts, which is other at every moment.
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        files = len(os.listdir("/proc/self/fd"))
        return cls(
            pages * os.sysconf("SC_PAGE_SIZE") / 1e6, files, threading.active_count(), _compiled
        )


def grown(samples: list[Sample], tolerance: float) -> list[str]:
    """Return what has grown between the thirds of some samples, in words.

    The first third is the warm-up: what is compiled, opened and started there does not count.
    """
    third = len(samples) // 3
    if third < 1:
        return [f"only {len(samples)} samples: raise --minutes or --cycles"]
    middle, last = samples[third : 2 * third], samples[2 * third :]
    found = []
    for name in ("compiled", "files", "threads"):
        before, after = (max(getattr(s, name) for s in part) for part in (middle, last))
        if after > before or (name == "compiled" and after > samples[third - 1].compiled):
            found.append(f"{name}: {before} in the middle, {after} at the end")
    before, after = (statistics.median(s.rss for s in part) for part in (middle, last))
    if after > before * (1 + tolerance):
        found.append(f"memory: {before:.0f} MB in the middle, {after:.0f} MB at the end")
    return found


class Log:
    """The samples of a phase, printed as they come."""

    def __init__(self, name: str, unit: str):
        self.samples: list[Sample] = []
        self._started = time.monotonic()
        print(f"{name}\n  minute  {unit:>8}  memory MB  files  threads  compiled", flush=True)

    def take(self, done: int) -> None:
        """Add what there is after so many calls or cycles."""
        now = Sample.now()
        self.samples.append(now)
        minute = (time.monotonic() - self._started) / 60
        print(
            f"  {minute:6.1f}  {done:8d}  {now.rss:9.1f}  {now.files:5d}  {now.threads:7d}  "
            f"{now.compiled:8d}",
            flush=True,
        )

    def verdict(self, tolerance: float) -> bool:
        """Print and return whether nothing has grown."""
        found = grown(self.samples, tolerance)
        print("  grown: " + "; ".join(found) if found else "  nothing has grown", flush=True)
        return not found


def texts(rng: np.random.Generator, count: int, longest: int) -> list[str]:
    """Return texts of random words, most of them short, as a corpus has them."""
    sizes = np.minimum(rng.geometric(1 / 14, count) - 1, longest)
    sizes[rng.random(count) < 0.02] = longest
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    return [
        " ".join("".join(rng.choice(letters, rng.integers(1, 9))) for _ in range(size))
        for size in sizes
    ]


def _calls(name: str, seed: int) -> Iterator[None]:
    """Make one call of `encode` at a time, for ever."""
    rng = np.random.default_rng(seed)
    raw = SentenceEncoder.from_pretrained(name)
    probe = texts(rng, 32, 60)
    flow = Flow(FLOW, train=TrainConfig(steps=_STEPS)).fit(raw.encode(texts(rng, 512, 30)))
    encoders = (raw, raw.with_postprocess(flow))
    for encoder in encoders:
        for size in _BATCH_SIZES:
            encoder.warmup(size)
    expected = [encoder.encode(probe) for encoder in encoders]
    for number in range(1 << 62):
        which = number % len(encoders)
        size = _BATCH_SIZES[rng.integers(len(_BATCH_SIZES))]
        count = int(2 ** rng.uniform(0, 9))
        vectors = encoders[which].encode(
            texts(rng, count, 400), batch_size=size, on_overflow="ignore"
        )
        if vectors.shape != (count, raw.dimension) or not np.isfinite(vectors).all():
            raise SystemExit(f"call {number}: {vectors.shape}, or not finite")
        if number % 50 < len(encoders):
            again = encoders[which].encode(probe, batch_size=size)
            scale = np.abs(expected[which]).max()
            if (off := np.abs(again - expected[which]).max() / scale) > 1e-5:
                raise SystemExit(f"call {number}: the probe's vectors are off by {off:.1e}")
        yield


def soak_encode(name: str, minutes: float, seed: int, tolerance: float) -> bool:
    """Encode for so long; return whether nothing has grown."""
    log = Log(f"encode, {name}", "calls")
    calls = _calls(name, seed)
    next(calls)  # loads and compiles
    started = time.monotonic()
    for done, _ in enumerate(calls, start=2):
        passed = (time.monotonic() - started) / 60
        if passed >= minutes * len(log.samples) / _SAMPLES:
            log.take(done)
        if passed >= minutes:
            return log.verdict(tolerance)
    raise AssertionError("the calls do not end")


def prepare_cycle(name: str, folder: Path) -> Callable[[int], None]:
    """Return a function that trains, resumes, restores and embeds; it ends where they disagree."""
    rng = np.random.default_rng(0)
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join(t or "a" for t in texts(rng, 300, 30)) + "\n", "utf-8")
    probe = texts(rng, 8, 30)

    def cycle(number: int) -> None:
        for steps, switch in ((_STEPS, "overwrite"), (2 * _STEPS, "resume")):
            config = Config(
                seed=number,
                encoder=EncoderConfig(path=name, pooling="first_last"),
                data=DataConfig(path=str(corpus), held_out=0.1),
                flow=FLOW,
                train=TrainConfig(steps=steps, batch_size=32, log_every=5),
                checkpoint=CheckpointConfig(every=10, keep=2),
                cache_dir=str(folder / "cache"),
            )
            result = train(config, folder / "run", **{switch: True})
        run = load_run(folder / "run")
        same = jax.tree.map(np.array_equal, run.flow.variables, result.state.variables)
        vectors = run.encoder.with_postprocess(run.flow).encode(probe)
        if not all(jax.tree.leaves(same)) or not np.isfinite(vectors).all():
            raise SystemExit(f"cycle {number}: the flow restored is not the one trained")

    return cycle


def soak_cycles(name: str, cycles: int, tolerance: float) -> bool:
    """Train, save and restore so often; return whether nothing has grown."""
    log = Log(f"train, save, resume, restore, embed, {name}", "cycles")
    with tempfile.TemporaryDirectory(prefix="bertflow-soak-") as folder:
        cycle = prepare_cycle(name, Path(folder))
        for number in range(1, cycles + 1):
            cycle(number)
            if number % max(1, cycles // _SAMPLES) == 0:
                log.take(number)
    return log.verdict(tolerance)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--minutes", type=float, default=30, help="of encode calls; default: %(default)s"
    )
    parser.add_argument(
        "--cycles", type=int, default=200, help="of train, save, restore; default: %(default)s"
    )
    parser.add_argument(
        "--encoder", default="mini_bert", help="folder or Hub id; default: %(default)s"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the calls; default: %(default)s")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.03,
        help="by which memory may differ between the thirds; default: %(default)s",
    )
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # that 20 steps are few, in every cycle
    jax.monitoring.register_event_duration_secs_listener(_count)
    fine = True
    if options.minutes > 0:
        fine &= soak_encode(options.encoder, options.minutes, options.seed, options.tolerance)
    if options.cycles > 0:
        fine &= soak_cycles(options.encoder, options.cycles, options.tolerance)
    raise SystemExit(0 if fine else 1)


if __name__ == "__main__":
    main()
