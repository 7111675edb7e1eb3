"""What a checkpoint says besides arrays."""

import dataclasses
import hashlib
import json
from typing import Any

RECORD_NAMES = ("state", "config", "encoder", "manifest")


@dataclasses.dataclass(frozen=True)
class Records:
    """What a checkpoint says besides arrays; every field is a JSON-safe dict.

    Attributes:
      state: step, rows of the ActNorm initialisation, score, digests of the arrays.
      config: as `bertflow_jax.config.Config.to_dict`.
      encoder: as `SentenceEncoder.identity`.
      manifest: as `bertflow_jax.data.text.TextCorpus.manifest`.
    """

    state: dict[str, Any]
    config: dict[str, Any]
    encoder: dict[str, Any]
    manifest: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return a copy as plain dicts that nobody else holds."""
        return json.loads(json.dumps(dataclasses.asdict(self)))


def records_digest(records: dict[str, Any]) -> str:
    """Return the sha256 of the records as JSON."""
    return hashlib.sha256(json.dumps(records, sort_keys=True).encode()).hexdigest()
