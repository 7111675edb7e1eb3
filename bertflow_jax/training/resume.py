"""Whether a run may go on: the checkpoint's config, encoder and text are those of now."""

from collections.abc import Callable
from typing import Any

from bertflow_jax.checkpoint import Records
from bertflow_jax.checkpoint_records import check_start, stored_config
from bertflow_jax.config import Config
from bertflow_jax.errors import CheckpointError, ConfigError

# What may differ from the checkpoint on --resume: how long, and how often to log and save. The
# cache folder only says where embeddings are kept, the last ones how a step is run and watched.
_MAY_DIFFER = {
    "train.steps",
    "train.epochs",
    "train.log_every",
    "train.eval_every",
    "train.tensorboard",
    "checkpoint.every",
    "checkpoint.keep",
    "checkpoint.keep_best",
    "cache_dir",
    "parallel",
    "profile_steps",
    "encoder.remat",
}


def resume_check(
    place: str, config: Config, identity: dict[str, Any], manifest: dict[str, Any]
) -> Callable[[Records], None]:
    """Return what raises where a checkpoint in `place` is of another run than the one asked for.

    It is for the newest readable records, before anything is embedded, and for those of the step
    that is restored in the end, which is another one where arrays are damaged.
    """

    def check(records: Records) -> None:
        step = records.state["step"]
        check_start(records.state, f"{place}/{step}")
        # Fields that an older version did not have take their defaults.
        stored = stored_config(records, f"{place}/{step}").to_dict()
        differences = [
            f"{name}: {old!r} in the checkpoint, {new!r} now"
            for name, old, new in _differences(stored, config.to_dict())
            if name not in _MAY_DIFFER
        ]
        if differences:
            raise ConfigError(
                f"--resume: the config differs from checkpoint {step} of {place}: "
                + "; ".join(differences)
            )
        check_same("encoder", records.encoder, identity, f"{place}/{step}")
        check_same("text", records.manifest, manifest, f"{place}/{step}")

    return check


def check_same(what: str, stored: dict[str, Any], found: dict[str, Any], where: str) -> None:
    """Raise CheckpointError that lists how an identity differs from the stored one."""
    # Where files lie is no part of what they are.
    differences = [d for d in _differences(stored, found) if d[0] not in ("path", "source")]
    if differences:
        raise CheckpointError(
            f"{where} belongs to another {what}: "
            + "; ".join(f"{name} was {old!r}, is {new!r}" for name, old, new in differences)
        )


def _differences(old: Any, new: Any, name: str = "") -> list[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in sorted(set(old) | set(new)):
            inner = f"{name}.{key}" if name else str(key)
            found += _differences(old.get(key), new.get(key), inner)
        return found
    return [] if old == new else [(name, old, new)]
