"""An encoder or a flow in another process: a fork is refused instead of hanging, spawn works."""

import multiprocessing
import os
import pickle
import signal
import time
import traceback

import jax
import numpy as np
import pytest

from bertflow_jax import (
    Compose,
    Flow,
    FlowConfig,
    SentenceEncoder,
    Standardize,
    TrainConfig,
    Whitening,
)
from bertflow_jax.errors import InputError

TEXTS = ["A cat sleeps.", "Two dogs run in the park.", ""]
U = np.random.default_rng(0).normal(size=(64, 256)).astype(np.float32)
PROCESSORS = {
    "none": None,
    "flow": Flow(FlowConfig(levels=1, depth=1, width=2), train=TrainConfig(steps=2)),
    "whitening": Whitening(k=3),
    "compose": Compose([Standardize(), Whitening(k=4)]),
}


@pytest.fixture(scope="module")
def encoder():
    made = SentenceEncoder.from_pretrained("mini_bert", max_length=32)
    made.encode(TEXTS)
    return made


def said_in_a_fork(call):
    """Return what a call raises in a forked process, or its repr; fail where it hangs."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = f"gave {call()!r}"
        except InputError as error:
            text = f"InputError: {error}"
        except BaseException:
            text = traceback.format_exc()
        os.write(writing, text.encode()[:4000])
        os._exit(0)
    os.close(writing)
    until = time.monotonic() + 20
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(reading)
            pytest.fail("hangs in a fork")
        time.sleep(0.02)
    with os.fdopen(reading) as stream:
        return stream.read()


@pytest.fixture(scope="module")
def flow():
    return Flow(FlowConfig(levels=1, depth=1, width=2), train=TrainConfig(steps=2)).fit(U)


@pytest.mark.parametrize(
    "what",
    [
        *("encode", "stream", "load", "warmup", "transform", "log_prob", "sample", "fit", "pure"),
        *("embed_fn", "flow's function", "whitening's function", "distribution", "load a flow"),
    ],
)
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_is_refused(what, encoder, flow, tmp_path):
    """It hung for ever: JAX's threads are not in the fork. A flow was called damaged there."""
    flow.save(tmp_path)
    ids, mask = encoder.tokenize(TEXTS)
    key = jax.random.key(0)
    white = Whitening(k=3).fit(U)
    pure, affine = flow.pure(), white.pure()
    calls = {
        "encode": lambda: encoder.encode(TEXTS),
        "stream": lambda: next(encoder.encode_stream(TEXTS)),
        "load": lambda: SentenceEncoder.from_pretrained("mini_bert"),
        "warmup": encoder.warmup,
        "transform": lambda: flow.transform(U),
        "log_prob": lambda: flow.log_prob(U),
        "sample": lambda: flow.sample(key, 2),
        "fit": lambda: Flow().fit(U),
        "pure": lambda: encoder.with_postprocess(white),
        "embed_fn": lambda: encoder.embed_fn(encoder.params, ids, mask),
        "flow's function": lambda: pure.transform(pure.params, U),
        "whitening's function": lambda: affine.transform(affine.params, U),
        "distribution": lambda: flow.distribution,
        "load a flow": lambda: Flow.load(tmp_path),
    }
    said = said_in_a_fork(calls[what])
    assert said.startswith("InputError: process "), said
    assert "'spawn'" in said


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_what_is_numpy_works_in_a_fork(flow):
    white = Whitening(k=3).fit(U)
    here = float(white.transform(U).sum())
    said = said_in_a_fork(lambda: float(Whitening(k=3).fit(U).transform(U).sum()))
    assert said == f"gave {here!r}"


def _encode(made):
    return made.encode(TEXTS), made.describe()


@pytest.fixture(scope="module")
def pool():
    with multiprocessing.get_context("spawn").Pool(1) as workers:
        yield workers


@pytest.mark.parametrize("kind", PROCESSORS)
def test_a_pickled_encoder_gives_the_same_vectors(kind, encoder, pool):
    """AttributeError: Can't pickle local object; so no process could be given an encoder."""
    processor = PROCESSORS[kind]
    made = encoder if processor is None else encoder.with_postprocess(processor.fit(U))
    vectors, described = pool.apply_async(_encode, (made,)).get(timeout=120)
    np.testing.assert_array_equal(vectors, made.encode(TEXTS))
    assert described == made.describe()
    again = pickle.loads(pickle.dumps(made))
    assert repr(again) == repr(made)
    assert type(again.processor) is type(processor)
