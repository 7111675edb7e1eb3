"""`SentenceEncoder`: texts in, one vector a text out.

Texts are tokenized, sorted by length into a bounded set of padded shapes, and embedded by one
compiled function per shape.
"""

import collections
import dataclasses
import functools
import os
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from bertflow_jax.checks import check_count
from bertflow_jax.data.tokens import TokenBatch, check_texts, make_batches
from bertflow_jax.encoder.bert_config import COMPUTE_DTYPES, BertConfig
from bertflow_jax.encoder.embedding import make_embed_fn, unit_length
from bertflow_jax.encoder.pooling import PoolingSpec
from bertflow_jax.encoder.pretrained import Encoder, load_encoder, save_encoder
from bertflow_jax.errors import InputError
from bertflow_jax.flow import glow
from bertflow_jax.postprocess.flow import Flow
from bertflow_jax.workdir import prepare_output

EmbedFn = Callable[[Any, jax.Array, jax.Array], jax.Array]


@dataclasses.dataclass(frozen=True)
class PostProcessor:
    """What happens to pooled embeddings before they leave: a fitted flow, a whitening, ...

    Attributes:
      name: key of its parameters in `SentenceEncoder.params`, as `flow`.
      transform: pure function (params, u float32[B, E]) -> z float32[B, E'].
      params: its parameters, a pytree.
    """

    name: str
    transform: Callable[[Any, jax.Array], jax.Array]
    params: Any


def flow_processor(flow: Flow) -> PostProcessor:
    """Return a fitted flow as a post-processor, embedding -> latent."""
    config = flow.config

    def transform(variables: Any, u: jax.Array) -> jax.Array:
        return glow.bijector(config, variables, u.shape[-1]).forward(u)

    return PostProcessor("flow", transform, flow.variables)


class SentenceEncoder:
    """Texts to vectors.

    Attributes:
      encoder: the encoder with its tokenizer and pooling.
      params: {"encoder": ..., and the name of the post-processor: ... if there is one}; pass it
        to `embed_fn`.
      embed_fn: the pure function (params, input_ids int32[B, T], attention_mask int32[B, T]) ->
        float32[B, E], for use under your own `jax.jit`. A token id outside the embedding table
        gives NaN there; `encode` refuses it.
      dimension: E, the length of a vector.
    """

    def __init__(self, encoder: Encoder, postprocess: PostProcessor | None = None):
        params = jax.tree.map(jnp.asarray, encoder.params)
        self.encoder = dataclasses.replace(encoder, params=params)
        self._postprocess = postprocess
        self.params: dict[str, Any] = {"encoder": params}
        if postprocess is not None:
            self.params[postprocess.name] = jax.tree.map(jnp.asarray, postprocess.params)
        self.embed_fn = _embed_fn(encoder, postprocess)
        self._compiled = jax.jit(self.embed_fn)
        ids = jax.ShapeDtypeStruct((1, 3), jnp.int32)
        self.dimension: int = jax.eval_shape(self.embed_fn, self.params, ids, ids).shape[-1]

    @classmethod
    def from_pretrained(
        cls,
        path_or_hub_id: str | os.PathLike[str],
        pooling: str | None = None,
        max_length: int | None = None,
        dtype: str = "float32",
        *,
        do_lower_case: bool | None = None,
        revision: str | None = None,
    ) -> "SentenceEncoder":
        """Load a BERT-family encoder.

        Args:
          path_or_hub_id: `mini_bert` (comes with the package), a folder in Hugging Face or
            sentence-transformers layout, or a Hub id.
          pooling: a name of `encoder.pooling`. None takes the folder's own (with its
            normalisation), or `mean`. A name replaces the folder's pooling AND normalisation.
          max_length: tokens a text, [CLS] and [SEP] included; replaces the folder's
            max_seq_length. None takes the folder's, the tokenizer's or the position table's limit.
          dtype: compute type, `float32` or `bfloat16`; parameters stay float32.
          do_lower_case: for a folder with a vocab.txt and no word on lower-casing.
          revision: branch, tag or commit of a Hub id.

        Raises a `BertFlowError`: DataNotFoundError, ConfigError, UnsupportedModelError or
        WeightsError.
        """
        return cls(
            load_encoder(
                path_or_hub_id,
                pooling,
                max_length,
                dtype,
                do_lower_case=do_lower_case,
                revision=revision,
            )
        )

    @classmethod
    def from_checkpoint(
        cls, workdir: str | os.PathLike[str], step: int | None = None
    ) -> "SentenceEncoder":
        """Load the encoder and the fitted flow of a `train.py` run: `encode` gives latents.

        Args:
          workdir: of the run.
          step: of the checkpoint; None takes the newest good one.

        Raises a `BertFlowError`: DataNotFoundError or CheckpointError.
        """
        from bertflow_jax.restore import load_run  # it builds on this module

        run = load_run(workdir, step)
        return cls(run.encoder.encoder, flow_processor(run.flow))

    def encode(
        self,
        texts: str | Iterable[str],
        batch_size: int = 64,
        normalize: bool = False,
        show_progress: bool | None = None,
    ) -> np.ndarray:
        """Embed texts.

        Args:
          texts: strings; longer ones than max_length are cut. A bare str gives one vector.
          batch_size: sentences of the shortest length bucket in one device call; longer buckets
            take fewer, so that a call has about the same number of tokens.
          normalize: scale every vector to length 1 (zero vectors stay zero).
          show_progress: None shows a bar on a terminal when there are many texts.

        Returns:
          float32[N, E] in the order of the texts, (0, E) for []; float32[E] for a bare str.
          Raises InputError for a text that is not a str, naming its row and type, and for an
          embedding that is not finite.
        """
        if isinstance(texts, str):
            return self.encode([texts], batch_size, normalize, show_progress)[0]
        batch_size = check_count(batch_size, "batch_size", 1)
        rows = check_texts(texts)
        tokenizer = self.encoder.tokenizer
        ids = tokenizer(rows).ids if rows else []
        batches = make_batches(ids, tokenizer.pad_id, batch_size, tokenizer.max_length)
        vectors = np.zeros((len(rows), self.dimension), np.float32)
        with _progress_bar(len(rows), show_progress) as bar:
            for batch, embedded in self._run(batches):
                vectors[batch.rows] = embedded[: len(batch.rows)]
                bar.update(len(batch.rows))
        _require_finite(vectors)
        return np.asarray(unit_length(jnp.asarray(vectors))) if normalize else vectors

    def _run(self, batches: Iterable[TokenBatch]) -> Iterable[tuple[TokenBatch, np.ndarray]]:
        """Embed batches, keeping the device one call ahead of the host."""
        waiting: collections.deque[tuple[TokenBatch, jax.Array]] = collections.deque()
        for batch in batches:
            result = self._compiled(self.params, batch.input_ids, batch.attention_mask)
            waiting.append((batch, result))
            if len(waiting) > 1:
                done, embedded = waiting.popleft()
                yield done, np.asarray(embedded)
        for done, embedded in waiting:
            yield done, np.asarray(embedded)

    def __repr__(self) -> str:
        """Return what a reader of a notebook wants to know."""
        config = self.encoder.config
        after = f", then {self._postprocess.name}" if self._postprocess else ""
        return (
            f"SentenceEncoder({config.num_hidden_layers} layers x {config.hidden_size}, pooling "
            f"{self.encoder.pooling}{after}, dimension {self.dimension}, at most "
            f"{self.encoder.tokenizer.max_length} tokens, {self.encoder.dtype})"
        )

    def identity(self) -> dict[str, Any]:
        """Return what decides the encoder's vectors, without the post-processor (JSON-safe)."""
        return self.encoder.identity()

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the encoder in Hugging Face layout, with its pooling, length and normalisation.

        `from_pretrained(folder)` gives the same vectors; sentence-transformers reads the folder
        too where its Pooling module can say the same. Raises InputError with a post-processor,
        which this layout has no place for, and WorkdirError where the folder cannot be made.
        """
        if self._postprocess is not None:
            raise InputError(
                f"save_pretrained writes the encoder alone; save the {self._postprocess.name} "
                "with its checkpoint"
            )
        save_encoder(self.encoder, prepare_output(os.fspath(folder), "folder"))


def _embed_fn(encoder: Encoder, postprocess: PostProcessor | None) -> EmbedFn:
    plain = _plain_embed_fn(
        encoder.config, encoder.pooling, COMPUTE_DTYPES[encoder.dtype], encoder.normalize
    )
    if postprocess is None:
        return plain

    def embed(params: Any, input_ids: jax.Array, attention_mask: jax.Array) -> jax.Array:
        u = plain(params, input_ids, attention_mask)
        return postprocess.transform(params[postprocess.name], u)

    return embed


# One function per architecture: jax.jit compiles it once for all encoders that share it.
@functools.lru_cache(maxsize=64)
def _plain_embed_fn(
    config: BertConfig, pooling: PoolingSpec, dtype: Any, normalize: bool
) -> EmbedFn:
    pooled = make_embed_fn(config, pooling, dtype, normalize)

    def embed(params: Any, input_ids: jax.Array, attention_mask: jax.Array) -> jax.Array:
        return pooled(params["encoder"], input_ids, attention_mask)

    return embed


def _progress_bar(total: int, show: bool | None) -> tqdm:
    # disable=None: tqdm shows the bar only on a terminal.
    disable = (None if total > 1000 else True) if show is None else not show
    return tqdm(total=total, unit="text", desc="embed", disable=disable)


def _require_finite(vectors: np.ndarray) -> None:
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise InputError(
            f"the embedding of row {bad[0]} is not finite ({len(bad)} rows in all); with "
            "dtype='bfloat16' try 'float32', else the weights are broken"
        )
