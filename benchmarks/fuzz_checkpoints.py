"""Damaged runs, for `benchmarks.fuzz`: what is restored is a step that was saved, bit for bit.

A run of a small flow is saved at three steps, and of a copy of it one file is damaged, swapped with
another, or replaced by a folder or a link. It is then read as a user would: for embedding (the
newest good step, or a step by number), or trained on with `resume`, which must end with the
parameters of the run that nothing happened to.

orbax names its files anew in every run, so that one seed gives damage of the same kinds here and
not the same damage.
"""

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.fuzz_case import Case
from benchmarks.fuzz_files import change, replace, swap
from bertflow_jax.config import (
    CheckpointConfig,
    Config,
    DataConfig,
    EncoderConfig,
    FlowConfig,
    TrainConfig,
)
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.errors import BertFlowError
from bertflow_jax.restore import load_run
from bertflow_jax.training.run import train

_STEPS, _EVERY, _END = 6, 2, 8  # of the run, between two saves, and of the run that goes on
_SAVED = range(_EVERY, _STEPS + 1, _EVERY)
_RECORDS = ("metadata", "_METADATA", "_CHECKPOINT_METADATA")  # JSON
_LINES = [f"number {i} of the {word} lines" for i, word in enumerate(("big", "old", "new") * 3)]


def cases(folder: Path, rng: np.random.Generator) -> Iterator[Case]:
    """Yield damaged runs without end, each in a new folder inside `folder`."""
    folder.mkdir(exist_ok=True)
    (folder / "text.txt").write_text("\n".join(_LINES))
    good, whole = folder / "good", folder / "whole"
    train(_config(folder, _STEPS), good)
    train(_config(folder, _END), whole)
    contents = {step: _content(good, step) for step in _SAVED}
    known = {step: _parameters(load_run(good, step).flow) for step in _SAVED}
    final = _parameters(load_run(whole).flow)
    vectors = {step: SentenceEncoder.from_checkpoint(good, step).encode(_LINES) for step in _SAVED}
    for number in itertools.count():
        place = folder / "damaged"
        run = place / "run"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(good, run)
        what = _damage(run, rng)
        whole_steps = {step for step in _SAVED if _content(run, step) == contents[step]}
        match rng.integers(6):
            case 0:
                how, read = "resume", _resumes(folder, run, final)
            case 1 | 2:
                hurt = [step for step in _SAVED if step not in whole_steps] or list(_SAVED)
                step = hurt[rng.integers(len(hurt))]
                how, read = f"step {step}", _reads_step(run, step, known[step])
                whole_steps &= {step}
            case _:
                wanted = [vectors[step] for step in _SAVED if step >= max(whole_steps)]
                how, read = "newest", _reads_newest(run, wanted)
        yield Case(f"input {number}, {how}: {what}", _judged(read, run, bool(whole_steps)), place)


def _content(run: Path, step: int) -> dict[str, bytes]:
    folder = run / "checkpoints" / str(step)
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def _config(folder: Path, steps: int) -> Config:
    return Config(
        encoder=EncoderConfig(path="mini_bert"),
        flow=FlowConfig(levels=1, depth=1, width=4),
        data=DataConfig(path=str(folder / "text.txt"), held_out=0.0),
        train=TrainConfig(steps=steps, batch_size=4, log_every=1, tensorboard=False),
        checkpoint=CheckpointConfig(every=_EVERY, keep=9),
        cache_dir=str(folder / "cache"),
    )


def _damage(run: Path, rng: np.random.Generator) -> str:
    """Damage one file of a run, oftener one of its newest step, and say how."""
    files = sorted(path for path in run.rglob("*") if path.is_file())
    newest = [path for path in files if f"checkpoints/{_STEPS}/" in str(path)]
    chosen = newest if rng.random() < 0.7 else files
    file = chosen[rng.integers(len(chosen))]
    match rng.integers(16):
        case 0 | 1:
            return swap(file, files, run, rng)
        case 2:
            return replace(file, run, rng)
        case 3:
            step, other = rng.permutation(_SAVED)[:2]
            checkpoints = run / "checkpoints"
            shutil.rmtree(checkpoints / str(other))
            shutil.copytree(checkpoints / str(step), checkpoints / str(other))
            return f"step {other} is a copy of step {step}"
        case 4:
            folder = file.parent
            if folder != run:
                shutil.rmtree(folder)
                return f"{folder.relative_to(run)} is missing"
    return change(file, run, rng, "x.json" if file.name in _RECORDS else file.name)


def _parameters(flow: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(flow.variables)]


def _same(found: list[np.ndarray], wanted: list[np.ndarray]) -> bool:
    return len(found) == len(wanted) and all(map(np.array_equal, found, wanted))


def _judged(read: Callable[[], None], run: Path, whole: bool) -> Callable[[], None]:
    """Return `read`; where a step that it may use is whole, only metrics or lock may be refused."""
    others = (f"{run}/metrics.jsonl", f"--workdir={run}: {run}/.lock is not a lock of ours")

    def reads() -> None:
        try:
            read()
        except BertFlowError as error:
            text = str(error)
            refused = text.startswith(others) if whole else str(run) in text
            if not refused or "\n" in text:
                raise AssertionError(f"refused with: {text}") from error
            raise

    return reads


def _reads_newest(run: Path, wanted: list[np.ndarray]) -> Callable[[], None]:
    def read() -> None:
        found = SentenceEncoder.from_checkpoint(run).encode(_LINES)
        assert any(np.array_equal(found, vectors) for vectors in wanted), "other vectors"

    return read


def _reads_step(run: Path, step: int, wanted: list[np.ndarray]) -> Callable[[], None]:
    def read() -> None:
        found = load_run(run, step)
        assert found.step == step
        assert _same(_parameters(found.flow), wanted), "other parameters"

    return read


def _resumes(folder: Path, run: Path, final: list[np.ndarray]) -> Callable[[], None]:
    def read() -> None:
        train(_config(folder, _END), run, resume=True)
        assert _same(_parameters(load_run(run, _END).flow), final), "it went on from something else"

    return read
