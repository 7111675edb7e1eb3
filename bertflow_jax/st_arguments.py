"""The arguments that people type for sentence-transformers' `encode`, in one place.

| theirs | here |
|---|---|
| `sentences`, `inputs` | `texts` |
| `normalize_embeddings` | `normalize` |
| `show_progress_bar` | `show_progress` |
| `truncate_dim`, `prompt`, `prompt_name`, `convert_to_numpy`, `convert_to_tensor` | the same |
| `task` | taken: it chooses between parts that an encoder of this package has not |
| `device`, `precision`, `output_value`, `pool`, `chunk_size` | their neutral value alone |
"""

import dataclasses
import difflib
import functools
import importlib.util
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import jax
import numpy as np

from bertflow_jax.checks import check_count, check_switch
from bertflow_jax.errors import InputError, shown
from bertflow_jax.unit_rows import unit_rows

_log = logging.getLogger(__name__)

Result = TypeVar("Result")

_NAMES = {
    "sentences": "texts",
    "inputs": "texts",
    "normalize_embeddings": "normalize",
    "show_progress_bar": "show_progress",
}
# Name -> its neutral values, and what to do instead of any other.
_NEUTRAL: dict[str, tuple[tuple[object, ...], str]] = {
    "output_value": (
        ("sentence_embedding",),
        "one vector a text is all that encode gives; embed_fn is the function it is made from",
    ),
    "precision": (
        (None, "float32"),
        "vectors are float32; sentence_transformers.util.quantize_embeddings makes others of them",
    ),
    "pool": ((None,), "all devices that JAX sees are used without one"),
    "chunk_size": ((None,), "batch_size is what there is to choose"),
}
_PLATFORMS = {"cuda": "gpu", "xla": "tpu"}  # PyTorch's word -> JAX's


def sentence_transformers_names(method: Callable[..., Result]) -> Callable[..., Result]:
    """Decorate a method to take those names too; what it cannot heed is an InputError."""
    own = list(inspect.signature(method).parameters)[1:]

    @functools.wraps(method)
    def translated(self: Any, *args: Any, **kwargs: Any) -> Result:
        given = _translate(kwargs, own, own[: len(args)])
        if own[0] not in given and not args:
            raise InputError(f"{own[0]} is missing: the texts to embed")
        return method(self, *args, **given)

    return translated


def _translate(
    kwargs: Mapping[str, Any], own: list[str], positional: Iterable[str]
) -> dict[str, Any]:
    """Return keyword arguments under the method's own names.

    Args:
      kwargs: as given.
      own: the method's names.
      positional: those already given by their place.
    """
    given: dict[str, Any] = {}
    source = dict.fromkeys(positional, "by its place")
    for name, value in kwargs.items():
        if name in _NEUTRAL or name in ("device", "task"):
            _check_neutral(name, value)
            continue
        target = _NAMES.get(name, name)
        if target not in own:
            raise InputError(_unknown(name, [*own, *_NAMES]))
        if target in source:
            raise InputError(
                f"{name}={shown(value)}: {target} was given {source[target]} already, and is the "
                "same argument"
            )
        source[target], given[target] = f"as {name}", value
    return given


def _check_neutral(name: str, value: object) -> None:
    if name == "device":
        platform = jax.default_backend()
        named = getattr(value, "type", value)  # of a torch.device
        if isinstance(named, str):
            named = _PLATFORMS.get(named, named)
        if value is not None and not _is(named, platform):
            raise InputError(
                f"device={shown(value)}: the device is JAX's choice for the whole process, "
                f"{platform} here; set the environment variable JAX_PLATFORMS before it starts"
            )
    elif name != "task":
        neutral, instead = _NEUTRAL[name]
        if not any(_is(value, word) for word in neutral):
            raise InputError(f"{name}={shown(value)} is not supported: {instead}")


def _unknown(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
    return f"unknown argument {name!r}; {hint}"


def _is(value: object, word: object) -> bool:
    """Return whether a value is a word, or None; nothing is asked of an array's own `==`."""
    return value is word or (isinstance(value, str) and value == word)


@dataclasses.dataclass(frozen=True)
class ResultForm:
    """What `encode` makes of the vectors; in sentence-transformers' order.

    Attributes:
      truncate_dim: dimensions kept, the first ones; more than there are keeps all.
      normalize: scale every vector to length 1, what is left of it.
      numpy: one array; False: a list of arrays.
      tensor: a PyTorch tensor.
    """

    truncate_dim: int | None
    normalize: bool
    numpy: bool
    tensor: bool

    def __post_init__(self) -> None:
        """Refuse what would fail only after all texts are embedded."""
        if self.truncate_dim is not None:
            check_count(self.truncate_dim, "truncate_dim", 1)
        check_switch(self.normalize, "normalize")
        check_switch(self.numpy, "convert_to_numpy")
        if check_switch(self.tensor, "convert_to_tensor") and not importlib.util.find_spec("torch"):
            raise InputError(
                "convert_to_tensor=True needs PyTorch, which is not installed: pip install torch"
            )

    @property
    def unit_first(self) -> bool:
        """Whether the device may scale the vectors: nothing is cut off them."""
        return bool(self.normalize) and self.truncate_dim is None

    def width(self, dimension: int) -> int:
        """Return the length of a vector of which `dimension` numbers are computed."""
        if self.truncate_dim is not None and self.truncate_dim > dimension:
            _log.warning(
                "truncate_dim=%d: the vectors have %d dimensions and keep all, as they do in "
                "sentence-transformers",
                self.truncate_dim,
                dimension,
            )
        return dimension if self.truncate_dim is None else min(dimension, self.truncate_dim)

    def shorten(self, vectors: np.ndarray) -> np.ndarray:
        """Cut float32[n, E] to the dimensions kept, and scale what is left."""
        if self.truncate_dim is None:
            return vectors
        kept = vectors[:, : self.truncate_dim]
        return unit_rows(kept) if self.normalize else kept

    def convert(self, vectors: np.ndarray, single: bool) -> Any:
        """Return float32[N, E], its only row for a `single` text, in the form asked for."""
        if self.tensor:
            import torch

            tensor = torch.from_numpy(vectors)
            return tensor[0] if single else tensor
        if single:
            return vectors[0]
        return vectors if self.numpy else list(vectors)
