"""An encoder with its tokenizer and pooling: loading it from a folder and saving it."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bertflow_jax.data.json_files import write_json
from bertflow_jax.data.tokens import TextTokenizer, check_max_length
from bertflow_jax.encoder.bert import Params
from bertflow_jax.encoder.bert_config import COMPUTE_DTYPES, BertConfig, read_config
from bertflow_jax.encoder.folder import (
    OWN_SETTINGS,
    EncoderFolder,
    read_folder,
    write_folder_settings,
)
from bertflow_jax.encoder.hf_layout import params_digest, save_params
from bertflow_jax.encoder.hf_weights import WeightAudit, load_params
from bertflow_jax.encoder.hub import resolve_folder
from bertflow_jax.encoder.own_settings import check_own_settings
from bertflow_jax.encoder.pooling import POOLING_NAMES, PoolingSpec, parse_pooling
from bertflow_jax.encoder.usage import Usage, read_usage, write_usage
from bertflow_jax.errors import ConfigError, WeightsError, shown


@dataclasses.dataclass(frozen=True)
class Encoder:
    """A loaded encoder and how it is used.

    Attributes:
      config: shape and numerics.
      params: the float32 tree of `bert.init_params`.
      tokenizer: with its maximum length.
      pooling: from hidden states to one vector.
      dtype: compute dtype, `float32` or `bfloat16`.
      normalize: scale every vector to length 1.
      lower_first: texts are lower-cased before the tokenizer sees them.
      audit: what became of every tensor of the weight file; None if there was no file.
      usage: prompts and similarity.
    """

    config: BertConfig
    params: Params = dataclasses.field(repr=False)
    tokenizer: TextTokenizer
    pooling: PoolingSpec
    dtype: str = "float32"
    normalize: bool = False
    lower_first: bool = False
    audit: WeightAudit | None = dataclasses.field(default=None, repr=False)
    usage: Usage = dataclasses.field(default_factory=Usage)

    def __post_init__(self) -> None:
        """Refuse a dtype or a pooling that this encoder cannot have."""
        if self.dtype not in COMPUTE_DTYPES:
            raise ConfigError(
                f"dtype={shown(self.dtype)}: one of {', '.join(COMPUTE_DTYPES)} is needed"
            )
        if self.pooling.tokens == "pooler" and "pooler" not in self.params:
            raise WeightsError(
                "pooling 'pooler' needs pooler.dense.weight and pooler.dense.bias, which the "
                "weight file does not have; use cls, mean or another pooling"
            )

    def identity(self) -> dict[str, Any]:
        """Return what decides the vectors, JSON-safe; equal identities give equal vectors."""
        prompt = self.usage.prompts.get(self.usage.default_prompt_name or "", "")
        return {
            "weights_sha256": params_digest(self.params),
            # What the config alone says: the same weights with other heads are another encoder.
            "num_attention_heads": self.config.num_attention_heads,
            "hidden_act": self.config.hidden_act,
            "layer_norm_eps": self.config.layer_norm_eps,
            "lower_first": self.lower_first,
            "tokenizer_sha256": self.tokenizer.digest(),
            "pooling": str(self.pooling),
            "max_length": self.tokenizer.max_length,
            "dtype": self.dtype,
            "normalize": self.normalize,
            "num_parameters": sum(np.size(x) for x in jax.tree.leaves(self.params)),
            **({"prompt": prompt} if prompt else {}),
        }


def load_encoder(
    path_or_hub_id: str | os.PathLike[str],
    pooling: str | None = None,
    max_length: int | None = None,
    dtype: str = "float32",
    *,
    do_lower_case: bool | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    local_files_only: bool = False,
) -> Encoder:
    """Load an encoder; the arguments are those of `SentenceEncoder.from_pretrained`."""
    place = resolve_folder(
        path_or_hub_id,
        revision,
        token=token,
        cache_dir=cache_dir,
        local_files_only=local_files_only,
    )
    folder, usage = read_folder(place), read_usage(place)
    config = read_config(folder.path)
    try:
        spec = parse_pooling(pooling or folder.pooling or "mean", config.num_hidden_layers)
    except ConfigError as error:
        raise error if pooling else ConfigError(f"{place / OWN_SETTINGS}: {error}") from None
    if not pooling:
        check_own_settings(place, folder, spec, config.num_hidden_layers)
    tokenizer = TextTokenizer.from_folder(
        folder.path,
        vocab_size=config.vocab_size,
        positions=config.max_position_embeddings,
        max_length=max_length,
        default_max_length=folder.max_length,
        do_lower_case=do_lower_case,
        lower_first=folder.lower_first,
    )
    params, audit = load_params(folder.path, config)
    return Encoder(
        config=config,
        params=params,
        tokenizer=tokenizer,
        pooling=spec,
        dtype=dtype,
        # The caller's pooling replaces the folder's Pooling and Normalize modules together.
        normalize=folder.normalize and not pooling,
        lower_first=folder.lower_first,
        audit=audit,
        usage=dataclasses.replace(usage, include_prompt=True) if pooling else usage,
    )


def save_encoder(encoder: Encoder, folder: Path) -> None:
    """Write an encoder in Hugging Face layout, with its pooling, length and normalisation."""
    folder.mkdir(parents=True, exist_ok=True)
    config = encoder.config
    write_json(folder / "config.json", config.to_hf_dict())
    save_params(encoder.params, folder / "model.safetensors")
    encoder.tokenizer.save(folder)
    settings = EncoderFolder(
        folder,
        normalize=encoder.normalize,
        max_length=encoder.tokenizer.max_length,
        lower_first=encoder.lower_first,
    )
    usage = encoder.usage
    write_folder_settings(
        settings,
        encoder.pooling,
        config.num_hidden_layers,
        config.hidden_size,
        usage.include_prompt,
    )
    write_usage(folder, usage)


def check_settings(
    pooling: object, max_length: object, dtype: object, do_lower_case: object = None
) -> None:
    """Raise ConfigError for a wrong type, and for what would count as not given."""
    if do_lower_case is not None and not isinstance(do_lower_case, bool):
        raise ConfigError(f"do_lower_case={shown(do_lower_case)}: must be True, False or None")
    if pooling is not None and not isinstance(pooling, str):
        raise ConfigError(f"unknown pooling {shown(pooling)}; the names are: {POOLING_NAMES}")
    if pooling is not None and not pooling.strip():
        raise ConfigError("pooling is blank; name one, or leave it out")
    if max_length is not None:
        check_max_length(max_length)
    if not isinstance(dtype, str):
        raise ConfigError(f"dtype={shown(dtype)}: one of {', '.join(COMPUTE_DTYPES)} is needed")
