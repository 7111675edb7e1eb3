"""The encoder whose vectors a post-processor was fitted on, as far as it is known."""

import copy
from collections.abc import Mapping
from typing import Any, Self

from bertflow_jax.errors import InputError, shown
from bertflow_jax.postprocess.base import PostProcessor

_ENTRY = "fitted_on"  # of the JSON file of a saved post-processor


class KnownEncoder:
    """Mixin of `Flow` and the affine post-processors; a `Compose` has what its first step knows."""

    _fitted_on: dict[str, Any] | None = None

    @property
    def fitted_on(self) -> dict[str, Any] | None:
        """The encoder whose vectors it was fitted on, where that is known.

        A run knows it (`bertflow_jax.encoder.origin`), and the folder of an encoder that was saved
        with its post-processor; a `fit` is given vectors, and not where they are from.
        """
        return self._fitted_on

    def known_for(self, encoder: Mapping[str, Any]) -> Self:
        """Return a copy that is known to be fitted on an encoder, of which this is the record."""
        known = copy.copy(self)
        known._fitted_on = own_record(encoder)
        return known

    def _record_entry(self) -> dict[str, Any]:
        """Return what the JSON file says of it; {} where nothing is known."""
        return {} if self._fitted_on is None else {_ENTRY: dict(self._fitted_on)}


def known_for(processor: PostProcessor, encoder: Mapping[str, Any]) -> PostProcessor:
    """Return a post-processor that is known to be fitted on an encoder.

    What knows its encoder already, or is of a foreign kind that cannot, is returned as it is.

    Args:
      processor: fitted; it is not changed.
      encoder: `bertflow_jax.encoder.origin.encoder_origin` of the encoder.
    """
    known = getattr(processor, "known_for", None)
    if known is None or getattr(processor, "fitted_on", None) is not None:
        return processor
    made: PostProcessor = known(encoder)
    return made


def own_record(fitted_on: Any) -> dict[str, Any] | None:
    """Return a copy of the record of an encoder, or None; raises InputError for what is none."""
    if not isinstance(fitted_on, Mapping | None):
        raise InputError(f"fitted_on={shown(fitted_on)}: must be the record of an encoder")
    return None if fitted_on is None else dict(fitted_on)


def recorded(described: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the record in a JSON file, None where there is none; raises ValueError."""
    found = described.get(_ENTRY)
    if not isinstance(found, dict | None):
        raise ValueError(f"{_ENTRY} is {shown(found)}, not the record of an encoder")
    return found
