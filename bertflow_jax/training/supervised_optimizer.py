"""The encoder's optimiser: AdamW with warm-up and linear decay, as BERT is fine-tuned.

    g <- g * min(1, clip / |g|)                                  |g| over encoder and head
    m <- b1 m + (1-b1) g;  v <- b2 v + (1-b2) g^2
    p <- p - lr_t * (m / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps) + decay * p)

Biases and LayerNorm's parameters (leaves named bias or scale) do not decay. lr_t rises linearly
from 0 over the first `warmup` share of the steps and falls linearly to 0 at the last one:

    lr_t = lr * t / W  for t < W,   lr * (T - t) / (T - W)  else;  t = 0, 1, ..., T - 1
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from bertflow_jax.encoder.bert import Params
from bertflow_jax.encoder.pooling import PoolingSpec
from bertflow_jax.supervision_config import SupervisionConfig

B1, B2, EPS = 0.9, 0.999, 1e-6
_NO_DECAY = ("bias", "scale")


def warmup_steps(total: int, warmup: float) -> int:
    """Return W, the steps before the peak; at most total - 1."""
    return min(int(total * warmup + 1e-9), max(total - 1, 0))


def linear_schedule(peak: float, total: int, warmup: float) -> optax.Schedule:
    """Return step (int, from 0) -> step size."""
    rising = warmup_steps(total, warmup)

    def schedule(step: Any) -> jax.Array:
        t = jnp.asarray(step, jnp.float32)
        up = t / max(rising, 1)
        down = (total - t) / max(total - rising, 1)
        return peak * jnp.where(t < rising, up, jnp.maximum(down, 0.0))

    return schedule


def decay_mask(params: Any) -> Any:
    """Return a tree of bool like params: whether a leaf decays."""
    return jax.tree_util.tree_map_with_path(
        lambda path, _: getattr(path[-1], "key", None) not in _NO_DECAY, params
    )


def _scale_head(ratio: float) -> optax.GradientTransformation:
    """Multiply the updates of the classifier; it has no state."""

    def update(updates: Any, params: Any = None) -> Any:
        del params
        head = jax.tree.map(lambda x: ratio * x, updates.get("head", {}))
        return {**updates, "head": head} if "head" in updates else updates

    return optax.stateless(update)


def make_encoder_optimizer(
    config: SupervisionConfig, total: int, clip_norm: float
) -> optax.GradientTransformation:
    """Return the optimiser of {"encoder": ..., "head": ...} for a run of `total` steps.

    The head's lr is `head_learning_rate` where that is set; its schedule is the same.
    """
    return optax.chain(
        optax.clip_by_global_norm(clip_norm),
        optax.adamw(
            linear_schedule(config.learning_rate, total, config.warmup),
            B1,
            B2,
            EPS,
            weight_decay=config.weight_decay,
            mask=decay_mask,
        ),
        _scale_head((config.head_learning_rate or config.learning_rate) / config.learning_rate),
    )


def split_params(params: Params, pooling: PoolingSpec) -> Params:
    """Return the encoder's parameters that its vectors depend on.

    The pooler of another pooling and the layers above the highest one pooled get no gradient, and
    weight decay would shrink them all the same.
    """
    used = max(1, *pooling.layers)
    trained = {
        "embeddings": params["embeddings"],
        "layers": jax.tree.map(lambda x: x[:used], params["layers"]),
    }
    if pooling.tokens == "pooler":
        trained["pooler"] = params["pooler"]
    return trained


def join_params(params: Params, trained: Params) -> Params:
    """Return the encoder's whole parameters with the trained ones in their places, as numpy."""
    layers = jax.tree.map(
        lambda old, new: np.concatenate([np.asarray(new), np.asarray(old)[len(new) :]]),
        params["layers"],
        trained["layers"],
    )
    return jax.tree.map(np.asarray, {**params, **trained, "layers": layers})
