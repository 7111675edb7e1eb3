"""Texts to vectors in compiled batches: tokenizing, dispatch and results overlap.

    texts -> windows of a few thousand -> token ids (a thread, one window ahead) -> batches of known
    shapes, longest first -> device calls, a few ahead of the results -> vectors in input order

A window bounds what is held in memory, so a stream may be endless. What batches a window is cut
into depends on its texts alone: the same window gives the same bytes.
"""

import collections
import functools
import itertools
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bertflow_jax import compiled_steps, parallel
from bertflow_jax.checks import check_count, check_switch
from bertflow_jax.compilation import use_compilation_cache
from bertflow_jax.data.batches import BatchShapes, TokenBatch, make_batches, slots_of
from bertflow_jax.data.texts import check_text, iter_texts
from bertflow_jax.data.tokens import OVERFLOW, TextTokenizer, TokenRows
from bertflow_jax.encoder.embedding import unit_length
from bertflow_jax.errors import ConfigError, InputError, shown
from bertflow_jax.jax_settings import own_settings, refuse_fork

_log = logging.getLogger(__name__)
EmbedFn = Callable[..., jax.Array]  # `SentenceEncoder.embed_fn`
WINDOW = 4096  # texts, at least: enough that its one partly empty batch costs little
_AHEAD = 2  # device calls that wait while the result of an earlier one is fetched


class BatchEmbedder:
    """The compiled function of an encoder and the loop around it.

    Attributes:
      mesh: the devices that a batch is split over.
      params: of `embed_fn`, on all devices of the mesh.
      dimension: E, the length of a vector.
      cut: texts so far that were longer than the maximum length.
    """

    @own_settings()
    def __init__(self, embed_fn: EmbedFn, params: Any, tokenizer: TextTokenizer, dtype: str):
        """Put the parameters on the devices; nothing is compiled yet.

        Args:
          embed_fn: see `SentenceEncoder.embed_fn`.
          params: its parameters.
          tokenizer: of the encoder.
          dtype: the encoder's compute type, `float32` or `bfloat16`.
        """
        use_compilation_cache()
        self.mesh = parallel.local_mesh()
        self.params = parallel.replicate(params, self.mesh)
        self._tokenizer = tokenizer
        self.cut = 0
        self._call, self._traced = compiled_call(embed_fn, self.mesh, dtype == "float32")
        ids = jax.ShapeDtypeStruct((1, 3), jnp.int32)
        self.dimension: int = _shaped(embed_fn).eval_shape(self.params, ids, ids).shape[-1]

    def shapes(self, batch_size: int | None) -> BatchShapes:
        """Return the shapes that any input is cut into; None takes what suits the device."""
        if batch_size is None:
            batch_size = parallel.default_batch_size()
        count = check_count(batch_size, "batch_size", 1)
        return BatchShapes(self._tokenizer.max_length, count, self.mesh.size)

    def compiled_shapes(self) -> tuple[tuple[int, int], ...]:
        """Return the shapes compiled so far, in order; encoders of one architecture share them."""
        return tuple(self._traced)

    @own_settings()
    def warmup(self, batch_size: int | None) -> tuple[tuple[int, int], ...]:
        """Compile (or load from the compilation cache) every shape; return the shapes."""
        shapes = self.shapes(batch_size).all()
        for rows, length in shapes:
            ids = np.full((rows, length), self._tokenizer.pad_id, np.int32)
            jax.block_until_ready(self._run(ids, np.ones_like(ids), False))
        return shapes

    def windows(
        self,
        texts: Iterable[object],
        batch_size: int | None,
        *,
        normalize: bool = False,
        on_overflow: str = "warn",
        window: int | None = None,
        first_row: int = 0,
    ) -> Iterator[np.ndarray]:
        """Embed a stream; yields float32[n, E] for every `window` texts, in input order.

        Args:
          texts: strings; an iterator is read one window ahead, in the thread of the caller.
          batch_size: a device call has about 16 tokens for each.
          normalize: scale every vector to length 1.
          on_overflow: what to do about texts above the maximum length, which are cut: `warn` once
            at the end with their number, `error` at the first window that has one, `ignore`.
          window: texts a window; None takes `WINDOW`, or 64 batches of 16 tokens a text.
          first_row: row number of the first text, for messages.

        Raises:
          InputError: a row that is not a str, an id outside the embedding table, a vector that is
            not finite, and with on_overflow="error" a text that is too long.
          ConfigError: an unknown on_overflow.
        """
        refuse_fork()  # before a thread tokenizes
        if not isinstance(on_overflow, str) or on_overflow not in OVERFLOW:
            raise ConfigError(f"on_overflow={shown(on_overflow)}: one of {', '.join(OVERFLOW)}")
        normalize = check_switch(normalize, "normalize")
        first_row = check_count(first_row, "first_row", 0)
        shapes = self.shapes(batch_size)
        if window is None:
            window = max(WINDOW, 64 * shapes.batch_size)
        size = min(check_count(window, "window", 1), sys.maxsize)
        numbered = enumerate(iter_texts(texts), first_row)
        return self._windows(numbered, size, shapes, normalize, on_overflow, first_row)

    def _windows(
        self,
        numbered: Iterator[tuple[int, object]],
        size: int,
        shapes: BatchShapes,
        normalize: bool,
        on_overflow: str,
        first_row: int,
    ) -> Iterator[np.ndarray]:
        cut = total = 0
        with ThreadPoolExecutor(1, thread_name_prefix="tokenize") as thread:
            ahead = self._read(numbered, size, thread)
            while (tokens := ahead.result()).ids:
                ahead = self._read(numbered, size, thread)
                if tokens.truncated and on_overflow == "error":
                    raise InputError(
                        f"{tokens.truncated} of rows {first_row + total} to "
                        f"{first_row + total + len(tokens.ids) - 1} are longer than max_length="
                        f"{self._tokenizer.max_length} tokens; raise max_length, split them, or "
                        "set on_overflow to warn"
                    )
                vectors = self._embed(tokens.ids, shapes, normalize)
                self._require_finite(vectors, tokens.ids, shapes, first_row + total)
                cut, total = cut + tokens.truncated, total + len(tokens.ids)
                self.cut += tokens.truncated
                yield vectors
        if cut and on_overflow == "warn":
            _log.warning(
                "%d of %d texts are longer than max_length=%d tokens and were cut",
                cut,
                total,
                self._tokenizer.max_length,
            )

    def _read(
        self, numbered: Iterator[tuple[int, object]], size: int, thread: ThreadPoolExecutor
    ) -> "Future[TokenRows]":
        """Take the texts of a window here, where the caller's iterator belongs; a thread tokenizes.

        An error of the iterator waits for its turn: the windows before it come first.
        """
        try:
            part = list(itertools.islice(numbered, size))
            checked = [check_text(text, row) for row, text in part]
        except Exception as error:
            failed: Future[TokenRows] = Future()
            failed.set_exception(error)
            return failed
        return thread.submit(self._tokenizer, checked, part[0][0] if part else 0)

    @own_settings()
    def _embed(self, ids: Sequence[np.ndarray], shapes: BatchShapes, normalize: bool) -> np.ndarray:
        vectors = np.empty((len(ids), self.dimension), np.float32)
        waiting: collections.deque[tuple[TokenBatch, jax.Array]] = collections.deque()

        def fetch() -> None:
            batch, result = waiting.popleft()
            vectors[batch.texts] = np.asarray(result)[batch.slots]

        for batch in make_batches(ids, self._tokenizer.pad_id, shapes):
            result = self._run(batch.input_ids, batch.attention_mask, normalize)
            waiting.append((batch, result))
            if len(waiting) > _AHEAD:
                fetch()
        while waiting:
            fetch()
        return vectors

    def _run(self, input_ids: np.ndarray, mask: np.ndarray, normalize: bool) -> jax.Array:
        rows = parallel.split_batch((input_ids, mask), self.mesh)
        return self._call(self.params, *rows, normalize)

    def _require_finite(
        self,
        vectors: np.ndarray,
        ids: Sequence[np.ndarray],
        shapes: BatchShapes,
        first_row: int,
    ) -> None:
        bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if not len(bad):
            return
        # NaN spreads to the other texts of a row: the one to name is not finite alone either.
        alone = (
            row for row in bad if not np.isfinite(self._embed([ids[int(row)]], shapes, False)).all()
        )
        raise InputError(
            f"the embedding of row {first_row + next(alone, bad[0])} is not finite; with "
            "dtype='bfloat16' try 'float32', else the weights are broken"
        )


# jax.eval_shape keeps an entry of its own for every call.
@functools.lru_cache(maxsize=64)
def _shaped(embed_fn: EmbedFn) -> Any:
    return jax.jit(embed_fn)


@functools.lru_cache(maxsize=64)
def compiled_call(
    embed_fn: EmbedFn, mesh: Any, float32: bool
) -> tuple[Callable[..., Any], dict[Any, None]]:
    """Return the compiled embed_fn with normalisation, and the shapes it was traced for, in order.

    Whether to normalise is data: the same compiled shapes serve both.
    """
    traced: dict[tuple[int, int], None] = {}

    def embed(
        params: Any, input_ids: jax.Array, attention_mask: jax.Array, normalize: jax.Array
    ) -> jax.Array:
        rows, length = input_ids.shape
        traced[rows, length] = None
        vectors = embed_fn(params, input_ids, attention_mask, slots_of(length))
        vectors = vectors.astype(jnp.float32)
        return jnp.where(normalize, unit_length(vectors), vectors)

    return compiled_steps.compile_embed(embed, mesh, float32), traced
