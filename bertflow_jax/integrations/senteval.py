"""SentEval (Conneau & Kiela, 2018): its `prepare` and `batcher` for a `SentenceEncoder`.

    import senteval
    from bertflow_jax.integrations.senteval import make_batcher

    prepare, batcher = make_batcher(encoder)
    results = senteval.engine.SE({"task_path": "data"}, batcher, prepare).eval(["STS12", "STS13"])

SentEval tells `prepare` all sentences of a task and then asks for them in batches of a few dozen:
here `prepare` embeds the distinct ones together, and `batcher` looks them up. A sentence comes as a
list of words; they are joined with blanks, as SentEval's own examples for BERT do. With
"similarity": cosine among the params, STS12 to STS16 get the scores of evaluate.py; see `cosine`.
Nothing here imports SentEval.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from bertflow_jax.checks import check_count, check_switch
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.embedding_checks import as_numbers
from bertflow_jax.errors import InputError, shown
from bertflow_jax.evaluation.metrics import cosine_similarity

_log = logging.getLogger(__name__)
EMPTY = "."  # stands for a sentence without words
_MIB = 2**20

Prepare = Callable[[Any, Iterable[Sequence[Any]]], None]
Batcher = Callable[[Any, Sequence[Sequence[Any]]], np.ndarray]


def make_batcher(
    encoder: SentenceEncoder,
    *,
    batch_size: int | None = None,
    normalize: bool = False,
    cache_mib: int = 1024,
) -> tuple[Prepare, Batcher]:
    """Return the two functions of `senteval.engine.SE(params, batcher, prepare)`.

    Args:
      encoder: whose vectors are scored, with or without a post-processor.
      batch_size: of `SentenceEncoder.encode`; SentEval's own `params.batch_size` says how many
        sentences it asks for at once, and has no effect on the device calls.
      normalize: scale every vector to length 1; changes no cosine, but what classifiers learn.
      cache_mib: most MiB of vectors kept of one task, 0 keeps none. What is beyond is embedded when
        it is asked for, batch by batch. N distinct sentences take 4 N E bytes.

    Returns:
      (prepare, batcher): `prepare(params, samples)` returns None and replaces the vectors of the
      task before; `batcher(params, batch)` returns float32[len(batch), E]. A sentence is a list of
      words, str or UTF-8 bytes; one without words counts as ".". `params` is not looked at.

    Raises:
      InputError: the encoder is no SentenceEncoder, or cache_mib is no integer >= 0. The functions
        raise it for a sentence that is no list of words.
    """
    if not isinstance(encoder, SentenceEncoder):
        raise InputError(f"a SentenceEncoder is needed, not {type(encoder).__name__}")
    normalize = check_switch(normalize, "normalize")
    most = check_count(cache_mib, "cache_mib", 0) * _MIB // (4 * encoder.dimension)
    table = _VectorTable(
        lambda texts, show: encoder.encode(texts, batch_size, normalize, show), most
    )

    def prepare(params: Any, samples: Iterable[Sequence[Any]]) -> None:
        table.fill(_sentences(samples))

    def batcher(params: Any, batch: Sequence[Sequence[Any]]) -> np.ndarray:
        return table(_sentences(batch))

    return prepare, batcher


def cosine(u: np.ndarray, v: np.ndarray) -> float:
    """Return the cosine of two vectors float[E], rounded to 12 decimals; 0 where one is zero.

    For SentEval's `params["similarity"]`. Its own cosine is float32: pairs of identical sentences,
    which tie at 1, come out as 1 +- 1e-7 and are ranked by that noise.
    """
    a, b = as_numbers(u, "vectors"), as_numbers(v, "vectors")
    return float(cosine_similarity(a[None], b[None])[0])


class _VectorTable:
    """The vectors of a task's distinct sentences, of the first ones up to a limit."""

    def __init__(self, embed: Callable[[list[str], bool | None], np.ndarray], most: int):
        """Start empty; `embed` maps (N texts, whether to show a bar) to float32[N, E]."""
        self._embed = embed
        self._most = most
        self._rows: dict[str, int] = {}
        self._vectors = embed([], False)

    def fill(self, texts: Iterable[str]) -> None:
        """Replace what is held by the vectors of these texts."""
        # Let go of first: the vectors of two tasks are never held at once.
        self._rows, self._vectors = {}, self._vectors[:0].copy()
        distinct = list(dict.fromkeys(texts))
        kept = distinct[: self._most]
        if len(kept) < len(distinct):
            _log.warning(
                "%d of %d sentences are beyond cache_mib and are embedded batch by batch, which is "
                "slower; raise cache_mib where memory allows",
                len(distinct) - len(kept),
                len(distinct),
            )
        self._vectors = self._embed(kept, None)
        self._rows = {text: row for row, text in enumerate(kept)}

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Return float32[N, E]; texts that are not held are embedded and not kept."""
        missing = list(dict.fromkeys(text for text in texts if text not in self._rows))
        if not missing:
            return self._vectors[[self._rows[text] for text in texts]]
        fresh = dict(zip(missing, self._embed(missing, False), strict=True))
        return np.stack([fresh[t] if t in fresh else self._vectors[self._rows[t]] for t in texts])


def _is_iterable(value: object) -> bool:
    # An array of no dimension has the method, but holds nothing to walk over.
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) > 0


def _sentences(samples: Iterable[Sequence[Any]]) -> list[str]:
    if isinstance(samples, str | bytes) or not _is_iterable(samples):
        raise InputError(f"a list of sentences is expected, not {type(samples).__name__}")
    return [_sentence(words, row) for row, words in enumerate(samples)]


def _sentence(words: Sequence[Any], row: int) -> str:
    if not isinstance(words, list | tuple | np.ndarray) or not _is_iterable(words):
        raise InputError(
            f"sentence {row} is {type(words).__name__}, not a list of words; split it first"
        )
    return " ".join(_word(word, row) for word in words) or EMPTY


def _word(word: Any, row: int) -> str:
    if isinstance(word, bytes):
        try:
            return word.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"sentence {row}: the word {shown(word)} is not UTF-8 ({error})"
            ) from error
    if not isinstance(word, str):
        raise InputError(f"sentence {row} holds {type(word).__name__} where words are needed")
    return word
