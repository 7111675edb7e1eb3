"""Every kind of post-processor by its name, and the reader of a folder of any kind."""

import os
from pathlib import Path
from typing import Any

from bertflow_jax.errors import CheckpointError, DataNotFoundError, InputError, shown
from bertflow_jax.hub_access import HubAccess
from bertflow_jax.paths import user_path
from bertflow_jax.postprocess.affine import AffineProcessor
from bertflow_jax.postprocess.base import PostProcessor
from bertflow_jax.postprocess.compose import Compose
from bertflow_jax.postprocess.flow import Flow
from bertflow_jax.postprocess.reduce import Reduce
from bertflow_jax.postprocess.saved_settings import entry, read_described
from bertflow_jax.postprocess.standardize import Center, Standardize
from bertflow_jax.postprocess.storage import DAMAGE, described_in
from bertflow_jax.postprocess.whitening import NATSV, Whitening

AFFINE: dict[str, type[AffineProcessor]] = {
    kind.name: kind for kind in (Center, Standardize, NATSV, Whitening, Reduce)
}


def load(folder: str | Path) -> PostProcessor:
    """Read a post-processor of any kind from the folder its `save` wrote.

    Raises:
      DataNotFoundError: the folder holds none.
      CheckpointError: a file is damaged, or of an unknown kind, or the folder holds several.
    """
    path = user_path(folder, "folder")
    found = described_in(path)
    if found is None:
        if not os.path.isdir(path):
            raise DataNotFoundError(
                f"{path}: no such folder of a saved flow or other post-processor"
            )
        if (path / "checkpoints").is_dir():
            raise DataNotFoundError(
                f"{path} is the folder of a run: give it as --workdir, in Python to load_run, "
                "whose result has its flow"
            )
        raise DataNotFoundError(
            f"{path} holds no saved post-processor (as flow_config.json); name the folder that "
            "its `save`, bertflow_jax.postprocess fit or bertflow_jax.convert wrote"
        )
    if found != "post-processor":
        return Compose.load(path) if found == "compose" else Flow.load(path)
    file = path / "postprocess.json"
    try:
        kind: Any = entry(read_described(file), "kind", file.name)
    except DAMAGE as error:
        raise CheckpointError(f"{file} is not readable ({error})") from error
    if not isinstance(kind, str) or kind not in AFFINE:
        raise CheckpointError(f"{file}: unknown kind {shown(kind)}; known: {', '.join(AFFINE)}")
    return AFFINE[kind].load(path)


def from_pretrained(
    path_or_hub_id: str | os.PathLike[str],
    *,
    revision: str | None = None,
    access: HubAccess | None = None,
) -> PostProcessor:
    """Read a post-processor of any kind from a folder, or from a repository it was pushed to.

    Args:
      path_or_hub_id: what `--flow` takes.
      revision: branch, tag or commit of a Hub id.
      access: how the Hub is asked; None: as its environment says.

    Raises:
      DataNotFoundError: it cannot be had; the text says why.
      CheckpointError: as `load`.
      InputError: an access that is none.
    """
    if not isinstance(access, HubAccess | None):
        raise InputError(f"access={shown(access)}: must be a HubAccess, or None")
    from bertflow_jax.integrations.hub import fetch_processor

    return load(fetch_processor(path_or_hub_id, revision, access or HubAccess()))
