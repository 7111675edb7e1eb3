"""The sections `encoder` and `flow` of the config: what the model is."""

import dataclasses

from bertflow_jax.checks import check_choice, check_least, check_types, require

# Far beyond what is of use; a device that has no room for more ends the process without a word.
_MOST_OF_A_FLOW = {"levels": 64, "depth": 256, "width": 16_384}


@dataclasses.dataclass
class EncoderConfig:
    """Which BERT, and how its hidden states become one vector a sentence.

    Attributes:
      path: local folder, Hub id, or `mini_bert` (the encoder that comes with the package).
      pooling: a name of `bertflow_jax.encoder.pooling`; "" takes what the folder says
        (sentence-transformers layout) or `mean`.
      max_length: tokens a sentence, [CLS] and [SEP] included; 0 takes what the folder says.
      dtype: compute type, `float32` or `bfloat16`. Parameters stay float32.
      batch_size: sentences of 16 tokens in one device call; 0 takes what suits the device.
      remat: in training, compute every layer's inside again in the backward pass instead of
        keeping it: less memory, about a third more work, the same numbers.
      revision: branch, tag or commit of a Hub id; "" takes its main branch. A commit keeps a run's
        encoder the same when the repository changes.
    """

    path: str = "mini_bert"
    pooling: str = ""
    max_length: int = 0
    dtype: str = "float32"
    batch_size: int = 0
    remat: bool = False
    revision: str = ""

    def validate(self, prefix: str = "encoder.") -> None:
        """Raise ConfigError for an impossible value."""
        check_types(self, prefix)
        require(bool(self.path.strip()), prefix + "path", self.path, "must not be empty")
        require(
            self.max_length == 0 or self.max_length >= 3,
            prefix + "max_length",
            self.max_length,
            "must be 0 (as the encoder says) or at least 3: [CLS], one token, [SEP]",
        )
        check_choice(prefix + "dtype", self.dtype, ("float32", "bfloat16"))
        check_least(self, prefix, batch_size=0)


@dataclasses.dataclass
class FlowConfig:
    """The Glow of BERT-flow; the defaults are the released `config_l3_d3_w32`.

    Attributes:
      levels: number of levels; level i works on the first D // 2**i channels.
      depth: steps a level (ActNorm, permutation, coupling).
      width: hidden units of the coupling's conditioner.
      coupling: `additive` (released) or `affine`.
      permutation: `reverse` (released: fixed reversal) or `plu` (learned 1x1 convolution, which
        wants a train.learning_rate of about 1e-4).
      activation: second hidden layer of the conditioner, `relu` (released) or `gatu`.
      dropout: dropout rate inside the conditioner while fitting.
      actnorm_init: `data` (mean 0, variance 1 on the first rows), `released` (Glorot uniform, as
        the published script really ran) or `identity`.
    """

    levels: int = 3
    depth: int = 3
    width: int = 32
    coupling: str = "additive"
    permutation: str = "reverse"
    activation: str = "relu"
    dropout: float = 0.0
    actnorm_init: str = "data"

    def validate(self, prefix: str = "flow.") -> None:
        """Raise ConfigError for an impossible value."""
        check_types(self, prefix)
        check_least(self, prefix, levels=1, depth=1, width=1)
        for name, most in _MOST_OF_A_FLOW.items():
            value = getattr(self, name)
            require(value <= most, prefix + name, value, f"must be <= {most}")
        check_choice(prefix + "coupling", self.coupling, ("additive", "affine"))
        check_choice(prefix + "permutation", self.permutation, ("reverse", "plu"))
        check_choice(prefix + "activation", self.activation, ("relu", "gatu"))
        check_choice(prefix + "actnorm_init", self.actnorm_init, ("data", "released", "identity"))
        require(0.0 <= self.dropout < 1.0, prefix + "dropout", self.dropout, "must be in [0, 1)")
