"""The pure function from token ids to pooled sentence embeddings."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from bertflow_jax.encoder.bert import Bert, Params, Pooler
from bertflow_jax.encoder.bert_config import BertConfig
from bertflow_jax.encoder.pooling import PoolingSpec, pool_layers, pool_tokens, zero_empty

EmbedFn = Callable[..., jax.Array]


def make_embed_fn(
    config: BertConfig,
    spec: PoolingSpec,
    dtype: Any = jnp.float32,
    normalize: bool = False,
    remat: bool = False,
    gather: Callable[[Any], Any] | None = None,
) -> EmbedFn:
    """Return embed(params, input_ids, attention_mask, dropout_key=None, slots=None).

    It gives float32[B, E], E = `spec.dimension(D)`. Layers above the highest one pooled are not
    run. `params` is the tree of `init_params`; ids and mask are int32[B, T]. Without a
    `dropout_key` the encoder is deterministic; with one, dropout is on, as in the released fit.
    With `slots` a row holds up to that many texts, which the mask numbers from 1: the result is
    float32[B * slots, E], zeros for a text that is not there. `normalize` scales every vector to
    length 1 (a zero vector stays zero). `remat` and `gather` save memory in training: see
    `encoder.bert.Bert`.
    """
    run = dataclasses.replace(config, num_hidden_layers=max(1, *spec.layers))
    only_last = spec.layers == (run.num_hidden_layers,)

    def embed(
        params: Params,
        input_ids: jax.Array,
        attention_mask: jax.Array,
        dropout_key: jax.Array | None = None,
        slots: int | None = None,
    ) -> jax.Array:
        pool = partial(pool_tokens, tokens=spec.tokens, slots=slots)
        collect = None if only_last else pool
        bert = Bert(run, dtype, deterministic=dropout_key is None, remat=remat, gather=gather)
        body = {
            "embeddings": params["embeddings"],
            "layers": jax.tree.map(lambda x: x[: run.num_hidden_layers], params["layers"]),
        }
        rngs = None if dropout_key is None else {"dropout": dropout_key}
        out: Any = bert.apply(
            {"params": body}, input_ids, attention_mask, collect, slots is not None, rngs=rngs
        )
        if collect is None:
            pooled = pool(out.last_hidden, attention_mask)
        else:
            pooled = pool_layers(out.collected, spec)
        if spec.tokens == "pooler":
            head: Any = Pooler(config).apply({"params": params["pooler"]}, pooled)
            pooled = zero_empty(head, attention_mask, slots)
        return unit_length(pooled) if normalize else pooled

    return embed


def unit_length(x: jax.Array) -> jax.Array:
    """Scale the rows of float32[B, D] to Euclidean length 1; a zero row stays zero.

    As `unit_rows.unit_rows`, whatever the length: but numbers below the smallest normal one are 0
    to most devices.
    """
    # The squares of very long and very short rows leave float32. Powers of two, because a compiled
    # division by the largest number is a product with 1 / it, which may itself be 0 to the device.
    largest = jnp.max(jnp.abs(x), axis=-1, keepdims=True, initial=0)
    x = x * jnp.where(largest > 2.0**50, 2.0**-84, jnp.where(largest < 2.0**-50, 2.0**104, 1.0))
    norm = jnp.linalg.norm(x, axis=-1, keepdims=True)
    return x / jnp.where(norm > 0, norm, 1)
