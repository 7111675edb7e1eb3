"""What a checkpoint says besides arrays."""

import dataclasses
import hashlib
import json
from typing import Any

from bertflow_jax.config import Config
from bertflow_jax.errors import CheckpointError, ConfigError, shown
from bertflow_jax.scores import HIGHER_IS_BETTER

_MOST_FEATURES = 1 << 20  # dimensions of an embedding, far beyond what is of use
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


def check_state(state: dict[str, Any], step: int) -> None:
    """Raise ValueError where the record `state` is not what a run writes of a step.

    Its digest does not say so: whoever changes a record can make the digest anew.
    """
    if type(state.get("step")) is not int or state["step"] != step:
        raise ValueError(f"it is a checkpoint of step {shown(state.get('step'))}")
    digests = state.get("digests")
    if not isinstance(digests, dict) or not all(isinstance(d, str) for d in digests.values()):
        raise ValueError("its record has no digests of arrays")
    features = state.get("features", 1)
    if type(features) is not int or not 0 < features <= _MOST_FEATURES:
        raise ValueError(f"its record says features={shown(features)}")
    for name in ("score", "best"):
        if not _is_score(state.get(name)):
            raise ValueError(f"its record says {name}={shown(state[name])}")


def check_flow_records(records: Records, where: str) -> None:
    """Raise CheckpointError, which names `where`, for what a step with a flow needs and lacks."""
    if "features" not in records.state:
        raise CheckpointError(f"checkpoint {where}: its record has no `features`")
    examples, path = records.manifest.get("examples"), records.manifest.get("path")
    if type(examples) is not int or not isinstance(path, str):
        raise CheckpointError(f"checkpoint {where}: its record does not say which text it is of")


def check_start(state: dict[str, Any], where: str) -> None:
    """Raise CheckpointError, which names `where`, where a run cannot go on from a record."""
    init, dims = state.get("actnorm_init"), state.get("constant_dims")
    deviation, planned = state.get("constant_deviation", 0.0), state.get("planned_steps", 0)
    features = state.get("features", 0)
    if (
        not isinstance(init, dict)
        or type(init.get("rows")) is not int
        or not isinstance(dims, list)
        or not all(type(dim) is int and 0 <= dim < features for dim in dims)
        or type(deviation) not in (int, float)
        or type(planned) is not int
    ):
        raise CheckpointError(f"checkpoint {where}: its record does not say how the run began")


def _is_score(said: Any) -> bool:
    if said is None:
        return True
    if not isinstance(said, dict) or said.get("metric") not in HIGHER_IS_BETTER:
        return False
    numbers = [said.get(name) for name in ("value", "start", "step", "since")]
    return "value" in said and all(type(n) in (int, float, type(None)) for n in numbers)


def stored_config(records: Records, where: str) -> Config:
    """Return the config of a checkpoint; raises CheckpointError, which names `where` it lies."""
    try:
        return Config.from_dict(records.config).validate()
    except ConfigError as error:
        raise CheckpointError(f"checkpoint {where} holds a config that is none: {error}") from error
