"""The parts that every layer of BERT is made of: products, dense layer, LayerNorm, attention.

Names of axes: B rows, T tokens a row, D hidden size, H heads, d = D / H.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from bertflow_jax.dropout import Dropout
from bertflow_jax.encoder.bert_config import BertConfig

INITIALIZER_STDDEV = 0.02
_LANES = 16


def product(subscripts: str, x: jax.Array, y: jax.Array) -> jax.Array:
    """Return jnp.einsum of two arrays of the compute dtype, summed and returned in float32.

    float32 asks for the highest precision: GPUs and TPUs otherwise round the inputs to fewer bits.
    """
    precision = jax.lax.Precision.HIGHEST if x.dtype == jnp.float32 else None
    return jnp.einsum(subscripts, x, y, precision=precision, preferred_element_type=jnp.float32)


def rounded_product(subscripts: str, x: jax.Array, y: jax.Array) -> jax.Array:
    """Return `product` in the dtype of its inputs.

    On a CPU the sum is rounded afterwards: XLA has a fast bfloat16 product for float32 results
    alone there (jaxlib 0.10: 573 GFLOP/s and 153 for [1024, 1536] x [1536, 384] with AMX).
    """
    if x.dtype == jnp.float32:
        return product(subscripts, x, y)
    return jax.lax.platform_dependent(
        x,
        y,
        cpu=lambda x, y: product(subscripts, x, y).astype(x.dtype),
        default=partial(jnp.einsum, subscripts),
    )


class Dense(nn.Module):
    """y = x W + b with W float32[in, out] used in the compute dtype."""

    features: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Map float[..., in] to float[..., features]."""
        init = nn.initializers.normal(INITIALIZER_STDDEV)
        kernel = self.param("kernel", init, (x.shape[-1], self.features))
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        y = rounded_product("...i,io->...o", x, kernel.astype(self.dtype))
        return y + bias.astype(self.dtype)


class LayerNorm(nn.Module):
    """y = (x - mean) / sqrt(var + eps) * scale + bias over the last axis, in float32."""

    epsilon: float

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Map float[..., D] to float[..., D] of the same dtype."""
        scale = self.param("scale", nn.initializers.ones, (x.shape[-1],))
        bias = self.param("bias", nn.initializers.zeros, (x.shape[-1],))
        x32 = x.astype(jnp.float32)
        centred = x32 - jnp.mean(x32, axis=-1, keepdims=True)
        # The variance of centred values: E[x^2] - E[x]^2 loses everything where eps is 1e-12.
        variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
        y = centred * jax.lax.rsqrt(variance + self.epsilon) * scale + bias
        return y.astype(x.dtype)


class QueryKeyValue(nn.Module):
    """One projection W float32[D, 3 H d] to queries, keys and values."""

    heads: int
    size: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Map float[B, T, D] to float[B, H, T, d], float[B, H, d, T] and float[B, H, T, d]."""
        width, out = x.shape[-1], 3 * self.heads * self.size
        kernel = self.param("kernel", nn.initializers.normal(INITIALIZER_STDDEV), (width, out))
        bias = self.param("bias", nn.initializers.zeros, (out,))
        kernel = kernel.astype(self.dtype).reshape(width, 3, self.heads, self.size)
        bias = bias.astype(self.dtype).reshape(3, self.heads, self.size)
        return jax.lax.platform_dependent(x, kernel, bias, tpu=three_products, default=one_product)


def one_product(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> tuple[jax.Array, ...]:
    """Return queries, keys and values of one large product, each moved to its place."""
    batch, tokens, width = x.shape
    flat = x.reshape(batch * tokens, width)
    qkv = rounded_product("...i,io->...o", flat, kernel.reshape(width, -1)) + bias.reshape(-1)
    qkv = qkv.reshape(batch, tokens, *bias.shape)
    return (
        qkv[:, :, 0].transpose(0, 2, 1, 3),
        qkv[:, :, 1].transpose(0, 2, 3, 1),
        qkv[:, :, 2].transpose(0, 2, 1, 3),
    )


def three_products(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> tuple[jax.Array, ...]:
    """Return the same of three products, whose results are where they belong.

    The TPU compiler makes the moves of `one_product` copies of all qkv in every layer: a quarter
    of the encoder's estimated cycles (docs/benchmarks.md).
    """
    places = ("btc,chd->bhtd", "btc,chd->bhdt", "btc,chd->bhtd")
    added = (bias[0][:, None], bias[1][:, :, None], bias[2][:, None])
    return tuple(
        rounded_product(place, x, kernel[:, i]) + added[i] for i, place in enumerate(places)
    )


class SelfAttention(nn.Module):
    """softmax(q k^T / sqrt(d)) v over H heads, with an output projection."""

    config: BertConfig
    dtype: Any
    deterministic: bool

    @nn.compact
    def __call__(self, x: jax.Array, mask_bias: jax.Array) -> jax.Array:
        """Map float[B*T, D] and the additive mask float32[B, 1, 1 or T, T] to float[B*T, D]."""
        heads, size = self.config.num_attention_heads, self.config.head_size
        batch, tokens = mask_bias.shape[0], mask_bias.shape[-1]
        projection = QueryKeyValue(heads, size, dtype=self.dtype, name="qkv")
        query, key, value = projection(x.reshape(batch, tokens, -1))
        scores = product("bhqd,bhdk->bhqk", query * size**-0.5, key) + mask_bias
        # The division by the sum of a row comes after the product with the values: the same
        # result, and T / d times fewer divisions.
        weights = jnp.exp(scores - _reduce(jnp.max, scores))
        total = _reduce(jnp.sum, weights)
        dropout = Dropout(self.config.attention_probs_dropout_prob, self.deterministic)
        weights = dropout(weights)
        context = product("bhqk,bhkd->bhqd", weights.astype(self.dtype), value) / total
        context = context.astype(self.dtype)
        context = context.transpose(0, 2, 1, 3).reshape(batch * tokens, heads * size)
        return Dense(heads * size, dtype=self.dtype, name="out")(context)


def _reduce(op: Callable[..., jax.Array], x: jax.Array) -> jax.Array:
    """Reduce the last axis, which stays with length 1.

    XLA for CPU (jaxlib 0.10) reduces a last axis one number after the other: over T = 256 the two
    reductions of a softmax cost a tenth of the whole encoder. In two steps, the first one adds
    vectors.
    """
    length = x.shape[-1]

    def two_steps(x: jax.Array) -> jax.Array:
        parts = x.reshape(*x.shape[:-1], length // _LANES, _LANES)
        return op(op(parts, axis=-2), axis=-1, keepdims=True)

    one_step = partial(op, axis=-1, keepdims=True)
    if length % _LANES:
        return one_step(x)
    return jax.lax.platform_dependent(x, cpu=two_steps, default=one_step)
