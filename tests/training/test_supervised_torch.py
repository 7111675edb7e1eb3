"""Losses, gradients and optimiser of the supervised objectives against PyTorch and transformers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bertflow_jax.config import Config, SupervisionConfig, TrainConfig
from bertflow_jax.encoder.bert_config import read_config
from bertflow_jax.encoder.embedding import make_embed_fn
from bertflow_jax.encoder.hf_layout import to_hf
from bertflow_jax.encoder.hf_weights import load_params
from bertflow_jax.encoder.pooling import parse_pooling
from bertflow_jax.training.supervised_batches import PairBatch
from bertflow_jax.training.supervised_losses import supervised_loss
from bertflow_jax.training.supervised_optimizer import (
    decay_mask,
    linear_schedule,
    make_encoder_optimizer,
    split_params,
)
from bertflow_jax.training.supervised_steps import SupervisedState, make_train_step

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
TARGETS = {
    "siamese": np.array([0, 2, 1, 1], np.int32),
    "regression": np.array([0.1, 0.9, 0.4, 1.0], np.float32),
}


@pytest.fixture(scope="module")
def tiny(shared):
    """(HF model, our config, our params, head) of tiny_bert; the head is far from its start."""
    folder = shared / "fixtures" / "tiny_bert" / "safetensors"
    model = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    config = read_config(folder)
    params, _ = load_params(folder, config)
    rng = np.random.default_rng(0)
    head = {
        "kernel": rng.normal(scale=0.5, size=(96, 3)).astype(np.float32),
        "bias": rng.normal(size=3).astype(np.float32),
    }
    return model, config, params, head


@pytest.fixture(scope="module")
def tokens():
    """int32[4, 2, 9] ids and masks with padding."""
    rng = np.random.default_rng(1)
    ids = rng.integers(5, 73, (4, 2, 9)).astype(np.int32)
    mask = (np.arange(9) < rng.integers(3, 10, (4, 2, 1))).astype(np.int32)
    return ids * mask, mask


def torch_loss(model, head, tokens, loss, labelled, penalty):
    """The objectives once more, in PyTorch's words and one sentence at a time."""
    vectors = []
    for ids, mask in zip(tokens[0].reshape(8, -1), tokens[1].reshape(8, -1), strict=True):
        count = int(mask.sum())
        hidden = model(torch.tensor(ids[None, :count].astype(np.int64))).last_hidden_state
        vectors.append(hidden[0].mean(0))
    u, v = torch.stack(vectors[0::2]), torch.stack(vectors[1::2])
    if loss == "siamese":
        logits = torch.cat([u, v, (u - v).abs()], 1) @ head["kernel"] + head["bias"]
        targets = torch.tensor(TARGETS[loss].astype(np.int64))
        each = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    else:
        each = (torch.cosine_similarity(u, v) - torch.tensor(TARGETS[loss])) ** 2
    norms = u.norm(dim=1) + v.norm(dim=1)
    return (each * torch.tensor(labelled)).sum() / 4 + penalty * norms.mean()


@pytest.mark.parametrize("loss", ["siamese", "regression"])
@pytest.mark.parametrize(("labelled", "penalty"), [([1, 1, 1, 1], 0.0), ([1, 0, 0, 1], 0.01)])
def test_loss_and_gradients_are_pytorchs(tiny, tokens, loss, labelled, penalty):
    """Catches u and v mixed up across pairs, a lost |u - v|, a mean over the wrong number."""
    model, config, params, head = tiny
    labelled = np.asarray(labelled, np.float32)
    spec = parse_pooling("mean", config.num_hidden_layers)
    embed = make_embed_fn(config, spec)

    def objective(trained):
        u = embed(trained["encoder"], *(x.reshape(8, -1) for x in tokens)).reshape(4, 2, -1)
        return supervised_loss(
            trained, u[:, 0], u[:, 1], TARGETS[loss], labelled, loss=loss, norm_penalty=penalty
        )[0]

    trained = {"encoder": split_params(params, spec), "head": head}
    value, grads = jax.jit(jax.value_and_grad(objective))(trained)
    model.zero_grad()
    their_head = {name: torch.tensor(x, requires_grad=True) for name, x in head.items()}
    reference = torch_loss(model, their_head, tokens, loss, labelled, penalty)
    reference.backward()
    assert abs(float(value) - reference.item()) < 1e-5
    ours = to_hf(grads["encoder"])
    names = [name for name, p in model.named_parameters() if not name.startswith("pooler")]
    assert sorted(ours) == sorted(names)
    for name, parameter in model.named_parameters():
        if name in ours:
            np.testing.assert_allclose(ours[name], parameter.grad, atol=1e-5, err_msg=name)
    if loss == "siamese":
        for name, parameter in their_head.items():
            np.testing.assert_allclose(grads["head"][name], parameter.grad, atol=1e-5)
            assert parameter.grad.abs().max() > 1e-2


def test_five_steps_of_the_optimiser_are_pytorchs():
    """Catches decay of biases and LayerNorm, a clip by leaf, a schedule one step off."""
    rng = np.random.default_rng(2)
    params = {
        "encoder": {
            "norm": {"scale": rng.normal(size=4), "bias": rng.normal(size=4)},
            "dense": {"kernel": rng.normal(size=(4, 3)), "bias": rng.normal(size=3)},
            "word": rng.normal(size=(5, 4)),
        },
        "head": {"kernel": rng.normal(size=(3, 2)), "bias": rng.normal(size=2)},
    }
    params = jax.tree.map(lambda x: x.astype(np.float32), params)
    leaves, treedef = jax.tree.flatten(params)
    grads = [
        treedef.unflatten([(scale * rng.normal(size=x.shape)).astype(np.float32) for x in leaves])
        for scale in (0.05, 3.0, 0.2, 1.0, 0.01)  # norms below and above the clip
    ]
    section = SupervisionConfig(learning_rate=0.05, weight_decay=0.2, warmup=0.4)
    optimizer = make_encoder_optimizer(section, 5, clip_norm=1.0)
    state, ours = optimizer.init(params), params
    for gradient in grads:
        updates, state = optimizer.update(gradient, state, ours)
        ours = jax.tree.map(jnp.add, ours, updates)

    theirs = [torch.tensor(leaf, requires_grad=True) for leaf in jax.tree.leaves(params)]
    decays = jax.tree.leaves(decay_mask(params))
    assert sum(decays) == 3  # the two kernels and the word table
    torch_optimizer = torch.optim.AdamW(
        [
            {"params": [p for p, d in zip(theirs, decays, strict=True) if d], "weight_decay": 0.2},
            {
                "params": [p for p, d in zip(theirs, decays, strict=True) if not d],
                "weight_decay": 0,
            },
        ],
        lr=0.05,
        eps=1e-6,
    )
    schedule = transformers.get_linear_schedule_with_warmup(torch_optimizer, 2, 5)
    for gradient in grads:
        for parameter, leaf in zip(theirs, jax.tree.leaves(gradient), strict=True):
            parameter.grad = torch.tensor(leaf)
        torch.nn.utils.clip_grad_norm_(theirs, 1.0)
        torch_optimizer.step()
        schedule.step()
    for leaf, parameter in zip(jax.tree.leaves(ours), theirs, strict=True):
        np.testing.assert_allclose(leaf, parameter.detach(), atol=1e-5)


def test_schedule_by_hand():
    """W = 2 of 6 steps: 0, 1/2, then 4/4, 3/4, 2/4, 1/4 of the peak; never NaN or above it."""
    ours = [float(linear_schedule(8.0, 6, 0.34)(t)) for t in range(6)]
    np.testing.assert_allclose(ours, [0, 4, 8, 6, 4, 2])


def test_head_learning_rate_scales_the_head_alone():
    """Catches a ratio on the wrong group; Adam's first step is lr * sign(g) at the peak."""
    params = {"encoder": {"bias": jnp.ones(2)}, "head": {"bias": jnp.ones(2)}}
    section = SupervisionConfig(learning_rate=1e-3, head_learning_rate=1e-1, warmup=0.0)
    optimizer = make_encoder_optimizer(section, 10, clip_norm=1e9)
    updates, _ = optimizer.update(
        jax.tree.map(jnp.ones_like, params), optimizer.init(params), params
    )
    np.testing.assert_allclose(updates["encoder"]["bias"], -1e-3, rtol=1e-5)
    np.testing.assert_allclose(updates["head"]["bias"], -1e-1, rtol=1e-5)


def test_a_step_with_dropout_off_is_torchs(tiny, tokens):
    """The whole compiled step: embed, loss, clip, AdamW, against the same in PyTorch."""
    model, config, params, head = tiny
    spec = parse_pooling("mean", config.num_hidden_layers)
    section = SupervisionConfig(path="x", learning_rate=1e-3, warmup=0.0, dropout=False)
    run = Config(objective="siamese", supervision=section, train=TrainConfig(batch_size=4))
    optimizer = make_encoder_optimizer(section, 10, run.train.clip_norm)
    start = {"encoder": split_params(params, spec), "head": head}
    state = SupervisedState(jnp.zeros((), jnp.int32), start, optimizer.init(start), {}, {})
    step = jax.jit(make_train_step(run, make_embed_fn(config, spec), optimizer))
    after, metrics = step(state, PairBatch(*tokens, TARGETS["siamese"], np.ones(4, np.float32)))
    their_head = {name: torch.tensor(x, requires_grad=True) for name, x in head.items()}
    model.zero_grad()
    reference = torch_loss(model, their_head, tokens, "siamese", np.ones(4, np.float32), 0.0)
    reference.backward()
    trained = [p for p in (*model.parameters(), *their_head.values()) if p.grad is not None]
    norm = torch.nn.utils.clip_grad_norm_(trained, 1.0)
    assert abs(float(metrics.loss) - reference.item()) < 1e-5
    np.testing.assert_allclose(metrics.grad_norm, norm, rtol=1e-4)
    # Adam's first step: lr * g / (|g| + eps), plus the decay of matrices.
    gradient = their_head["kernel"].grad.numpy()
    moved = gradient / (np.abs(gradient) + 1e-6) + 0.01 * head["kernel"]
    np.testing.assert_allclose(
        after.params["head"]["kernel"], head["kernel"] - 1e-3 * moved, atol=1e-5
    )
    assert int(after.step) == 1


def test_a_non_finite_step_keeps_the_state(tiny, tokens):
    """Its buffers are given away: without the undo in the step the last good state would be lost."""
    _, config, params, _ = tiny
    spec = parse_pooling("mean", config.num_hidden_layers)
    section = SupervisionConfig(path="x", dropout=False)
    run = Config(objective="regression", supervision=section)
    optimizer = make_encoder_optimizer(section, 10, 1.0)
    start = {"encoder": split_params(params, spec)}
    state = SupervisedState(jnp.zeros((), jnp.int32), start, optimizer.init(start), {}, {})
    step = jax.jit(make_train_step(run, make_embed_fn(config, spec), optimizer))
    bad = PairBatch(*tokens, np.array([0, np.nan, 0, 0], np.float32), np.ones(4, np.float32))
    after, metrics = step(state, bad)
    assert not metrics.finite
    assert int(after.step) == 0
    for old, new in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(old, new)
