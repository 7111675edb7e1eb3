"""BERT (Devlin et al., 2019) in Flax linen, frozen-encoder first and written for speed.

Names of axes: B rows, T tokens a row, D hidden size, L layers.

Layer parameters are stacked on a leading axis [L, ...] and the layers run under `nn.scan`, so
a 24-layer model compiles as fast as a 1-layer one. Tokens are flattened to [B*T, D] for dense
layers and query, key and value are one projection: few large matmuls instead of many small ones.
What is wanted of every layer (a pooled vector, or the hidden state itself) is computed inside the
scanned body, so pooling several layers never holds all hidden states.

A row may hold several texts, one after the other: with `packed`, the mask numbers them, positions
start anew with every text and a token sees its own text alone. A text's vectors are those it has
alone in a row, and no work goes into padding short texts to the length of a row.

Whatever the compute dtype, softmax, LayerNorm and activations are computed in float32.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from bertflow_jax.dropout import Dropout
from bertflow_jax.encoder.bert_config import ACTIVATIONS, BertConfig
from bertflow_jax.encoder.layers import INITIALIZER_STDDEV, Dense, LayerNorm, SelfAttention
from bertflow_jax.errors import InputError

# collect(hidden float[B, T, D], mask int32[B, T]) -> array; run on the output of every layer.
Collect = Callable[[jax.Array, jax.Array], jax.Array]

Params = Any  # a nested dict of arrays


class BertOutput(NamedTuple):
    """What one forward pass returns.

    Attributes:
      last_hidden: float[B, T, D] in the compute dtype, the output of the last layer.
      collected: what `collect` returned, stacked on a leading axis of L + 1 (0 = embedding
        output, L = last layer); None if nothing was to be collected.
    """

    last_hidden: jax.Array
    collected: jax.Array | None


class BertLayer(nn.Module):
    """One post-LayerNorm transformer layer, the body of the scan over layers."""

    config: BertConfig
    dtype: Any
    deterministic: bool
    collect: Collect | None

    @nn.compact
    def __call__(
        self, x: jax.Array, mask_bias: jax.Array, mask: jax.Array
    ) -> tuple[jax.Array, jax.Array | None]:
        """Map the carry float[B*T, D] to the next one and to what is collected of it."""
        config = self.config
        dropout = Dropout(config.hidden_dropout_prob, self.deterministic)
        attended = SelfAttention(config, self.dtype, self.deterministic, name="attention")(
            x, mask_bias
        )
        x = LayerNorm(config.layer_norm_eps, name="attention_norm")(x + dropout(attended))
        h = Dense(config.intermediate_size, dtype=self.dtype, name="mlp_in")(x)
        h = ACTIVATIONS[config.hidden_act](h.astype(jnp.float32)).astype(self.dtype)
        h = Dense(config.hidden_size, dtype=self.dtype, name="mlp_out")(h)
        x = LayerNorm(config.layer_norm_eps, name="mlp_norm")(x + dropout(h))
        return x, _collected(self.collect, x, mask)


def _collected(collect: Collect | None, x: jax.Array, mask: jax.Array) -> jax.Array | None:
    return None if collect is None else collect(x.reshape(*mask.shape, x.shape[-1]), mask)


class Embeddings(nn.Module):
    """LayerNorm(word + position + token type 0); positions int32[B, T] or, if None, 0 .. T - 1."""

    config: BertConfig
    dtype: Any
    deterministic: bool

    @nn.compact
    def __call__(self, input_ids: jax.Array, positions: jax.Array | None) -> jax.Array:
        """Map int32[B, T] to float[B*T, D]; an id outside the table gives NaN, never a clamp."""
        config = self.config
        init, width = nn.initializers.normal(INITIALIZER_STDDEV), config.hidden_size
        word = self.param("word", init, (config.vocab_size, width))
        position = self.param("position", init, (config.max_position_embeddings, width))
        token_type = self.param("token_type", init, (config.type_vocab_size, width))
        tokens = input_ids.shape[1]
        if positions is None and tokens > config.max_position_embeddings:
            raise InputError(
                f"{tokens} tokens a sentence, but the encoder's position table has "
                f"{config.max_position_embeddings} rows; lower max_length"
            )
        x = jnp.take(word, input_ids, axis=0, mode="fill", fill_value=jnp.nan)
        if positions is None:
            x = x + position[:tokens]
        else:
            x = x + jnp.take(position, positions, axis=0, mode="fill", fill_value=jnp.nan)
        x = (x + token_type[0]).reshape(-1, width)
        x = LayerNorm(config.layer_norm_eps, name="norm")(x).astype(self.dtype)
        return Dropout(config.hidden_dropout_prob, self.deterministic)(x)


class Bert(nn.Module):
    """The encoder without pooling.

    Attributes:
      config: shape and numerics.
      dtype: compute dtype, jnp.float32 or jnp.bfloat16; parameters are float32.
      unroll: layers a step of the scan. Measured on a CPU with 6 layers of width 384: 1 and 6 run
        64 x 32 tokens equally fast, 6 is twice as slow on one sentence (it copies every layer's
        weights at once) and takes four times as long to compile.
      deterministic: False turns dropout on and needs `rngs={"dropout": key}` in `apply`.
      gather: applied to the parameters of the embeddings and of each layer where they are used; of
        a training step whose parameters are split over devices (`parallel.gather_over`).
      remat: keep only what enters a layer for the backward pass and compute the rest again there:
        less memory, about a third more work, the same numbers.
    """

    config: BertConfig
    dtype: Any = jnp.float32
    unroll: int = 1
    deterministic: bool = True
    remat: bool = False
    gather: Callable[[Any], Any] | None = None

    @nn.compact
    def __call__(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array,
        collect: Collect | None = None,
        packed: bool = False,
    ) -> BertOutput:
        """Run all layers.

        Args:
          input_ids: int32[B, T].
          attention_mask: int32[B, T], 1 for a token and 0 for padding; if `packed`, the number of
            the token's text in its row, from 1 (texts are contiguous), and 0 for padding.
          packed: rows hold several texts; see the module's docstring.
          collect: maps (hidden float[B, T, D], attention_mask) to what is wanted of every layer;
            `hidden_state` keeps them whole.

        Returns:
          a `BertOutput`. Raises InputError (while tracing) if T is beyond the position table.
        """
        batch, tokens = input_ids.shape
        positions = _positions(attention_mask) if packed else None
        embeddings = self._gathered(Embeddings)(
            self.config, self.dtype, self.deterministic, name="embeddings"
        )
        x = embeddings(input_ids, positions)
        first = _collected(collect, x, attention_mask)
        # A row of padding alone gets equal attention everywhere: finite, and pooled to zeros.
        seen = (attention_mask > 0)[:, None, None, :]
        if packed:
            seen = (attention_mask[:, :, None] == attention_mask[:, None, :])[:, None]
        mask_bias = jnp.where(seen, 0.0, jnp.finfo(jnp.float32).min / 2)
        # Inside a scan XLA has nothing to merge the second computation with.
        layer = self._gathered(BertLayer)
        layer = nn.remat(layer, prevent_cse=False) if self.remat else layer
        layers = nn.scan(
            layer,
            variable_axes={"params": 0},
            split_rngs={"params": True, "dropout": True},
            in_axes=nn.broadcast,
            length=self.config.num_hidden_layers,
            unroll=self.unroll,
        )(self.config, self.dtype, self.deterministic, collect, name="layers")
        x, rest = layers(x, mask_bias.astype(jnp.float32), attention_mask)
        collected = None
        if first is not None and rest is not None:
            collected = jnp.concatenate([first[None], rest])
        return BertOutput(x.reshape(batch, tokens, -1), collected)

    def _gathered(self, module: Any) -> Any:
        if self.gather is None:
            return module
        # Inside the scan and the rematerialised part: whole is one layer at a time.
        return nn.map_variables(module, "params", self.gather, init=self.is_initializing())


def _positions(texts: jax.Array) -> jax.Array:
    """Return the place of every token in its text, int32[B, T]; 0 for padding."""
    place = jnp.arange(texts.shape[1])
    first = jnp.pad(texts[:, 1:] != texts[:, :-1], ((0, 0), (1, 0)), constant_values=True)
    start = jax.lax.cummax(jnp.where(first, place, 0), axis=1)
    return jnp.where(texts > 0, place - start, 0)


def hidden_state(hidden: jax.Array, mask: jax.Array) -> jax.Array:
    """Collect the whole hidden state of a layer (a `Collect`)."""
    del mask
    return hidden


class Pooler(nn.Module):
    """tanh(W h_cls + b), the head BERT was pre-trained with; not every checkpoint has it."""

    config: BertConfig

    @nn.compact
    def __call__(self, cls_hidden: jax.Array) -> jax.Array:
        """Map the first token's last hidden state float[B, D] to float32[B, D]."""
        dense = Dense(self.config.hidden_size, name="dense")
        return jnp.tanh(dense(cls_hidden.astype(jnp.float32)))


def init_params(config: BertConfig, key: jax.Array, pooler: bool = True) -> Params:
    """Return random float32 parameters in the layout the weight loader fills.

    {"embeddings": ..., "layers": ..., "pooler": ...}; every leaf under "layers" has a leading axis
    of L. Under `jax.eval_shape` this gives the shapes of any model without allocating it.
    """
    body_key, pooler_key = jax.random.split(key)
    ids = jnp.zeros((1, 1), jnp.int32)
    params = dict(Bert(config).init(body_key, ids, jnp.ones_like(ids))["params"])
    if pooler:
        hidden = jnp.zeros((1, config.hidden_size))
        params["pooler"] = Pooler(config).init(pooler_key, hidden)["params"]
    return params
