"""Dev metrics: direction, best, patience, and the numbers themselves."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from bertflow_jax.config import Config, EncoderConfig, SupervisionConfig, TrainConfig
from bertflow_jax.data.supervision import LabelledPairs
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.training.order import ExampleOrder
from bertflow_jax.training.supervised_dev import BestDev, DevSet, is_better
from bertflow_jax.training.supervised_loop import run_supervised
from bertflow_jax.training.supervised_optimizer import split_params
from bertflow_jax.training.supervised_steps import SupervisedMetrics, SupervisedState

NAN = float("nan")


@pytest.mark.parametrize(
    ("metric", "values", "best"),
    [
        ("spearman", [0.5, 0.6, 0.7, 0.4, 0.3], 3),
        ("accuracy", [0.5, 0.4, 0.9, 0.9, 0.1], 3),
        ("loss", [0.5, 0.4, 0.9, 0.3, 0.6], 4),
        ("spearman", [-0.5, -0.2, -0.3], 2),
        ("loss", [NAN, 0.5, NAN], 2),
        ("spearman", [NAN, None, 0.1, NAN], 3),
        ("spearman", [NAN, None], None),
    ],
)
def test_direction(metric, values, best):
    """Case C06: higher is better for correlations and accuracy, lower for a loss; NaN never wins."""
    record = BestDev(metric)
    for step, value in enumerate(values, 1):
        record = record.after(value, step)
    assert record.step == best
    assert record.since == len(values) - (best or 0)
    if best is not None:
        assert record.value == values[best - 1]
    assert not is_better(metric, NAN, None)


def _loop(metric, values, patience, steps=20, eval_every=2):
    """Run the loop over steps that do nothing, with a dev metric that takes given values."""
    config = Config(
        objective="regression",
        supervision=SupervisionConfig(path="x", patience=patience),
        train=TrainConfig(steps=steps, eval_every=eval_every, log_every=100),
    )
    given = iter(values)
    saved = []
    one = np.float32(1)
    metrics = SupervisedMetrics(one, one, one, one, one, np.bool_(True))

    def step(state, batch):
        assert batch == int(state.step)
        return dataclasses.replace(state, step=state.step + 1), metrics

    result = run_supervised(
        config,
        ExampleOrder(20, 4, 0),
        lambda step: step,  # the loop does not look at batches
        step,
        SupervisedState(jnp.zeros((), jnp.int32), {}, {}, {}, {}),
        evaluate=lambda state: next(given),
        best=BestDev(metric),
        save=lambda state, best, value: saved.append((int(state.step), best.step)),
    )
    return result, saved


def test_patience_ends_the_run_in_the_right_direction():
    """The first value is that of the start. Falling loss goes on, falling Spearman ends."""
    falling = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.01]
    result, saved = _loop("spearman", falling, patience=2)
    assert (int(result.state.step), result.best.step, result.best.start) == (6, 2, 0.9)
    assert saved == [(2, 2), (6, 2)]
    result, _ = _loop("loss", falling, patience=2)
    assert (int(result.state.step), result.best.step) == (20, 20)
    result, _ = _loop("spearman", falling, patience=0)
    assert (int(result.state.step), result.best.step) == (20, 2)


def test_every_improvement_is_saved():
    """Without a checkpoint of the best step its encoder could not be written."""
    _, saved = _loop("spearman", [0, 0.1, 0.3, 0.2, 0.4, 0.1], patience=0, steps=10)
    assert saved == [(2, 2), (4, 4), (8, 8), (10, 8)]


@pytest.fixture(scope="module")
def dev():
    """(config, encoder, state with a head, texts, vectors u and v)."""
    encoder = SentenceEncoder.from_pretrained("mini_bert", pooling="mean")
    firsts = ["A dog runs.", "It rains.", "She reads a book.", "Two men talk."]
    seconds = ["A dog is running.", "The sun shines.", "A woman reads.", "No one speaks."]
    rng = np.random.default_rng(0)
    head = {
        "kernel": rng.normal(size=(3 * 256, 3)).astype(np.float32),
        "bias": rng.normal(size=3).astype(np.float32),
    }
    trained = split_params(encoder.encoder.params, encoder.encoder.pooling)
    params = {"encoder": trained, "head": head}
    state = SupervisedState(jnp.zeros((), jnp.int32), params, {}, {}, {})
    return encoder, state, firsts, seconds, encoder.encode(firsts), encoder.encode(seconds)


def _config(objective):
    return Config(
        objective=objective,
        encoder=EncoderConfig(path="mini_bert", pooling="mean"),
        supervision=SupervisionConfig(path="x"),
    )


def test_metrics_are_those_of_scipy_and_of_hand(dev):
    """Catches a metric on other rows, classes in another order, a loss over the wrong axis."""
    encoder, state, firsts, seconds, u, v = dev
    gold = np.array([0.9, 0.1, 0.6, 0.3], np.float32)
    scored = LabelledPairs(firsts, seconds, gold, {})
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(u, v, strict=True)]
    found = DevSet(_config("regression"), encoder, scored, "spearman")(state)
    assert abs(found - scipy.stats.spearmanr(cosines, gold).statistic) < 1e-12
    found = DevSet(_config("regression"), encoder, scored, "loss")(state)
    assert abs(found - np.mean((np.array(cosines) - gold) ** 2)) < 1e-5
    head = state.params["head"]
    logits = np.concatenate([u, v, np.abs(u - v)], 1) @ head["kernel"] + head["bias"]
    classes = LabelledPairs(firsts, seconds, np.array([2, 0, 1, 1], np.int32), {})
    logp = logits - scipy.special.logsumexp(logits, axis=1, keepdims=True)
    found = DevSet(_config("siamese"), encoder, classes, "loss")(state)
    np.testing.assert_allclose(found, -logp[np.arange(4), classes.targets].mean(), rtol=1e-4)
    right = LabelledPairs(firsts, seconds, logits.argmax(1).astype(np.int32), {})
    assert DevSet(_config("siamese"), encoder, right, "accuracy")(state) == 1.0
    one_wrong = dataclasses.replace(
        right, targets=(right.targets + np.eye(4, dtype=np.int32)[0]) % 3
    )
    assert DevSet(_config("siamese"), encoder, one_wrong, "accuracy")(state) == 0.75
