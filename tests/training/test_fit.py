"""The fit: preparation of the data, reproducibility, constant dimensions, non-finite losses."""

import dataclasses
import signal

import jax
import numpy as np
import pytest
from reference_flows import max_difference

from bertflow_jax.config import Config, FlowConfig, TrainConfig
from bertflow_jax.errors import InputError, TrainingError
from bertflow_jax.flow import glow
from bertflow_jax.training.fit import (
    init_sentences,
    initial_state,
    prepare_data,
    spread_constant_dimensions,
)
from bertflow_jax.training.loop import run_fit
from bertflow_jax.training.steps import FitState

FLOW = FlowConfig(levels=2, depth=1, width=4)


def _embeddings(rows=60, dims=8, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(rows, dims)) @ rng.normal(size=(dims, dims)) + 1.0).astype(np.float32)


def _config(steps, flow=FLOW, **train):
    fields = {"steps": steps, "batch_size": 8, "learning_rate": 1e-2, **train}
    return Config(flow=flow, train=TrainConfig(**fields))


def _data(held_out=0.0, pairs=True):
    rows = np.arange(60, dtype=np.int32).reshape(30, 2) if pairs else np.arange(60)[:, None]
    return prepare_data(_embeddings(), rows, held_out=held_out, seed=0)


class Recorder:
    """A sink that keeps what it is given."""

    def __init__(self):
        self.lines = []

    def write(self, step, values):
        self.lines.append((step, values))


@pytest.fixture(scope="module")
def straight():
    """20 steps in one go, with the metrics of every step."""
    config, data, sink = _config(20, log_every=1), _data(), Recorder()
    result = run_fit(config, data, initial_state(config, data), sink=sink)
    return result, sink.lines


def test_same_seed_gives_the_same_bits(straight):
    """Any dependence on time, threads or Python's hash seed would show here."""
    config, data = _config(20), _data()
    again = run_fit(config, data, initial_state(config, data)).state
    assert max_difference(again, straight[0].state) == 0.0


def test_another_seed_gives_other_parameters(straight):
    """A seed that is not passed on would make seeds 0, 1, 2 one and the same run."""
    config, data = _config(20), _data()
    config.seed = 1
    other = run_fit(config, data, initial_state(config, data)).state
    assert max_difference(other.variables, straight[0].state.variables) > 1e-4


def test_stopping_and_going_on_changes_nothing(straight):
    """10 steps, a fresh process's state, 10 more: bit-identical to 20 steps, metrics too."""
    data, sink = _data(), Recorder()
    half = run_fit(_config(10), data, initial_state(_config(10), data)).state
    copied = jax.tree.map(lambda leaf: np.array(leaf), half)
    resumed = FitState(copied.step, copied.variables, copied.opt_state)
    whole = run_fit(_config(20, log_every=1), data, resumed, sink=sink).state
    assert max_difference(whole, straight[0].state) == 0.0
    losses = [values["bits_per_dim"] for _, values in straight[1]]
    assert [values["bits_per_dim"] for _, values in sink.lines] == losses[10:]


def test_loss_falls_and_its_parts_add_up(straight):
    """The two parts of bits/dim are reported apart and are those of the total."""
    lines = straight[1]
    assert [step for step, _ in lines] == list(range(1, 21))
    losses = [values["bits_per_dim"] for _, values in lines]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.05
    for _, values in lines:
        parts = values["prior_bits_per_dim"] + values["log_det_bits_per_dim"]
        assert values["bits_per_dim"] == pytest.approx(parts, abs=1e-5)


def test_a_pair_counts_twice():
    """The released objective adds the losses of a pair's sentences: twice the gradient."""
    config = _config(1, log_every=1)
    rows = np.asarray([[0, 1], [2, 3]] * 4, np.int32)
    norms = []
    for examples in (rows, rows.reshape(-1, 1)):
        data, sink = prepare_data(_embeddings(), examples, held_out=0.0, seed=0), Recorder()
        state = initial_state(_config(1), _data())
        config.train.batch_size = len(examples)
        run_fit(config, data, state, sink=sink)
        norms.append(sink.lines[0][1]["grad_norm"])
    assert norms[0] == pytest.approx(2 * norms[1], rel=1e-4)


def test_held_out_examples_are_not_fitted_on():
    """The held-out loss is that of rows no step has seen, and is reported."""
    config, data, sink = _config(6), _data(held_out=0.2), Recorder()
    assert len(data.held_out) == 6
    assert not set(data.held_out.reshape(-1)) & set(data.rows.reshape(-1))
    result = run_fit(config, data, initial_state(config, data), sink=sink)
    assert sink.lines[-1][1]["held_out_bits_per_dim"] == result.held_out
    assert np.isfinite(result.held_out)


def test_r01_fewer_examples_than_a_batch_still_train():
    """Case R01: the only, partial batch must not be dropped."""
    data = prepare_data(_embeddings(10), np.arange(10)[:, None], held_out=0.0, seed=0)
    config = Config(flow=FLOW, train=TrainConfig(batch_size=32))
    start = initial_state(config, data)
    end = run_fit(config, data, start).state
    assert int(end.step) == 1
    assert max_difference(end.variables, start.variables) > 1e-5


def test_initialisation_looks_at_the_rows_it_says():
    """The data-dependent initialisation uses the first batch, or init_rows sentences."""
    data = _data()
    assert len(init_sentences(_config(1), data)) == 16
    assert len(init_sentences(_config(1, init_rows=21), data)) == 21
    first = init_sentences(_config(1), data)
    actnorm = initial_state(_config(1), data).variables["params"]["level0_step0"]["actnorm"]
    np.testing.assert_allclose(actnorm["bias"], -data.embeddings[first].mean(0), atol=1e-5)


@pytest.mark.parametrize("permutation", ["reverse", "plu"])
def test_a_constant_dimension_keeps_a_bounded_gain(permutation):
    """Its likelihood is unbounded: without care the gain grows with every step."""
    embeddings = _embeddings(200, 8)
    embeddings[:, 3] = 0.25
    flow = FlowConfig(levels=1, depth=2, width=4, permutation=permutation)
    config = _config(600, flow, learning_rate=5e-3)
    data = prepare_data(embeddings, np.arange(200)[:, None], held_out=0.0, seed=0)
    assert data.constant_dims == (3,)
    np.testing.assert_array_equal(np.delete(data.embeddings, 3, 1), np.delete(embeddings, 3, 1))

    state = run_fit(config, data, initial_state(config, data)).state
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.variables))
    forward = glow.bijector(flow, state.variables, 8).forward
    gain = np.abs(np.asarray(jax.vmap(jax.jacfwd(forward))(embeddings[:20])))
    ordinary = np.median(gain.max(axis=(0, 1)))
    assert gain[:, :, 3].max() < 20 * ordinary


def test_what_counts_as_constant():
    """Rounding noise on a constant counts; a small but real spread does not."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (500, 5)).astype(np.float32)
    x[:, 1] = 7.0 + rng.normal(0, 3e-7, 500)
    x[:, 2] *= 0.01
    x[:, 4] = 0.0
    spread, constant = spread_constant_dimensions(x, seed=0)
    assert constant == (1, 4)
    np.testing.assert_allclose(spread[:, [1, 4]].std(0), 1.0, atol=0.15)
    np.testing.assert_array_equal(x[:, 4], 0.0)  # the caller's array is left alone


@pytest.mark.parametrize(
    ("embeddings", "error", "words"),
    [
        (np.ones((5, 4), np.float32), TrainingError, "all 5 embeddings are equal"),
        (np.ones((1, 4), np.float32), TrainingError, "at least two"),
        (np.ones(4, np.float32), InputError, r"\[N, D\]"),
        (np.full((3, 4), np.nan), InputError, "row 0 is not finite"),
        (np.asarray([["a"] * 4] * 3), InputError, "numeric"),
    ],
)
def test_unusable_embeddings_are_refused(embeddings, error, words):
    """Equal rows, one row, wrong shapes and NaN never reach the optimiser."""
    rows = np.arange(len(embeddings))[:, None]
    with pytest.raises(error, match=words):
        prepare_data(embeddings, rows, held_out=0.0, seed=0)


def test_f05_a_non_finite_loss_stops_and_is_not_saved():
    """The error names the step, and no state after it reaches a checkpoint."""
    data = _data()
    data.embeddings[data.rows[-1]] = 3e38  # overflows in the prior of the step that sees it
    config = _config(40)
    config.checkpoint.every = 1
    saved = []
    start = initial_state(_config(40), _data())
    with pytest.raises(TrainingError, match=r"not finite at step \d+") as caught:
        run_fit(config, data, start, save=lambda state, held_out: saved.append(state))
    bad = int(str(caught.value).split("at step ")[1].split()[0])
    assert [int(state.step) for state in saved] == list(range(1, bad))
    for state in saved:
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.variables))


@pytest.mark.parametrize("stop", [KeyboardInterrupt, TrainingError])
def test_the_last_good_state_is_saved_when_a_run_stops(stop, caplog):
    """Ctrl-C, or a loss that stops being finite, between two saves loses no finished step.

    Bug: a loss that is not finite was told to --resume, which comes to the same loss.
    """
    config, data, saved = _config(40, eval_every=10), _data(), []

    class Stopper:
        def write(self, step, values):
            if step > 20:
                raise stop("now")

    with pytest.raises(stop):
        run_fit(
            config,
            data,
            initial_state(config, data),
            sink=Stopper(),
            save=lambda state, held_out: saved.append(state),
        )
    assert [int(state.step) for state in saved] == [30]
    way = "--resume goes on" if stop is KeyboardInterrupt else "--overwrite starts anew"
    assert f"stopped after step 30, which is saved: {way}" in caplog.messages
    straight = run_fit(_config(30), data, initial_state(config, data)).state
    assert max_difference(saved[0], straight) == 0.0


def test_a_run_that_stops_at_a_saved_step_says_that_it_is_saved(caplog):
    """It said "nothing new to save", which reads as if the run was lost."""
    config, data, saved = _config(40), _data(), []
    config.checkpoint.every = 20

    def save(state, held_out):
        saved.append(int(state.step))
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_fit(config, data, initial_state(config, data), save=save)
    assert saved == [20]
    assert "stopped after step 20, which is saved: --resume goes on" in caplog.messages


def test_a_run_that_stops_before_its_first_step_saves_nothing(caplog):
    def stop(state, done, count):
        raise KeyboardInterrupt

    config, data, saved = _config(40), _data(), []
    with pytest.raises(KeyboardInterrupt):
        run_fit(
            config,
            data,
            initial_state(config, data),
            save=lambda state, held_out: saved.append(state),
            make_runner=lambda order: stop,
        )
    assert saved == []
    assert "stopped before the first step; nothing to save" in caplog.messages


def test_sparse_dimensions_do_not_blow_up():
    """A dimension that is 0 in a whole batch would get a gain of a million from that batch."""
    rng = np.random.default_rng(0)
    sparse = rng.normal(size=(200, 8)).astype(np.float32)
    sparse[:, 3] = 0.0
    sparse[rng.choice(200, 4, replace=False), 3] = 1.0
    one_hot = np.eye(8, dtype=np.float32)[rng.integers(0, 8, 200)]
    flow = FlowConfig(levels=1, depth=2, width=4)
    for embeddings in (sparse, one_hot):
        config = _config(20, flow)
        data = prepare_data(embeddings, np.arange(200)[:, None], held_out=0.0, seed=0)
        state = run_fit(config, data, initial_state(config, data)).state
        forward = glow.bijector(flow, state.variables, 8).forward
        gain = np.abs(np.asarray(jax.jit(jax.vmap(jax.jacfwd(forward)))(embeddings[:50])))
        assert gain.max() < 100


@pytest.mark.parametrize(("permutation", "rate", "rises"), [("plu", 0.03, 1), ("plu", 1e-3, 0)])
def test_a_loss_that_rises_far_is_told_once(caplog, permutation, rate, rises):
    """Bug: bits/dim went from -0.1 to 38 in eight steps, and came back, without a word."""
    flow = dataclasses.replace(FLOW, permutation=permutation)
    config, data, sink = _config(20, flow, learning_rate=rate, log_every=1), _data(), Recorder()
    run_fit(config, data, initial_state(config, data), sink=sink)
    losses = [values["bits_per_dim"] for _, values in sink.lines]
    assert (max(losses) > losses[0] + 1) == bool(rises)
    assert caplog.text.count("bits/dim rose from") == rises
    if rises:
        step = int(np.argmax(losses)) + 1
        assert f"to {max(losses):.4f} at step {step}: train.learning_rate=0.03 is" in caplog.text


def test_held_out_must_leave_two_sentences():
    """Half of two sentences leaves one, whose deviation is 0."""
    with pytest.raises(TrainingError, match=r"data\.held_out=0\.5 leaves fewer than two"):
        prepare_data(_embeddings(2), np.arange(2)[:, None], held_out=0.5, seed=0)


def test_more_init_rows_than_sentences_are_all_of_them():
    """A billion rows must neither hang nor repeat sentences."""
    rows = init_sentences(_config(1, init_rows=10**9), _data())
    assert sorted(rows) == list(range(60))


def test_ctrl_c_stops_after_the_chunk_under_way():
    """Arriving inside the device call, it is neither lost nor does it lose finished steps."""
    config, data, saved = _config(40, eval_every=10), _data(), []

    class Presser:
        def write(self, step, values):
            if step == 10:
                signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run_fit(
            config,
            data,
            initial_state(config, data),
            sink=Presser(),
            save=lambda state, held_out: saved.append(state),
        )
    assert [int(state.step) for state in saved] == [10]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("rises", [True, False])
def test_a_held_out_loss_that_rises_is_said(rises, caplog):
    """Too many epochs on little text end worse on unseen text, and only the curve showed it."""
    data = _data(held_out=0.5, pairs=False)
    sink, steps = Recorder(), 400 if rises else 4
    rate = 1e-2 if rises else 1e-4
    config = _config(steps, eval_every=steps // 4, batch_size=30, log_every=1, learning_rate=rate)
    result = run_fit(config, data, initial_state(config, data), sink=sink)
    losses = {
        step: values["held_out_bits_per_dim"]
        for step, values in sink.lines
        if "held_out_bits_per_dim" in values
    }
    best = min(losses, key=losses.__getitem__)
    assert (best < steps) == rises
    assert result.held_out == losses[steps]
    assert (f"lowest at step {best} ({losses[best]:.4f} bits/dim)" in caplog.text) == rises


def test_no_held_out_sentence_is_fitted_on_where_texts_repeat(caplog):
    """A sentence on both sides made the held-out loss one of the fit."""
    rows = np.array([[0, 1], [2, 3], [1, 4], [5, 6], [7, 8], [5, 9], [0, 1], [10, 11]])
    data = prepare_data(_embeddings(12), rows, held_out=0.25, seed=0)
    assert len(data.held_out) == 2
    assert not set(data.held_out.reshape(-1)) & set(data.rows.reshape(-1))
    assert not caplog.text
    repeated = np.repeat(np.arange(8), 3)[:, None]
    data = prepare_data(_embeddings(8), repeated, held_out=0.25, seed=0)
    assert len(data.held_out) == 0
    assert "0 example(s) are held out; 0 of 24 share no sentence" in caplog.text


@pytest.mark.parametrize(("offset", "count"), [(0.0, 60), (1000.0, 60), (0.0, 2), (1000.0, 2)])
def test_embeddings_far_from_zero_are_said(offset, count, caplog):
    """Decoupled decay pulls the shift of ActNorm back: the density was wrong without a word.

    Bug: two sentences, whose deviation says nothing, were "up to 1116 deviations from 0".
    """
    embeddings = _embeddings()[:count] + np.float32(offset)
    prepare_data(embeddings, np.arange(count)[:, None], held_out=0.0, seed=0)
    assert ("subtract their mean first" in caplog.text) == (offset > 0 and count > 2)
