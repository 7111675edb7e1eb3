"""What is handed to an encoder of mteb and told of it, and what mteb would trip over later."""

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from bertflow_jax.data.texts import check_text, iter_texts
from bertflow_jax.errors import BertFlowWarning, ConfigError, InputError, shown

if TYPE_CHECKING:
    from bertflow_jax.embed import SentenceEncoder

_ORGANISATION = "bertflow_jax"
# What mteb passes on to every encode. Its batch_size is 32 unless the user says otherwise, which
# suits no device, and its own DataLoader has heeded it already.
_HEEDED = ("batch_size", "precision", "show_progress_bar")
_MIB = 2**20
_LONGEST_NAME = 200  # bytes: mteb makes a folder of it, with a tail of its own
_BATCHES = 'batches {"text": list of str} are needed, as a DataLoader of mteb gives'


def batch_texts(inputs: Iterable[Mapping[str, Any]], task: str) -> list[str]:
    """Return the texts of all batches, in order.

    Raises:
      InputError: what is no batches of texts, with the task's name, or a text that is no str.
    """
    return [check_text(text, row) for row, text in enumerate(_handed(inputs, task))]


def _handed(inputs: Iterable[Mapping[str, Any]], task: str) -> Iterator[object]:
    # A table of pandas and a mapping iterate over their names, a str over its letters.
    if isinstance(inputs, str | bytes | Mapping) or hasattr(inputs, "columns"):
        raise InputError(f"{task}: {_BATCHES}, not {type(inputs).__name__}")
    try:
        batches = iter(inputs)
    except TypeError:
        raise InputError(f"{task}: {_BATCHES}, not {type(inputs).__name__}") from None
    for number, batch in enumerate(batches):
        if not isinstance(batch, Mapping):
            raise InputError(f"{task}, batch {number}: {_BATCHES}, not {type(batch).__name__}")
        if "text" not in batch:
            raise InputError(
                f"{task} hands over {', '.join(map(str, batch)) or 'nothing'}, not text; "
                "choose tasks whose modality is text"
            )
        texts = batch["text"]
        if isinstance(texts, str):
            raise InputError(f'{task}, batch {number}: {_BATCHES}, not {{"text": str}}')
        yield from iter_texts(texts)


def check_encode_kwargs(kwargs: Mapping[str, Any]) -> None:
    """Raise InputError for another precision; warn of what has no effect."""
    precision = kwargs.get("precision")
    if precision is not None and not (
        isinstance(precision, str | np.dtype) and str(precision) == "float32"
    ):
        raise InputError(
            f"encode_kwargs precision={shown(precision)}: the vectors are float32 and mteb would "
            "file their score under another type; leave it out"
        )
    unknown = sorted(set(kwargs) - set(_HEEDED))
    if unknown:
        told = f"encode_kwargs {', '.join(unknown)} have no effect here"
        warnings.warn(told, BertFlowWarning, stacklevel=3)


def default_name(encoder: "SentenceEncoder", place: str | os.PathLike[str] = "encoder") -> str:
    """Return the name of a folder or Hub id, and the kind of the post-processor behind it."""
    # abspath: a workdir may be given as ".".
    folder = os.path.basename(os.path.abspath(os.fspath(place))) or "encoder"
    return "-".join([folder, *(name for name in encoder.params if name != "encoder")])


def full_name(name: object) -> str:
    """Return a model's name with its organisation.

    Raises:
      ConfigError: no folder of mteb's results can have it: that would end an evaluation whose
        scores are computed.
    """
    if not isinstance(name, str) or not name.strip("/ "):
        raise ConfigError(f"name={shown(name)}: a name such as 'organisation/model' is needed")
    full = name if "/" in name else f"{_ORGANISATION}/{name}"
    blank = any(not part or part != part.strip() for part in full.split("/"))
    # A lone surrogate is not printable either.
    odd = blank or not full.isprintable() or "\\" in full
    if odd or len(full.encode("utf-8", "replace")) > _LONGEST_NAME:
        raise ConfigError(
            f"name={shown(name)}: mteb names a folder of its results after it; give one such as "
            f"'organisation/model', of {_LONGEST_NAME} bytes at most"
        )
    return full


def check_languages(languages: Sequence[str] | None) -> list[str] | None:
    """Return a list of language codes; raises ConfigError for another type."""
    if languages is None:
        return None
    if isinstance(languages, str):
        raise ConfigError(f"languages={languages!r}: a list is needed, [{languages!r}]")
    try:
        found = list(iter_texts(languages))
    except InputError:
        found = [None]
    if not all(isinstance(code, str) for code in found):
        raise ConfigError(f"languages={shown(languages)}: a list of codes is needed, ['eng-Latn']")
    return [str(code) for code in found]


def sizes(encoder: "SentenceEncoder") -> dict[str, Any]:
    """Return what is counted, for ModelMeta."""
    arrays = jax.tree.leaves(encoder.params)
    return {
        "n_parameters": sum(array.size for array in arrays),
        "n_embedding_parameters": encoder.params["encoder"]["embeddings"]["word"].size,
        "memory_usage_mb": sum(array.nbytes for array in arrays) / _MIB,
        "max_tokens": encoder.encoder.tokenizer.max_length,
        "embed_dim": encoder.dimension,
    }
