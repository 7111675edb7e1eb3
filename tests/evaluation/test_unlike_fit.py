"""A post-processor of another pooling is noticed by what it makes of the vectors."""

import pytest

from bertflow_jax import NATSV, Compose, Flow, SentenceEncoder, Whitening
from bertflow_jax.config import FlowConfig, TrainConfig
from bertflow_jax.data.sts import load_task
from bertflow_jax.evaluation.metrics import mean_random_cosine
from bertflow_jax.evaluation.sources import tell_unlike


@pytest.fixture(scope="module")
def vectors():
    texts = load_task("everyday").sentences
    return {
        pooling: SentenceEncoder.from_pretrained("mini_bert", pooling).encode(texts)
        for pooling in ("first_last", "mean", "cls")
    }


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (Whitening, True),
        (lambda: Flow(FlowConfig(levels=1, depth=2, width=8), train=TrainConfig(epochs=3)), True),
        # What these leave of one pooling and of another lies too close together (docs).
        (lambda: Whitening(k=64), False),
        (lambda: Whitening(alpha=0.5), False),
        (NATSV, False),
        (lambda: Compose([NATSV()]), False),
    ],
)
def test_a_mean_cosine_that_is_none_of_the_fit(make, told, vectors, caplog):
    """Bug: `--flow=whitening` without its `--pooling` scored below raw without a word."""
    fitted = make().fit(vectors["first_last"])
    for pooling, found in vectors.items():
        caplog.clear()
        cosine = mean_random_cosine(fitted.transform(found))
        tell_unlike(fitted, {"raw": 0.9, fitted.name: cosine})
        assert ("and of this pooling?" in caplog.text) == (told and pooling != "first_last")


def test_nothing_is_said_of_nothing(caplog):
    fitted = Whitening().fit([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    caplog.clear()
    tell_unlike(None, {"raw": 0.9})
    tell_unlike(fitted, {"raw": 0.9, "whitening": None})
    assert not caplog.records
