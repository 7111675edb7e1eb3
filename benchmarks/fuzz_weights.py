"""Damaged weights of every format, for `benchmarks.fuzz`.

One format a turn: a good folder of it is copied, one of its files is damaged, swapped with another,
replaced by another format's or by a folder or a link, and the reader that a user would call reads
it. What reads must be finite and of the shapes that its config says; an error must name a file.
"""

import contextlib
import dataclasses
import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.fuzz import tree
from benchmarks.fuzz_case import Case
from benchmarks.fuzz_files import change, replace, swap
from benchmarks.fuzz_weight_folders import ENCODERS, PROCESSORS, write_good
from bertflow_jax.convert.run import ConvertOptions, run_convert
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.encoder import init_params
from bertflow_jax.errors import BertFlowError, InputError, UnsupportedModelError
from bertflow_jax.postprocess import load
from bertflow_jax.postprocess.base import PostProcessor

_TEXTS = ["the dog", "a b c."]


def cases(folder: Path, rng: np.random.Generator) -> Iterator[Case]:
    """Yield damaged inputs without end, each in a new folder inside `folder`."""
    good = folder / "good"
    formats = write_good(good)
    for kind in formats:  # what could not be read whole would only be refused
        with contextlib.suppress(*[UnsupportedModelError] * (kind == "dense")):
            _reader(kind, good / kind)()
    for number, kind in enumerate(itertools.cycle(formats)):
        place = folder / "damaged"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(good / kind, place)
        what = _damage(place, good, rng)
        yield Case(f"input {number}, {kind}: {what}", _reader(kind, place), place)


def _damage(place: Path, good: Path, rng: np.random.Generator) -> str:
    """Damage one file of a folder and say how."""
    files = sorted(path for path in place.rglob("*") if path.is_file())
    weights = [path for path in files if path.suffix not in (".json", ".txt")]
    # Every second one is of the weights themselves, however many other files there are.
    chosen = weights if rng.random() < 0.5 else files
    file = chosen[rng.integers(len(chosen))]
    others = sorted(path for path in good.rglob("*") if path.is_file())
    match rng.integers(20):
        case 0:
            other = others[rng.integers(len(others))]
            shutil.copyfile(other, file)
            return f"{file.relative_to(place)} is {other.relative_to(good)}"
        case 1:
            return swap(file, files, place, rng)
        case 2:
            return replace(file, place, rng)
    return change(file, place, rng, file.name)


def _reader(kind: str, place: Path) -> Callable[[], object]:
    read = _read_encoder if kind in ENCODERS else _read_processor
    if kind not in (*ENCODERS, *PROCESSORS):
        read = _convert

    def reads_only() -> None:
        before = tree(place)
        try:
            read(place)
        except BertFlowError as error:
            # A vocabulary that is too long is found by the row of a text that needs it.
            names = {place.name, "row 0:", *(path.name for path in place.rglob("*"))}
            if not any(name in str(error) for name in names):
                raise AssertionError(f"no file is named: {error}") from error
            raise
        finally:
            shutil.rmtree(place / "output", ignore_errors=True)
            changed = sorted(set(before.items()) ^ set(tree(place).items()))
            if changed:
                raise AssertionError(f"the input was written to: {changed}")

    return reads_only


def _read_encoder(place: Path) -> None:
    model = SentenceEncoder.from_pretrained(place)
    encoder = model.encoder
    pooler = "pooler" in encoder.params
    made = jax.eval_shape(lambda key: init_params(encoder.config, key, pooler), jax.random.key(0))
    _check_tree(encoder.params, made)
    ids, mask = model.tokenize(_TEXTS)
    assert ids.shape == mask.shape == (2, ids.shape[1])
    assert ids.dtype == np.int32
    if model.processor is not None:
        _check_processor(model.processor)


def _read_processor(place: Path) -> None:
    _check_processor(load(place))


def _convert(place: Path) -> None:
    options = ConvertOptions(output=str(place / "output"), do_lower_case=True)
    given = "flow" if (place / "glow.bin").exists() else "checkpoint"
    if given == "flow":
        options = dataclasses.replace(options, do_lower_case=None)
    imported = run_convert(dataclasses.replace(options, **{given: str(place)}))
    if imported.flow is not None:
        _check_processor(imported.flow)
        _check_processor(load(place / "output" / "flow"))
    if imported.encoder is not None:
        _check_tree(imported.encoder.params, imported.encoder.params)


def _check_processor(processor: PostProcessor) -> None:
    features, out = processor.features, processor.latent_features
    assert isinstance(features, int)
    assert isinstance(out, int)
    assert features >= out >= 1
    rows = np.random.default_rng(0).normal(size=(3, features)).astype(np.float32)
    pure = processor.pure()
    _check_tree(pure.params, pure.params)
    # Not compiled, which would take longer than all else.
    with contextlib.suppress(InputError), jax.disable_jit():
        assert np.shape(pure.transform(pure.params, jnp.asarray(rows))) == (3, out)


def _check_tree(found: object, expected: object) -> None:
    """Raise AssertionError unless two trees have the same shapes and the first is finite."""
    assert jax.tree.map(np.shape, found) == jax.tree.map(np.shape, expected), "shapes"
    for leaf in jax.tree.leaves(found):
        assert np.isfinite(np.asarray(leaf, np.float64)).all(), "a number that is not finite"
