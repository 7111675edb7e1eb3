"""The shape and the numerics of a BERT, read from `config.json`."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from bertflow_jax.data.json_files import is_there, read_json_object
from bertflow_jax.errors import ConfigError, DataNotFoundError, UnsupportedModelError


def _gelu_exact(x: jax.Array) -> jax.Array:
    return 0.5 * x * (1.0 + jax.lax.erf(x * 0.7071067811865476))


def _gelu_tanh(x: jax.Array) -> jax.Array:
    return jax.nn.gelu(x, approximate=True)


# The two forms of gelu differ by 1.5e-4 at 1.0; checkpoints are trained with one of them.
ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "gelu": _gelu_exact,
    "gelu_new": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "swish": jax.nn.silu,
}

COMPUTE_DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}

_SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """A BERT encoder as its `config.json` describes it.

    Attributes:
      vocab_size: rows of the word embedding table.
      hidden_size: D, the width of a hidden state.
      num_hidden_layers: L, encoder layers (the embedding output is not one of them).
      num_attention_heads: heads; D is a multiple of it.
      intermediate_size: width of the feed-forward layer.
      max_position_embeddings: rows of the position table, so the longest input in tokens.
      type_vocab_size: rows of the token type table; sentences use row 0.
      hidden_act: a key of `ACTIVATIONS`.
      layer_norm_eps: added to the variance in every LayerNorm.
      pad_token_id: as the model was trained; the tokenizer's own id is what batches use.
      hidden_dropout_prob: dropout after the embeddings and after each sublayer.
      attention_probs_dropout_prob: dropout of the attention weights.
    """

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    type_vocab_size: int = 2
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1

    def __post_init__(self) -> None:
        """Refuse impossible values: ConfigError, or UnsupportedModelError for hidden_act."""
        for name in (*_SIZES, "type_vocab_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"encoder config: {name}={value!r} must be an integer >= 1")
        if self.hidden_size % self.num_attention_heads:
            raise ConfigError(
                f"encoder config: hidden_size={self.hidden_size} is not a multiple of "
                f"num_attention_heads={self.num_attention_heads}"
            )
        if not isinstance(self.hidden_act, str) or self.hidden_act not in ACTIVATIONS:
            raise UnsupportedModelError(
                f"encoder config: hidden_act={self.hidden_act!r} is not supported; "
                f"supported: {', '.join(sorted(ACTIVATIONS))}"
            )
        if isinstance(self.pad_token_id, bool) or not isinstance(self.pad_token_id, int):
            raise ConfigError(
                f"encoder config: pad_token_id={self.pad_token_id!r} must be an integer"
            )
        for name, low, high in (
            ("layer_norm_eps", 0.0, 1.0),
            ("hidden_dropout_prob", 0.0, 1.0),
            ("attention_probs_dropout_prob", 0.0, 1.0),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ConfigError(f"encoder config: {name}={value!r} must be a number")
            if not low <= value < high:
                raise ConfigError(f"encoder config: {name}={value!r} must be in [{low}, {high})")

    @property
    def head_size(self) -> int:
        """Width of one attention head, D / heads."""
        return self.hidden_size // self.num_attention_heads

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], source: str = "config.json") -> "BertConfig":
        """Read the fields of a Hugging Face (or Google) BERT config.

        A config without `model_type` is taken for BERT if it has every size a BERT needs; the
        weights then decide. Raises UnsupportedModelError for another model type and for variants
        that would change the computation, ConfigError for a missing or impossible field.
        """
        _refuse_variants(fields, source)
        missing = [name for name in _SIZES if fields.get(name) is None]
        if missing:
            raise ConfigError(f"{source}: missing {', '.join(missing)}; is this a BERT config?")
        known = {field.name for field in dataclasses.fields(cls)}
        # null means "the default" for every field Hugging Face writes.
        given = {k: v for k, v in fields.items() if k in known and v is not None}
        try:
            return cls(**given)
        except (ConfigError, UnsupportedModelError) as error:
            raise type(error)(f"{source}: {error}") from None

    def to_hf_dict(self) -> dict[str, Any]:
        """Return the fields of a Hugging Face `config.json` for this encoder."""
        return {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "position_embedding_type": "absolute",
            **dataclasses.asdict(self),
        }


def _refuse_variants(fields: Mapping[str, Any], source: str) -> None:
    model_type = fields.get("model_type", "bert")
    if model_type != "bert":
        raise UnsupportedModelError(
            f"{source}: model_type={model_type!r} is not supported; only 'bert' is"
        )
    for name, supported in (
        ("position_embedding_type", "absolute"),
        ("is_decoder", False),
        ("add_cross_attention", False),
    ):
        value = fields.get(name)
        if value is not None and value != supported:
            raise UnsupportedModelError(
                f"{source}: {name}={value!r} is not supported; only {supported!r} is"
            )


def read_config(folder: Path) -> BertConfig:
    """Read `config.json` of an encoder folder."""
    path = folder / "config.json"
    if not is_there(path) and (folder / "checkpoints").is_dir():
        raise DataNotFoundError(
            f"{folder} is the folder of a run, not an encoder: give it as --workdir, in Python to "
            "SentenceEncoder.from_checkpoint"
        )
    return BertConfig.from_dict(read_json_object(path), source=str(path))
