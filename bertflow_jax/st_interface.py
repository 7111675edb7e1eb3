"""What else people call on a sentence-transformers model: prompts, similarity, the tokenizer."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from bertflow_jax.embedding_checks import as_numbers
from bertflow_jax.encoder.pretrained import Encoder
from bertflow_jax.errors import InputError
from bertflow_jax.unit_rows import unit_rows

_DISTANCES = {"euclidean": "euclidean", "manhattan": "cityblock"}  # scipy's names
SIMILARITIES = ("cosine", "dot", *_DISTANCES)


class SentenceTransformersInterface:
    """The part of `SentenceEncoder` that has sentence-transformers' names."""

    encoder: Encoder
    dimension: int

    def encode(self, texts: str | Iterable[object], *args: Any, **kwargs: Any) -> np.ndarray:
        """Embed texts; see `SentenceEncoder.encode`."""
        raise NotImplementedError

    def _limit(self, max_length: int) -> None:
        raise NotImplementedError

    def encode_query(self, *args: Any, **kwargs: Any) -> np.ndarray:
        """Embed queries: `encode` with the prompt `query`, if there is one, unless one is given."""
        return self._encode_with("query", args, kwargs)

    def encode_document(self, *args: Any, **kwargs: Any) -> np.ndarray:
        """Embed documents: as `encode_query` with the prompt `document`.

        Prompts named `passage` or `corpus` are not looked for: sentence-transformers comes to them
        only where there is no `document`, which every folder has, as "" where it names none.
        """
        return self._encode_with("document", args, kwargs)

    def _encode_with(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> np.ndarray:
        if kwargs.get("prompt") is None and kwargs.get("prompt_name") is None:
            # Not the default prompt: both names exist everywhere, as "".
            kwargs = {**kwargs, "prompt_name": name}
        return self.encode(*args, **kwargs)

    @property
    def prompts(self) -> Mapping[str, str]:
        """Name -> text of the encoder's prompts, for prompt_name of `encode`."""
        return dict(self.encoder.usage.prompts)

    @property
    def default_prompt_name(self) -> str | None:
        """Of the prompt that `encode` uses where none is given."""
        return self.encoder.usage.default_prompt_name

    @property
    def similarity_fn_name(self) -> str:
        """Of the similarity: `cosine` unless the folder names another."""
        return self.encoder.usage.similarity or SIMILARITIES[0]

    def similarity(self, embeddings1: Any, embeddings2: Any) -> NDArray[np.float32]:
        """Compare every vector of float[N, E] with every one of float[M, E].

        Arrays, lists of them or tensors; a single vector counts as one row.

        Returns:
          float32[N, M]: the cosine, or what the folder's similarity_fn_name says: dot product,
          negative Euclidean or Manhattan distance.

        Raises:
          InputError: shapes that do not go together, or a similarity unknown here.
        """
        a, b = vector_pair(embeddings1, embeddings2)
        kind = self._similarity_kind()
        if kind in _DISTANCES:
            return _single(-cdist(a, b, _DISTANCES[kind]), kind)
        if kind == "cosine":
            return unit_rows(a) @ unit_rows(b).T
        if _is_tame(a, b):
            return a @ b.T
        return _single(a.astype(np.float64) @ b.astype(np.float64).T, kind)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> NDArray[np.float32]:
        """Compare matching rows of float[N, E] and float[N, E]: float32[N]; see `similarity`."""
        a, b = vector_pair(embeddings1, embeddings2, matching=True)
        kind = self._similarity_kind()
        if kind == "cosine":
            return np.einsum("nd,nd->n", unit_rows(a), unit_rows(b))
        x, y = a.astype(np.float64), b.astype(np.float64)
        if kind in _DISTANCES:
            order = 2 if kind == "euclidean" else 1
            return _single(-np.linalg.norm(x - y, ord=order, axis=1), kind)
        return _single(np.einsum("nd,nd->n", x, y), kind)

    def _similarity_kind(self) -> str:
        kind = self.similarity_fn_name
        if kind not in SIMILARITIES:
            raise InputError(
                f"the folder's similarity_fn_name={kind!r} is not supported; {SIMILARITIES} are"
            )
        return kind

    def get_sentence_embedding_dimension(self) -> int:
        """Return E, the length of a vector."""
        return self.dimension

    def get_embedding_dimension(self) -> int:
        """Return E, under the name of sentence-transformers 5.4 and later."""
        return self.dimension

    @property
    def max_seq_length(self) -> int:
        """Tokens a text, [CLS] and [SEP] included; may be set.

        Setting it raises ConfigError above the position table, and warns and takes the tokenizer's
        own limit above that.
        """
        return self.encoder.tokenizer.max_length

    @max_seq_length.setter
    def max_seq_length(self, value: int) -> None:
        self._limit(value)

    @property
    def tokenizer(self) -> Any:
        """The tokenizer as a `transformers.PreTrainedTokenizerFast`: a copy to count tokens with.

        `encoder.tokenizer` is the one that `encode` uses.
        """
        return self.encoder.tokenizer.to_hugging_face()


def vector_pair(
    embeddings1: Any, embeddings2: Any, matching: bool = False
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return both as float32[N, E]; an empty list, as `encode` gives one, has the other's E.

    Raises InputError for what is no vectors, of other lengths, or, if they match, of other numbers.
    """
    a, b = _rows(embeddings1, "embeddings1"), _rows(embeddings2, "embeddings2")
    if a.shape == (0, 0):
        a = a.reshape(0, b.shape[1])
    if b.shape == (0, 0):
        b = b.reshape(0, a.shape[1])
    if matching and a.shape != b.shape:
        raise InputError(f"matching rows are needed, not {a.shape} and {b.shape}")
    if a.shape[1] != b.shape[1]:
        raise InputError(f"embeddings have {a.shape[1]} and {b.shape[1]} dimensions")
    return a, b


def _rows(vectors: Any, name: str) -> NDArray[np.float32]:
    """Return vectors as float32[N, E]; raises InputError for what is none, naming the row."""
    found = as_numbers(vectors, name)
    try:
        with np.errstate(over="ignore"):  # what float32 cannot hold is named below
            rows = np.asarray(found, np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: vectors are needed ({error})") from error
    if rows.ndim not in (1, 2):
        raise InputError(f"{name}: float[N, E] is needed, not {rows.shape}")
    if rows.shape == (0,):
        return rows.reshape(0, 0)
    rows = np.atleast_2d(rows)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise InputError(
            f"{name}: row {bad[0]} is not finite (NaN, inf or beyond float32); a similarity to it "
            "would mean nothing"
        )
    return rows


def _is_tame(a: NDArray[np.float32], b: NDArray[np.float32]) -> bool:
    """Return whether no sum of the dot products comes near the end of float32."""
    product = np.float64(np.abs(a).max(initial=0)) * np.float64(np.abs(b).max(initial=0))
    return bool(product * a.shape[1] < 1e38)


def _single(values: Any, kind: str) -> NDArray[np.float32]:
    """Return float32; raises InputError for a number beyond it."""
    with np.errstate(over="ignore"):
        found = np.asarray(values, np.float32)
    if not np.isfinite(found).all():
        raise InputError(
            f"a {kind} similarity is beyond float32; scale the embeddings, or use cosine"
        )
    return found
