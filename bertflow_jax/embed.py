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
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any

import numpy as np

from bertflow_jax.batch_embed import BatchEmbedder
from bertflow_jax.data.batches import pad
from bertflow_jax.data.texts import check_text, iter_texts
from bertflow_jax.digests import tree_digest
from bertflow_jax.embed_functions import check_both, check_width, embedding_function, pure_of
from bertflow_jax.embed_saved import SavedEncoders
from bertflow_jax.encoder.origin import check_origin
from bertflow_jax.encoder.pretrained import Encoder
from bertflow_jax.encoder.usage import with_prompt
from bertflow_jax.errors import InputError
from bertflow_jax.hub_interface import HubInterface
from bertflow_jax.postprocess.base import PostProcessor, PureTransform
from bertflow_jax.progress import text_progress_bar
from bertflow_jax.st_arguments import ResultForm, sentence_transformers_names
from bertflow_jax.st_interface import SentenceTransformersInterface


class SentenceEncoder(SavedEncoders, SentenceTransformersInterface, HubInterface):
    """Texts to vectors; the methods that load and save are in `embed_saved`, those of
    sentence-transformers in `st_interface`, `push_to_hub` in `hub_interface`.

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
      processor: the post-processor that the vectors go through, None without one.
    """

    def __init__(
        self,
        encoder: Encoder,
        postprocess: PureTransform | None = None,
        processor: PostProcessor | None = None,
    ):
        if not isinstance(encoder, Encoder):
            raise InputError(
                f"a loaded Encoder is needed, not {type(encoder).__name__}: "
                "SentenceEncoder.from_pretrained takes a folder or a Hub id, from_checkpoint a "
                "workdir"
            )
        check_both(postprocess, processor)
        if processor is not None:
            check_width(processor, encoder.pooling.dimension(encoder.config.hidden_size))
        check_origin(processor, encoder)
        self._postprocess = postprocess
        self.processor = processor
        params: dict[str, Any] = {"encoder": encoder.params}
        if postprocess is not None:
            params[postprocess.name] = postprocess.params
        self.embed_fn = embedding_function(encoder, postprocess)
        self._embedder = BatchEmbedder(self.embed_fn, params, encoder.tokenizer, encoder.dtype)
        self.params: dict[str, Any] = self._embedder.params
        self.encoder = dataclasses.replace(encoder, params=self.params["encoder"])
        self.dimension: int = self._embedder.dimension

    def with_postprocess(self, processor: PostProcessor) -> "SentenceEncoder":
        """Return an encoder whose vectors go through a fitted `Flow`, `Whitening`, ... as well.

        Both run in one compiled call. Raises InputError where this encoder has one already, or the
        processor was fitted on vectors of another length or, as far as it is known, encoder.
        """
        if self._postprocess is not None:
            raise InputError(
                f"this encoder's vectors go through a {self._postprocess.name} already; start from "
                "the encoder without it (without_postprocess; with a pooling named, a folder's own "
                "is left out), or put both into a Compose"
            )
        pure = pure_of(processor, self.dimension)
        return SentenceEncoder(self.encoder, pure, processor)

    def without_postprocess(self) -> "SentenceEncoder":
        """Return the encoder alone: its vectors are those that a post-processor is fitted on."""
        return self if self._postprocess is None else SentenceEncoder(self.encoder)

    @sentence_transformers_names
    def encode(
        self,
        texts: str | Iterable[object],
        batch_size: int | None = None,
        normalize: bool = False,
        show_progress: bool | None = None,
        *,
        on_overflow: str = "warn",
        truncate_dim: int | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
    ) -> np.ndarray:
        """Embed texts.

        The names of sentence-transformers are taken too: `sentences` or `inputs` for texts,
        `normalize_embeddings`, `show_progress_bar`; see `st_arguments` for what is refused.

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
          truncate_dim: dimensions kept, the first ones (all if fewer); before `normalize`.
          prompt: put before every text; prompt_name takes one of the encoder's `prompts`. None
            takes the folder's default prompt, "" none.
          prompt_name: see prompt.
          convert_to_numpy: False gives a list of float32[E].
          convert_to_tensor: True gives a PyTorch tensor on the CPU.

        Returns:
          float32[N, E] in the order of the texts, (0, E) for []; float32[E] for a bare str.
          Raises InputError for a text that is not a str (None, NaN, bytes), naming its row and
          type, for an embedding that is not finite and for an argument that cannot be heeded.
        """
        form = ResultForm(truncate_dim, normalize, convert_to_numpy, convert_to_tensor)
        before = self.encoder.usage.prompt(prompt, prompt_name)
        rows = [texts] if isinstance(texts, str) else texts
        windows = self._windows(
            rows, batch_size, form.unit_first, on_overflow=on_overflow, prompt=before
        )
        parts = [np.zeros((0, form.width(self.dimension)), np.float32)]
        total = len(rows) if isinstance(rows, Sized) else None
        with text_progress_bar(total, show_progress) as bar:
            for part in windows:
                parts.append(form.shorten(part))
                bar.update(len(part))
        return form.convert(np.concatenate(parts), single=rows is not texts)

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
        of the first text, for messages. The other arguments and the errors are those of `encode`;
        the folder's default prompt is heeded.
        """
        return self._windows(
            texts,
            batch_size,
            normalize,
            on_overflow=on_overflow,
            window=window,
            first_row=first_row,
            prompt=self.encoder.usage.prompt(),
        )

    def _windows(
        self, texts: Iterable[object], batch_size: int | None, normalize: bool, **options: Any
    ) -> Iterator[np.ndarray]:
        rows = with_prompt(texts, options.pop("prompt"))
        return self._embedder.windows(rows, batch_size, normalize=normalize, **options)

    def tokenize(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return input_ids and attention_mask for `embed_fn`, int32[N, T] both, T the longest.

        Of the texts as they are: no prompt is put before them.
        """
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

    def _limit(self, max_length: int) -> None:
        tokenizer = self.encoder.tokenizer.limited(
            max_length, self.encoder.config.max_position_embeddings
        )
        self.encoder = dataclasses.replace(self.encoder, tokenizer=tokenizer)
        self._embedder = BatchEmbedder(self.embed_fn, self.params, tokenizer, self.encoder.dtype)
