"""Word embeddings by frequency: do rare words lie farther out and farther apart?

Li et al. (2020), section 3.2 and table 1: frequent words of BERT lie near the origin and dense,
rare words far from it and sparse. The measures are of an encoder's table of input word embeddings.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from bertflow_jax.data.lines import iter_lines
from bertflow_jax.data.tokens import TextTokenizer
from bertflow_jax.errors import DataError
from bertflow_jax.paths import file_sha256

NEIGHBOURS = (3, 5, 7)
# Ranks from 1, both ends included: the paper's (0, 100), [100, 500), [500, 5K), [5K, 10K).
BINS = {
    "(0, 100)": (1, 99),
    "[100, 500)": (100, 499),
    "[500, 5K)": (500, 4_999),
    "[5K, 10K)": (5_000, 9_999),
}
MIN_WORDS = 10  # a mean over fewer words says nothing of a bin
_LINES = 20_000  # lines tokenized at a time
_WORDS = 256  # words whose distances to the whole vocabulary are held at a time
# Neighbours are found in float32; so many more are measured again in float64.
_SPARE = 8


@dataclasses.dataclass(frozen=True)
class Ranking:
    """Words from the most frequent to the least.

    Attributes:
      ids: int64[R], rows of the embedding table.
      origin: JSON-safe: "order" ("corpus" or "vocabulary") and where the counts come from.
    """

    ids: NDArray[np.int64]
    origin: dict[str, Any]


def rank_by_corpus(path: Path, tokenizer: TextTokenizer, encoding: str = "utf-8") -> Ranking:
    """Rank the words of a text file by how often they occur in it, ties in vocabulary order.

    Args:
      path: one text a line, `.gz` too; it is read in pieces.
      tokenizer: of the encoder: a word is one of its tokens; special and unused ones do not count.
      encoding: of the file.

    Raises:
      DataError, DataNotFoundError: the file cannot be read, or holds no word.
    """
    words = tokenizer.word_ids()
    counts = np.zeros(int(words.max()) + 1, np.int64)
    # One iterator for all blocks: islice would start tqdm anew for each.
    text = iter_lines(path, encoding, plain=True)
    lines = iter(tqdm(text, desc="count words", unit="line", disable=None))
    while block := list(itertools.islice(lines, _LINES)):
        ids = np.concatenate(tokenizer.text_ids(block))
        # A special token may have a higher number than any word.
        counts += np.bincount(ids[ids < len(counts)], minlength=len(counts))
    seen = words[counts[words] > 0]
    if not seen.size:
        raise DataError(
            f"{path} holds no word of the vocabulary; give a file of text, a text a line"
        )
    ranked = seen[np.argsort(-counts[seen], kind="stable")]
    total = int(counts[words].sum())
    origin = {
        "order": "corpus",
        "corpus": str(path),
        "sha256": file_sha256(path),
        "tokens": total,
    }
    return Ranking(ranked, origin)


def rank_by_vocabulary(tokenizer: TextTokenizer) -> Ranking:
    """Take the order of the vocabulary for that of frequency.

    Right only where the vocabulary was written in that order. BERT's is so in parts: special and
    unused tokens first, then single characters, then words from frequent to rare.
    """
    return Ranking(tokenizer.word_ids(), {"order": "vocabulary"})


def word_frequency(
    table: NDArray[np.float32], ranking: Ranking, candidates: NDArray[np.int64]
) -> dict[str, Any]:
    """Measure the word embeddings of each bin of frequency ranks.

    Of a word w and its k nearest neighbours by l2 distance among all candidates but itself: the
    mean |w|, the mean |w - n| and the mean w . n, each a mean over the words of the bin.

    Args:
      table: float32[V, E], input word embeddings.
      ranking: words by frequency.
      candidates: int64[C], the words that count as neighbours; the ranked ones are among them.

    Returns:
      JSON-safe: the ranking's origin, "ranked_words", "candidates" and "bins": bin -> {"words",
      "norm", "neighbours": {"3": {"distance", "dot"}, ...}}; null with a "reason" in a bin of
      fewer than `MIN_WORDS` words, or where there are too few candidates.
    """
    bins = {}
    for name, (first, last) in BINS.items():
        ids = ranking.ids[first - 1 : last]
        bins[name] = _bin(np.asarray(table), ids, candidates)
    return {
        **ranking.origin,
        "ranked_words": len(ranking.ids),
        "candidates": len(candidates),
        "bins": bins,
    }


def _bin(
    table: NDArray[np.float32], ids: NDArray[np.int64], candidates: NDArray[np.int64]
) -> dict[str, Any]:
    reason = ""
    if len(ids) < MIN_WORDS:
        reason = f"{len(ids)} ranked words in this bin, {MIN_WORDS} are needed"
    elif len(candidates) <= max(NEIGHBOURS):
        reason = f"{len(candidates)} words in all have no {max(NEIGHBOURS)} neighbours"
    if reason:
        nothing = {str(k): {"distance": None, "dot": None} for k in NEIGHBOURS}
        return {"words": len(ids), "norm": None, "neighbours": nothing, "reason": reason}
    norms = np.linalg.norm(table[ids].astype(np.float64), axis=1)
    means = neighbour_means(table, ids, candidates, NEIGHBOURS)
    neighbours = {
        str(k): {"distance": distance, "dot": dot} for k, (distance, dot) in means.items()
    }
    return {"words": len(ids), "norm": float(norms.mean()), "neighbours": neighbours}


def neighbour_means(
    table: NDArray[np.float32],
    words: NDArray[np.int64],
    candidates: NDArray[np.int64],
    ks: Sequence[int],
) -> dict[int, tuple[float, float]]:
    """Return k -> (mean l2 distance, mean dot product) of words to their k nearest neighbours.

    Args:
      table: float32[V, E].
      words: int64[N], rows of the table.
      candidates: int64[C], rows that count as neighbours; a word is no neighbour of itself.
      ks: each below C.

    Returns:
      Means over words and neighbours, computed in float64. Beside the table and the candidates'
      rows it takes float32[256, C] and int64[256, C].
    """
    most = max(ks)
    distances, dots = np.empty((len(words), most)), np.empty((len(words), most))
    for start, near in _nearest(table, words, candidates, most + _SPARE):
        part = words[start : start + len(near)]
        own, others = table[part].astype(np.float64), table[near].astype(np.float64)
        exact = np.linalg.norm(others - own[:, None], axis=2)
        exact[near == part[:, None]] = np.inf
        order = np.argsort(exact, axis=1, kind="stable")[:, :most]
        rows = slice(start, start + len(near))
        distances[rows] = np.take_along_axis(exact, order, axis=1)
        products = np.einsum("ne,nke->nk", own, others)
        dots[rows] = np.take_along_axis(products, order, axis=1)
    return {k: (float(distances[:, :k].mean()), float(dots[:, :k].mean())) for k in ks}


def _nearest(
    table: NDArray[np.float32],
    words: NDArray[np.int64],
    candidates: NDArray[np.int64],
    count: int,
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield (position of the first word, int64[n, count] unordered near rows) for n words a time.

    A word itself may be among its near ones; `count` is cut to the number of candidates.
    """
    others = table[candidates]
    squares = np.sum(others * others, axis=1)
    count = min(count + 1, len(candidates))
    for start in range(0, len(words), _WORDS):
        # |w|^2 is the same for all candidates of a word, so it is left out.
        distances = squares - 2 * (table[words[start : start + _WORDS]] @ others.T)
        near = np.argpartition(distances, count - 1, axis=1)[:, :count]
        yield start, candidates[near]
