"""The pure functions from token ids to the vectors of a `SentenceEncoder`."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from bertflow_jax.batch_embed import EmbedFn
from bertflow_jax.encoder.bert_config import COMPUTE_DTYPES, BertConfig
from bertflow_jax.encoder.embedding import make_embed_fn
from bertflow_jax.encoder.pooling import PoolingSpec
from bertflow_jax.encoder.pretrained import Encoder
from bertflow_jax.errors import InputError, shown
from bertflow_jax.jax_settings import own_promotion
from bertflow_jax.postprocess.base import PostProcessor, PureTransform


def embedding_function(encoder: Encoder, postprocess: PureTransform | None) -> EmbedFn:
    """Return `SentenceEncoder.embed_fn`; see there."""
    plain = _plain_embed_fn(
        encoder.config, encoder.pooling, COMPUTE_DTYPES[encoder.dtype], encoder.normalize
    )
    if postprocess is None:
        return plain
    return _processed_embed_fn(plain, postprocess.name, postprocess.transform)


# One function per architecture: jax.jit compiles it once for all encoders that share it.
@functools.lru_cache(maxsize=64)
def _processed_embed_fn(
    plain: EmbedFn, name: str, transform: Callable[[Any, jax.Array], jax.Array]
) -> EmbedFn:
    @own_promotion()
    def embed(
        params: Any, input_ids: jax.Array, attention_mask: jax.Array, slots: int | None = None
    ) -> jax.Array:
        return transform(params[name], plain(params, input_ids, attention_mask, slots))

    return embed


@functools.lru_cache(maxsize=64)
def _plain_embed_fn(
    config: BertConfig, pooling: PoolingSpec, dtype: Any, normalize: bool
) -> EmbedFn:
    pooled = make_embed_fn(config, pooling, dtype, normalize)

    @own_promotion()
    def embed(
        params: Any, input_ids: jax.Array, attention_mask: jax.Array, slots: int | None = None
    ) -> jax.Array:
        return pooled(params["encoder"], input_ids, attention_mask, slots=slots)

    return embed


def pure_of(processor: PostProcessor, dimension: int) -> PureTransform:
    """Return a post-processor's function; raises InputError unless it takes float[N, dimension]."""
    if isinstance(processor, type) or not callable(getattr(processor, "pure", None)):
        raise InputError(f"a fitted Flow, Whitening, ... is needed, not {_shown(processor)}")
    pure = processor.pure()
    check_width(processor, dimension)
    # Before anything is embedded, exported or saved with it.
    for path, leaf in jax.tree_util.tree_leaves_with_path(pure.params):
        if not np.isfinite(np.asarray(leaf)).all():
            raise InputError(
                f"the {pure.name}'s {jax.tree_util.keystr(path, simple=True, separator='/')} holds "
                "a number that is not finite; fit it anew"
            )
    return pure


def check_width(processor: PostProcessor, dimension: int) -> None:
    """Raise InputError unless a fitted post-processor takes float[N, dimension]."""
    for name in ("features", "name"):
        if not hasattr(processor, name):
            raise InputError(f"{type(processor).__name__} is no post-processor: it has no {name}")
    if processor.features != dimension:
        raise InputError(
            f"the {processor.name} was fitted on {processor.features} dimensions, the encoder's "
            f"vectors have {dimension}"
        )


def check_both(postprocess: object, processor: object) -> None:
    """Raise InputError unless they may be the function of an encoder, and what it is made from."""
    if postprocess is not None and not isinstance(postprocess, PureTransform):
        raise InputError(
            f"postprocess is a PureTransform, not {type(postprocess).__name__}; "
            "with_postprocess takes a fitted Flow, Whitening, ..."
        )
    if processor is not None and (postprocess is None or not hasattr(processor, "pure")):
        raise InputError(
            f"processor={shown(processor)}: must be what postprocess was made from; "
            "with_postprocess sets both"
        )


def _shown(processor: object) -> str:
    return (
        f"the class {processor.__name__}"
        if isinstance(processor, type)
        else type(processor).__name__
    )
