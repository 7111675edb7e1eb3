"""`SentenceEncoder`: texts in, one vector a text out."""

# Before the imports, which take seconds: a wrong flag is reported and Ctrl-C heeded without them.
if __name__ == "__main__":
    from bertflow_jax.interrupt import end_at_once

    end_at_once()

    from absl import flags

    from bertflow_jax import cli, embed_flags

    # --help shows the docstring of this module and the flags it has adopted.
    __doc__ = embed_flags.__doc__
    flags.adopt_module_key_flags(embed_flags)
    cli.run(embed_flags.main)

import dataclasses
import functools
import os
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from bertflow_jax.batch_embed import BatchEmbedder, EmbedFn
from bertflow_jax.data.batches import pad
from bertflow_jax.data.tokens import check_text, iter_texts
from bertflow_jax.digests import tree_digest
from bertflow_jax.encoder.bert_config import COMPUTE_DTYPES, BertConfig
from bertflow_jax.encoder.embedding import make_embed_fn
from bertflow_jax.encoder.pooling import PoolingSpec
from bertflow_jax.encoder.pretrained import Encoder, load_encoder, save_encoder
from bertflow_jax.errors import ConfigError, InputError
from bertflow_jax.postprocess.base import PostProcessor, PureTransform
from bertflow_jax.progress import progress_bar
from bertflow_jax.workdir import prepare_output


class SentenceEncoder:
    """Texts to vectors.

    Attributes:
      encoder: the encoder with its tokenizer and pooling.
      params: {"encoder": ..., and the name of the post-processor: ... if there is one}; pass it
        to `embed_fn`.
      embed_fn: the pure function (params, input_ids int32[B, T], attention_mask int32[B, T],
        slots=None) -> float32[B, E], for use under your own `jax.jit`. A token id outside the
        embedding table gives NaN there; `encode` refuses it. With an int `slots` (static under jit)
        a row holds up to that many texts one after the other, the mask numbers them from 1, and
        the result is float32[B * slots, E].
      dimension: E, the length of a vector.
    """

    def __init__(self, encoder: Encoder, postprocess: PureTransform | None = None):
        self._postprocess = postprocess
        params: dict[str, Any] = {"encoder": encoder.params}
        if postprocess is not None:
            params[postprocess.name] = postprocess.params
        self.embed_fn = _embed_fn(encoder, postprocess)
        self._embedder = BatchEmbedder(self.embed_fn, params, encoder.tokenizer, encoder.dtype)
        self.params: dict[str, Any] = self._embedder.params
        self.encoder = dataclasses.replace(encoder, params=self.params["encoder"])
        self.dimension: int = self._embedder.dimension

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
        _check_settings(pooling, max_length, dtype)
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
        cls, workdir: str | os.PathLike[str], step: int | str | None = None
    ) -> "SentenceEncoder":
        """Load the encoder and the fitted flow of a `train.py` run: `encode` gives latents.

        Args:
          workdir: of the run.
          step: of the checkpoint; `best` takes that with the best score, None the newest good one.

        Raises a `BertFlowError`: DataNotFoundError or CheckpointError.
        """
        from bertflow_jax.restore import load_run  # it builds on this module

        run = load_run(workdir, step)
        return run.encoder.with_postprocess(run.flow)

    def with_postprocess(self, processor: PostProcessor) -> "SentenceEncoder":
        """Return an encoder whose vectors go through a fitted `Flow`, `Whitening`, ... as well.

        Both run in one compiled call. Raises InputError where this encoder has one already, or the
        processor was fitted on vectors of another length.
        """
        if self._postprocess is not None:
            raise InputError(
                f"this encoder's vectors go through a {self._postprocess.name} already; start from "
                "the encoder without it, or put both into a Compose"
            )
        if not callable(getattr(processor, "pure", None)):
            raise InputError(
                f"a fitted Flow, Whitening, ... is needed, not {type(processor).__name__}"
            )
        pure = processor.pure()
        if processor.features != self.dimension:
            raise InputError(
                f"the {pure.name} was fitted on {processor.features} dimensions, the encoder's "
                f"vectors have {self.dimension}"
            )
        return SentenceEncoder(self.encoder, pure)

    def encode(
        self,
        texts: str | Iterable[object],
        batch_size: int | None = None,
        normalize: bool = False,
        show_progress: bool | None = None,
        *,
        on_overflow: str = "warn",
    ) -> np.ndarray:
        """Embed texts.

        Args:
          texts: strings, as a list, an iterator, a pandas or a pyarrow column. A bare str gives one
            vector.
          batch_size: sentences of 16 tokens in one device call; of longer ones it takes fewer, so
            that every call has about as many tokens. None takes what suits the device; more than
            16,384 a device count as that.
          normalize: scale every vector to length 1 (zero vectors stay zero).
          show_progress: None shows a bar on a terminal when there are many texts.
          on_overflow: texts above max_length are cut; `warn` says once how many, `error` raises
            InputError, `ignore` is silent.

        Returns:
          float32[N, E] in the order of the texts, (0, E) for []; float32[E] for a bare str.
          Raises InputError for a text that is not a str (None, NaN, bytes), naming its row and
          type, and for an embedding that is not finite.
        """
        if isinstance(texts, str):
            return self.encode(
                [texts], batch_size, normalize, show_progress, on_overflow=on_overflow
            )[0]
        windows = self.encode_stream(texts, batch_size, normalize, on_overflow=on_overflow)
        parts = [np.zeros((0, self.dimension), np.float32)]
        total = len(texts) if isinstance(texts, Sized) else None
        with _progress_bar(total, show_progress) as bar:
            for part in windows:
                parts.append(part)
                bar.update(len(part))
        return np.concatenate(parts)

    def encode_stream(
        self,
        texts: Iterable[object],
        batch_size: int | None = None,
        normalize: bool = False,
        *,
        on_overflow: str = "warn",
        window: int | None = None,
        first_row: int = 0,
    ) -> Iterator[np.ndarray]:
        """Embed an iterator of any length in flat memory.

        It is read one window ahead, in the thread that asks for the vectors.
        Yields float32[n, E] for every `window` texts, in input order; `first_row` is the row number
        of the first text, for messages. The other arguments and the errors are those of `encode`.
        """
        return self._embedder.windows(
            texts,
            batch_size,
            normalize=normalize,
            on_overflow=on_overflow,
            window=window,
            first_row=first_row,
        )

    def tokenize(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return input_ids and attention_mask for `embed_fn`, int32[N, T] both, T the longest."""
        tokenizer = self.encoder.tokenizer
        ids = tokenizer([check_text(text, row) for row, text in enumerate(iter_texts(texts))]).ids
        return pad(ids, tokenizer.pad_id)

    def warmup(self, batch_size: int | None = None) -> tuple[tuple[int, int], ...]:
        """Compile every shape [R, T] that `encode` uses with this batch_size; return the shapes.

        At most ten up to 512 tokens. With the compilation cache (see
        `bertflow_jax.compilation.use_compilation_cache`) later processes load them.
        """
        return self._embedder.warmup(batch_size)

    @property
    def compiled_shapes(self) -> tuple[tuple[int, int], ...]:
        """The shapes [R, T] compiled so far; encoders of one architecture share them."""
        return self._embedder.compiled_shapes()

    @property
    def cut_texts(self) -> int:
        """How many of all texts embedded so far were longer than max_length, and so cut."""
        return self._embedder.cut

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

    def describe(self) -> dict[str, Any]:
        """Return what decides the vectors of `encode`: the identity, and the post-processor's."""
        after = None
        if self._postprocess is not None:
            digest = tree_digest(self._postprocess.params)
            after = {"name": self._postprocess.name, "sha256": digest}
        return {**self.identity(), "postprocess": after}

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the encoder in Hugging Face layout, with its pooling, length and normalisation.

        `from_pretrained(folder)` gives the same vectors; sentence-transformers reads the folder
        too where its Pooling module can say the same. Raises InputError with a post-processor,
        which this layout has no place for, and WorkdirError where the folder cannot be made.
        """
        if self._postprocess is not None:
            raise InputError(
                f"save_pretrained writes the encoder alone; the {self._postprocess.name} is saved "
                "by its own save(folder), for with_postprocess(postprocess.load(folder)), or is in "
                "the checkpoint it was loaded from"
            )
        save_encoder(self.encoder, prepare_output(os.fspath(folder), "folder"))


def _check_settings(pooling: object, max_length: object, dtype: object) -> None:
    """Refuse what would count as not given."""
    if isinstance(pooling, str) and not pooling.strip():
        raise ConfigError("pooling is blank; name one, or leave it out")
    if max_length is not None and not max_length:
        raise ConfigError(
            f"max_length={max_length!r} must be an integer >= 3: [CLS], a token, [SEP]"
        )
    if not isinstance(dtype, str):
        raise ConfigError(f"dtype={dtype!r}: one of {', '.join(COMPUTE_DTYPES)} is needed")


def _embed_fn(encoder: Encoder, postprocess: PureTransform | None) -> EmbedFn:
    plain = _plain_embed_fn(
        encoder.config, encoder.pooling, COMPUTE_DTYPES[encoder.dtype], encoder.normalize
    )
    if postprocess is None:
        return plain

    def embed(
        params: Any, input_ids: jax.Array, attention_mask: jax.Array, slots: int | None = None
    ) -> jax.Array:
        u = plain(params, input_ids, attention_mask, slots)
        return postprocess.transform(params[postprocess.name], u)

    return embed


# One function per architecture: jax.jit compiles it once for all encoders that share it.
@functools.lru_cache(maxsize=64)
def _plain_embed_fn(
    config: BertConfig, pooling: PoolingSpec, dtype: Any, normalize: bool
) -> EmbedFn:
    pooled = make_embed_fn(config, pooling, dtype, normalize)

    def embed(
        params: Any, input_ids: jax.Array, attention_mask: jax.Array, slots: int | None = None
    ) -> jax.Array:
        return pooled(params["encoder"], input_ids, attention_mask, slots=slots)

    return embed


def _progress_bar(total: int | None, show: bool | None) -> tqdm:
    # disable=None: tqdm shows the bar only on a terminal.
    disable = (None if total is None or total > 1000 else True) if show is None else not show
    return progress_bar(total=total, unit="text", desc="embed", disable=disable)
