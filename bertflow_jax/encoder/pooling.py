"""From hidden states to one vector a sentence.

A pooling chooses layers (0 = embedding output, 1 .. L = encoder layers), reduces the tokens of
each chosen layer to one vector, and then averages or concatenates those vectors.

| name | layers | tokens |
|---|---|---|
| `mean` | L | masked mean |
| `cls` | L | first token |
| `pooler` | L | tanh(dense(first token)), the pre-training head |
| `max` | L | masked maximum |
| `lastN`, as `last2` | L-N+1 .. L | masked mean |
| `first_last` | 1 and L | masked mean |
| `embedding_last` | 0 and L | masked mean |
| `layers=(i,j,...)` | as listed; negative ones count from the end, -1 = L | masked mean |

A name with several layers takes words after commas: `cls` or `max` for the tokens (each layer's
maximum is taken before the layers are averaged) and `concat` to concatenate the layers instead:
`first_last,cls`, `layers=(1,4),concat`, `last2,max,concat`.

Names of the released BERT-flow code mean what that code DID, not what they say (its loop over
"the last N" starts at python index -0 of a list without the embedding output):

| released name | here |
|---|---|
| `avg` | `mean` |
| `avg-last-1` | `layers=(1)` |
| `avg-last-2` | `layers=(1,L)`, which is `first_last` |
| `avg-last-N`, `avg-last-concat-N` | `layers=(1,L,L-1,...)`, N of them |
| `avg-last-last-N` | `layers=(L-N+1)` |
| `released-cls` (called `cls` there) | `pooler` |
"""

import dataclasses
import re

import jax
import jax.numpy as jnp

from bertflow_jax.encoder.layers import product
from bertflow_jax.errors import ConfigError, shown

POOLING_NAMES = (
    "mean, cls, pooler, max, lastN (as last2), first_last, embedding_last, layers=(i,j,...); "
    "after a comma: cls, max, concat; released names: avg, avg-last-N, avg-last-last-N, "
    "avg-last-concat-N, released-cls"
)

_TOKENS = ("mean", "cls", "max", "pooler")
_REDUCE = ("mean", "concat")


@dataclasses.dataclass(frozen=True)
class PoolingSpec:
    """A pooling with its layers resolved for one encoder.

    Attributes:
      layers: chosen layers, 0 = embedding output and L = last encoder layer.
      tokens: `mean`, `cls`, `max` or `pooler` (last layer alone).
      reduce: `mean` or `concat` over the layers.
    """

    layers: tuple[int, ...]
    tokens: str = "mean"
    reduce: str = "mean"

    def __post_init__(self) -> None:
        """Refuse what no name can mean."""
        if self.tokens not in _TOKENS or self.reduce not in _REDUCE:
            raise ConfigError(f"pooling: tokens={self.tokens!r}, reduce={self.reduce!r} unknown")
        if not self.layers or min(self.layers) < 0:
            raise ConfigError(f"pooling: layers={self.layers} must name layers 0 .. L")
        if self.tokens == "pooler" and len(self.layers) != 1:
            raise ConfigError("pooling: pooler works on the last layer alone")

    def __str__(self) -> str:
        """Return the canonical name, which `parse_pooling` reads back to an equal spec."""
        if self.tokens == "pooler":
            return "pooler"
        layers = ",".join(map(str, self.layers))
        concat = ",concat" if self.reduce == "concat" else ""
        return f"layers=({layers}),{self.tokens}{concat}"

    def dimension(self, hidden_size: int) -> int:
        """Return the length of a pooled vector."""
        return hidden_size * (len(self.layers) if self.reduce == "concat" else 1)


def parse_pooling(name: str, num_layers: int) -> PoolingSpec:
    """Return the pooling that `name` means for an encoder of L = `num_layers` layers.

    Raises ConfigError, listing the names, for an unknown one, and for layers the encoder lacks.
    """
    if not isinstance(name, str):
        raise _unknown(name)
    text = "".join(name.split())
    match = re.fullmatch(r"(layers=\([^()]*\)|[^,()]+)((?:,[a-z]+)*)", text)
    if match is None:
        raise _unknown(name)
    base, words = match.group(1), match.group(2).split(",")[1:]
    simple = {"avg": "mean", "released-cls": "pooler"}.get(base, base)
    if simple in _TOKENS:
        if words:
            raise ConfigError(f"pooling {shown(name)}: nothing may follow {simple!r}")
        return PoolingSpec((num_layers,), tokens=simple)
    layers = _layers(base, num_layers, name)
    tokens = [word for word in words if word in ("mean", "cls", "max")]
    if len(tokens) > 1 or len(words) - len(tokens) > 1 or set(words) - {*tokens, "concat"}:
        raise _unknown(name)
    reduce = "concat" if "concat" in words else "mean"
    return PoolingSpec(layers, tokens[0] if tokens else "mean", reduce)


def _unknown(name: object) -> ConfigError:
    return ConfigError(f"unknown pooling {shown(name)}; the names are: {POOLING_NAMES}")


def _layers(base: str, num_layers: int, name: str) -> tuple[int, ...]:
    """Resolve the layers of a name that is not about the last layer alone."""
    if base == "first_last":
        return tuple(dict.fromkeys((1, num_layers)))
    if base == "embedding_last":
        return (0, num_layers)
    if base.startswith("layers="):
        return _listed_layers(base.removeprefix("layers="), num_layers, name)
    if match := re.fullmatch(r"last([1-9]\d*)", base):
        count = _count(match, num_layers, name)
        return tuple(range(num_layers - count + 1, num_layers + 1))
    # One digit only: the released code reads just the last character of the name.
    if match := re.fullmatch(r"avg-last-last-([1-9])", base):
        return (num_layers - _count(match, num_layers, name) + 1,)
    if match := re.fullmatch(r"avg-last-(?:concat-)?([1-9])", base):
        encoder_layers = range(1, num_layers + 1)
        return tuple(encoder_layers[-i] for i in range(_count(match, num_layers, name)))
    raise _unknown(name)


def _count(match: re.Match[str], num_layers: int, name: str) -> int:
    # The length first: Python refuses to read thousands of digits.
    count = int(match.group(1)[:9])
    if count > num_layers:
        raise ConfigError(f"pooling {shown(name)}: the encoder has only {num_layers} layers")
    return count


def _listed_layers(listed: str, num_layers: int, name: str) -> tuple[int, ...]:
    try:
        numbers = [int(part) for part in listed.strip("()").split(",") if part]
    except ValueError:
        raise _unknown(name) from None
    layers = tuple(n + num_layers + 1 if n < 0 else n for n in numbers)
    if not layers:
        raise ConfigError(f"pooling {shown(name)}: names no layer")
    if any(not 0 <= layer <= num_layers for layer in layers):
        raise ConfigError(
            f"pooling {shown(name)}: layers go from 0 (embedding output) to {num_layers} (last); "
            f"-1 is the last, {-num_layers - 1} the embedding output"
        )
    if len(set(layers)) != len(layers):
        raise ConfigError(f"pooling {shown(name)}: a layer is listed twice")
    return layers


def pool_tokens(
    hidden: jax.Array, mask: jax.Array, tokens: str, slots: int | None = None
) -> jax.Array:
    """Reduce the tokens of one layer.

    Args:
      hidden: float[B, T, D].
      mask: int32[B, T], 1 for a token and 0 for padding; with `slots`, the number of the token's
        text in its row, 1 .. slots.
      tokens: `mean` (sum over the text's h_t / their number), `max` (over the text's h_t) or `cls`
        (the text's first h_t; also what `pooler` starts from).
      slots: texts a row. None means one, which is the row: its `cls` is h_0.

    Returns:
      float32[B * slots, D], summed in float32; zeros for a text without a token.
    """
    hidden, batch = hidden.astype(jnp.float32), mask.shape[0]
    member = _members(mask, slots)
    if tokens == "max" and slots is not None:
        # Through [B, slots, T, D] it would cost slots times as much.
        text = jnp.where(mask > 0, mask - 1 + slots * jnp.arange(batch)[:, None], batch * slots)
        pooled = jax.ops.segment_max(
            hidden.reshape(-1, hidden.shape[-1]), text.reshape(-1), batch * slots + 1
        )[:-1]
    elif tokens == "max":
        pooled = jnp.where(mask[:, :, None] > 0, hidden, -jnp.inf).max(axis=1)
    elif tokens == "mean":
        weights = member.astype(jnp.float32)
        count = jnp.maximum(weights.sum(axis=2, keepdims=True), 1.0)
        pooled = product("bst,btd->bsd", weights, hidden) / count
    elif slots is not None:
        first = jnp.argmax(member, axis=2)
        pooled = jnp.take_along_axis(hidden, first[:, :, None], axis=1)
    else:
        pooled = hidden[:, 0]
    return zero_empty(pooled.reshape(-1, hidden.shape[-1]), mask, slots)


def _members(mask: jax.Array, slots: int | None) -> jax.Array:
    """Return bool[B, S, T]: is token t of text s?"""
    if slots is None:
        return (mask > 0)[:, None, :]
    return mask[:, None, :] == jnp.arange(1, slots + 1)[:, None]


def zero_empty(pooled: jax.Array, mask: jax.Array, slots: int | None = None) -> jax.Array:
    """Set the texts of float[B * slots, D] to zero that have no token in the mask int32[B, T]."""
    return jnp.where(_members(mask, slots).any(axis=2).reshape(-1, 1), pooled, 0.0)


def pool_layers(per_layer: jax.Array, spec: PoolingSpec) -> jax.Array:
    """Combine the chosen layers of float32[L + 1, B, D] into float32[B, spec.dimension(D)]."""
    chosen = [per_layer[layer] for layer in spec.layers]
    if spec.reduce == "concat":
        return jnp.concatenate(chosen, axis=-1)
    return sum(chosen[1:], start=chosen[0]) / len(chosen)
