"""The encoder that a post-processor was saved with: vectors of another one mean nothing to it."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertflow_jax.encoder.folder import EncoderFolder
from bertflow_jax.encoder.origin import ANY_PROMPT, differences, encoder_origin, told
from bertflow_jax.encoder.pretrained import Encoder
from bertflow_jax.errors import CheckpointError

_log = logging.getLogger(__name__)
_MAX_LENGTH = "max_length"  # which users choose anew, but not the folder


def origin_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `encoder_origin` in an `encoder_record`, for `known_for`.

    What was put before the texts of the fit is not in it.
    """
    return {**{n: v for n, v in record.items() if n != _MAX_LENGTH}, ANY_PROMPT: True}


def encoder_record(encoder: Encoder, folder: EncoderFolder) -> dict[str, Any]:
    """Return what decides the vectors that a post-processor is fitted on, JSON-safe.

    Args:
      encoder: as loaded; a dtype and a length that its caller chose do not count.
      folder: what its folder says.
    """
    return {
        **encoder_origin(encoder),
        "normalize": folder.normalize,
        _MAX_LENGTH: folder.max_length,
        "lower_first": folder.lower_first,
    }


def check_encoder(
    place: Path, said: Mapping[str, Any] | None, encoder: Encoder, folder: EncoderFolder
) -> None:
    """Refuse a post-processor beside another encoder than the one it was saved with.

    Args:
      place: the folder of both.
      said: the `encoder_record` of the save, None where an older version made none.
      encoder: as loaded from the folder.
      folder: what the folder says.

    Raises:
      CheckpointError: naming what is different, and how to go on.
    """
    if said is None:
        _log.warning(
            "%s: saved by an older version, which did not note the encoder: that its "
            "post-processor was fitted on the vectors of this one is not checked; save it again",
            place,
        )
        return
    found = encoder_record(encoder, folder)
    other = differences(said, found)
    if not other:
        return
    pooling = said.get("pooling", "NAME")
    raise CheckpointError(
        f"{place}: the encoder is not the one that its post-processor was saved with: "
        f"{told(other, found)}. "
        f'Give pooling="{pooling}" to load it without, then fit a post-processor on its '
        "vectors and save both"
    )
