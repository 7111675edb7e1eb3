"""What a long run must not do: grow. The long run itself is benchmarks/soak.py."""

import dataclasses

import jax
import numpy as np
import pytest

from benchmarks import soak
from bertflow_jax import Compose, Flow, SentenceEncoder, TrainConfig, Whitening
from bertflow_jax.encoder.hub import MINI_BERT

_SAMPLE = soak.Sample(rss=500.0, files=8, threads=3, compiled=20)


@pytest.fixture
def compiled():
    """The names of what is compiled, or read from the cache of compiled programs."""
    names = []

    def listen(event: str, _seconds: float, fun_name: str = "", **_: object) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(fun_name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    jax.monitoring.unregister_event_duration_listener(listen)


def test_a_second_run_of_the_same_shapes_compiles_nothing(tmp_path, compiled):
    """A program for every fit and for every flow loaded filled the memory of long processes."""
    cycle = soak.prepare_cycle(MINI_BERT, tmp_path)
    cycle(1)
    assert compiled
    cycle(2)  # what only an overwrite does
    compiled.clear()
    cycle(3)
    assert compiled == []


def test_encoders_with_equal_post_processors_share_what_is_compiled(compiled):
    """Each with_postprocess made a function of its own, so the encoder was compiled once more."""
    raw = SentenceEncoder.from_pretrained(MINI_BERT)
    texts = [f"{a} {b}" for a in ("red", "green", "dry", "wide") for b in ("sea", "hill", "road")]
    u = raw.encode(texts)
    rng = np.random.default_rng(0)
    train, results = TrainConfig(steps=1), []
    for _ in range(2):
        compiled.clear()
        rows = rng.normal(size=(40, 256)).astype(np.float32)
        chain = Compose([Whitening(k=16), Flow(soak.FLOW, train=train)]).fit(rows)
        vectors = raw.with_postprocess(chain).encode(texts)
        np.testing.assert_allclose(vectors, chain.transform(u), rtol=1e-4, atol=1e-4)
        results.append(vectors)
    assert compiled == []
    assert np.abs(results[0] - results[1]).max() > 0.1, "the parameters are not shared"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({}, None),
        ({"rss": 540.0}, "memory"),
        ({"files": 9}, "files"),
        ({"threads": 4}, "threads"),
        ({"compiled": 21}, "compiled"),
    ],
)
def test_growth_is_told_from_warm_up(change, word):
    """A limit on the whole run would take the warm-up for growth, or hide growth behind it."""
    cold = soak.Sample(rss=100.0, files=4, threads=1, compiled=5)
    end = dataclasses.replace(_SAMPLE, **change)
    found = soak.grown([cold, _SAMPLE, _SAMPLE, _SAMPLE, end, end], tolerance=0.02)
    assert [text.split(":")[0] for text in found] == ([word] if word else [])
    assert soak.grown([cold, end], 0.02)[0].startswith("only 2 samples")
