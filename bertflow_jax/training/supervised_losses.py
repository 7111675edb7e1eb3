"""Losses on pairs of sentence embeddings u and v.

    siamese     -log softmax([u, v, |u - v|] W + b)[label]      (SBERT's classification objective)
    regression  (cos(u, v) - target)^2, target in [0, 1]
    norms       |u| + |v|

All are float32[B], one value an example; `masked_mean` makes the number that is minimised.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from bertflow_jax.data.nli import LABELS

_STDDEV = 0.02  # of the released classifier's initial weights, cut at two deviations
_TINY = 1e-12  # below this a squared norm counts as 0, as in the released l2_normalize

Head = dict[str, jax.Array]


def init_head(key: jax.Array, features: int) -> Head:
    """Return the classifier's start: {"kernel": float32[3 E, 3], "bias": zeros float32[3]}."""
    shape = (3 * features, len(LABELS))
    kernel = _STDDEV * jax.random.truncated_normal(key, -2.0, 2.0, shape)
    return {"kernel": kernel, "bias": jnp.zeros(len(LABELS))}


def siamese_logits(head: Head, u: jax.Array, v: jax.Array) -> jax.Array:
    """Return [u, v, |u - v|] W + b, float32[B, 3], of float32[B, E] twice."""
    features = jnp.concatenate([u, v, jnp.abs(u - v)], axis=-1)
    return jnp.dot(features, head["kernel"], precision="highest") + head["bias"]


def siamese_loss(head: Head, u: jax.Array, v: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the cross entropy in nats of every pair, float32[B]; labels are int32[B]."""
    logits = siamese_logits(head, u, v)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels)


def cosine(u: jax.Array, v: jax.Array) -> jax.Array:
    """Return cos(u_i, v_i), float32[B]; 0 where a vector is zero, and no NaN in the gradient."""
    return jnp.sum(_unit(u) * _unit(v), axis=-1)


def _unit(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.maximum(jnp.sum(jnp.square(x), -1, keepdims=True), _TINY))


def regression_loss(u: jax.Array, v: jax.Array, targets: jax.Array) -> jax.Array:
    """Return (cos(u, v) - target)^2 of every pair, float32[B]; targets are float32[B]."""
    return jnp.square(cosine(u, v) - targets)


def norms(u: jax.Array, v: jax.Array) -> jax.Array:
    """Return |u| + |v| of every pair, float32[B], in the units of the embeddings."""
    lengths = [jnp.sqrt(jnp.maximum(jnp.sum(jnp.square(x), axis=-1), _TINY)) for x in (u, v)]
    return lengths[0] + lengths[1]


def masked_mean(values: jax.Array, labelled: jax.Array) -> jax.Array:
    """Return the mean over the batch of float32[B], where an example without a label counts as 0.

    As in the released code the sum is divided by B, not by the number of labels: a batch with few
    of them then weighs little.
    """
    return jnp.mean(values * labelled)


def supervised_loss(
    params: dict[str, Any],
    u: jax.Array,
    v: jax.Array,
    targets: jax.Array,
    labelled: jax.Array,
    *,
    loss: str,
    norm_penalty: float = 0.0,
) -> tuple[jax.Array, jax.Array]:
    """Return (objective float32[], supervised part float32[]).

    Args:
      params: {"head": ...} for `siamese`; others are ignored.
      u: float32[B, E].
      v: float32[B, E].
      targets: int32[B] classes or float32[B] cosines.
      labelled: float32[B], 1 or 0.
      loss: `siamese` or `regression`.
      norm_penalty: weight of the mean of |u| + |v| over all examples, labelled or not.
    """
    if loss == "siamese":
        each = siamese_loss(params["head"], u, v, targets)
    else:
        each = regression_loss(u, v, targets)
    part = masked_mean(each, labelled)
    if not norm_penalty:
        return part, part
    return part + norm_penalty * jnp.mean(norms(u, v)), part
