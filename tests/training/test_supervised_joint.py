"""The joint step: which loss reaches which parameters."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference_flows import max_difference

from bertflow_jax.config import Config, FlowConfig, SupervisionConfig, TrainConfig
from bertflow_jax.encoder import BertConfig, init_params
from bertflow_jax.encoder.embedding import make_embed_fn
from bertflow_jax.encoder.pooling import parse_pooling
from bertflow_jax.flow.glow import bijector, fit_variables
from bertflow_jax.training.fit import blank_state
from bertflow_jax.training.optimizer import make_optimizer
from bertflow_jax.training.steps import FitState, make_run_steps
from bertflow_jax.training.supervised_batches import PairBatch
from bertflow_jax.training.supervised_optimizer import make_encoder_optimizer, split_params
from bertflow_jax.training.supervised_steps import SupervisedState, make_train_step

BERT = BertConfig(
    vocab_size=30,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=12,
)
SPEC = parse_pooling("mean", 2)
EMBED = make_embed_fn(BERT, SPEC)


def _config(**fields):
    section = {"path": "x", "dropout": False, "warmup": 0.0, "learning_rate": 1e-2, **fields}
    return Config(
        objective="joint",
        flow=FlowConfig(levels=1, depth=1, width=4),
        supervision=SupervisionConfig(**section),
        train=TrainConfig(batch_size=4),
    )


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    ids = rng.integers(5, 30, (4, 2, 8)).astype(np.int32)
    targets = np.array([0.1, 0.9, 0.5, 0.2], np.float32)
    return PairBatch(ids, np.ones_like(ids), targets, np.array([1, 1, 0, 0], np.float32))


@pytest.fixture(scope="module")
def start(batch):
    """The state of a joint run, its flow initialised on the batch and moved away from identity."""
    config = _config()
    params = init_params(BERT, jax.random.key(0))
    encoder = jax.tree.map(lambda x: x + 0.1, split_params(params, SPEC))
    u = EMBED(encoder, batch.input_ids.reshape(8, -1), batch.attention_mask.reshape(8, -1))
    blank = blank_state(config, 16)
    flow = fit_variables(config.flow, blank.variables, u)
    rng = np.random.default_rng(3)
    flow = jax.tree.map(lambda x: x + 0.1 * rng.normal(size=x.shape).astype(np.float32), flow)
    optimizer = make_encoder_optimizer(config.supervision, 10, 1.0)
    trained = {"encoder": encoder}
    state = SupervisedState(
        jnp.zeros((), jnp.int32), trained, optimizer.init(trained), flow, blank.opt_state
    )
    return state, u


def _step(state, batch, **fields):
    config = _config(**fields)
    optimizer = make_encoder_optimizer(config.supervision, 10, 1.0)
    return jax.jit(make_train_step(config, EMBED, optimizer))(state, batch)


def test_the_flow_makes_the_step_of_a_flow_fit(start, batch):
    """Catches a pair's two losses averaged instead of added up (the clip sees it), the encoder's
    optimiser on the flow, and the flow's gradient taken after the encoder has moved."""
    state, u = start
    after, metrics = _step(state, batch)
    config = _config()
    run_steps = make_run_steps(config.flow, make_optimizer(config.train), 16, config.seed)
    rows = np.arange(8, dtype=np.int32).reshape(1, 4, 2)
    fitted, reference = jax.jit(run_steps)(
        FitState(jnp.zeros((), jnp.int32), state.flow, state.flow_opt_state), u, rows, 1
    )
    assert max_difference(after.flow, fitted.variables) < 1e-5
    assert max_difference(after.flow, state.flow) > 1e-4
    np.testing.assert_allclose(metrics.bits_per_dim, reference.bits_per_dim[0], rtol=1e-4)
    np.testing.assert_allclose(metrics.flow_grad_norm, reference.grad_norm[0], rtol=1e-4)


def test_the_supervised_loss_sees_the_latent(start, batch):
    """As released, cos(f(u), f(v)); with joint_vectors=embedding cos(u, v). Two of four labelled."""
    state, u = start
    z = np.asarray(bijector(_config().flow, state.flow, 16).forward(u))

    def loss(x):
        x = np.asarray(x).reshape(4, 2, 16)
        lengths = np.linalg.norm(x, axis=2)
        cosines = (x[:, 0] * x[:, 1]).sum(1) / lengths.prod(1)
        return np.sum(((cosines - batch.targets) ** 2)[:2]) / 4

    assert abs(loss(z) - loss(u)) > 1e-3
    np.testing.assert_allclose(_step(state, batch)[1].supervised, loss(z), rtol=1e-3)
    found = _step(state, batch, joint_vectors="embedding")[1].supervised
    np.testing.assert_allclose(found, loss(u), rtol=1e-3)


def test_unlabelled_examples_reach_the_flow_alone(start, batch):
    """Other targets and other text there: the encoder's step is the same, the flow's is not."""
    state, _ = start
    ids = np.array(batch.input_ids)
    ids[2:] = ids[2:, :, ::-1]
    targets = np.array([0.1, 0.9, 1.0, 1.0], np.float32)
    other = dataclasses.replace(batch, input_ids=ids, targets=targets)
    first, second = _step(state, batch)[0], _step(state, other)[0]
    assert max_difference(first.params, second.params) < 1e-6
    assert max_difference(first.flow, second.flow) > 1e-4


def test_the_flows_loss_reaches_the_encoder_only_if_asked(start, batch):
    """flow_to_encoder adds weight * 2 * bits/dim to the encoder's objective."""
    state, _ = start
    plain, metrics = _step(state, batch)
    both, sum_of_two = _step(state, batch, flow_to_encoder=0.5)
    np.testing.assert_allclose(
        sum_of_two.loss, metrics.supervised + 0.5 * 2 * metrics.bits_per_dim, rtol=1e-4
    )
    assert float(metrics.loss) == float(metrics.supervised)
    assert max_difference(plain.params, both.params) > 1e-4
    assert max_difference(plain.flow, both.flow) < 1e-6


def test_noise_goes_to_constant_dimensions_and_to_the_flow_alone(start, batch):
    """Catches noise in the vectors that the labels are compared on."""
    state, _ = start
    noise = np.zeros(16, np.float32)
    noise[3] = 5.0
    config = _config()
    optimizer = make_encoder_optimizer(config.supervision, 10, 1.0)
    noisy = jax.jit(make_train_step(config, EMBED, optimizer, noise))(state, batch)[1]
    clean = _step(state, batch)[1]
    np.testing.assert_allclose(noisy.supervised, clean.supervised, rtol=1e-6)
    assert abs(float(noisy.bits_per_dim - clean.bits_per_dim)) > 0.1
