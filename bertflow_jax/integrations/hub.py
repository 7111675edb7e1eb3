"""Encoders and post-processors on the Hugging Face Hub, each with a model card."""

import dataclasses
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertflow_jax.encoder.hub import MINI_BERT, looks_local
from bertflow_jax.errors import DataNotFoundError, InputError, shown
from bertflow_jax.hub_access import HubAccess, check_card_fields, check_repo_id, fetch
from bertflow_jax.integrations.card_metrics import Metrics, check_same_model, read_metrics
from bertflow_jax.integrations.hub_upload import PROCESSOR_FILES, Target, push_folder
from bertflow_jax.integrations.model_card import Card, write_card
from bertflow_jax.output_places import output_folder
from bertflow_jax.paths import user_path

if TYPE_CHECKING:
    from bertflow_jax.embed import SentenceEncoder
    from bertflow_jax.postprocess.base import PostProcessor


@dataclasses.dataclass(frozen=True)
class CardFields:
    """What a model card says that a fitted encoder does not know.

    Attributes:
      license: a licence of the Hub, such as `apache-2.0`; None leaves the field out.
      language: a code such as `en`, or several.
      base_model: Hub id of the encoder it was made from; None takes the config's, if it is one.
      metrics: results.json of evaluate.py: its path, or its content.
      config: of the run (`Config.to_dict`); None takes that of the metrics.
      data: manifest of the text it was fitted on; None takes that of the metrics.
    """

    license: str | None = None
    language: str | Sequence[str] | None = None
    base_model: str | None = None
    metrics: Metrics | None = None
    config: Mapping[str, Any] | None = None
    data: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Raise InputError for a field of a wrong type, or a value that the Hub refuses."""
        for name in ("config", "data"):
            value = getattr(self, name)
            if value is not None and not (
                isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
            ):
                raise InputError(f"{name}={shown(value)}: must be a dict by names, or None")
        check_card_fields(self.license, self._languages(), self.base_model)

    def card(self, encoder: "SentenceEncoder", repo_id: str | None) -> Card:
        """Return the card of an encoder.

        Raises:
          InputError: the metrics are of another model, or a field has a value that the Hub refuses.
          DataNotFoundError, ConfigError: the metrics cannot be read.
        """
        metrics, row = None, "raw"
        if self.metrics is not None:
            metrics = read_metrics(self.metrics)
            described = encoder.describe()
            row = check_same_model(metrics, encoder.identity(), described["postprocess"])
        of_the_run = {} if metrics is None else metrics["model"]
        config = self.config or of_the_run.get("config")
        return Card(
            encoder.encoder,
            encoder.processor,
            config=config,
            data=self.data or of_the_run.get("text"),
            metrics=metrics,
            row=row,
            **self._common(repo_id, config),
        )

    def processor_card(self, processor: "PostProcessor", repo_id: str | None) -> Card:
        """Return the card of a post-processor by itself; raises InputError as `card`."""
        if self.metrics is not None:
            raise InputError("metrics are of an encoder: push it, with its post-processor")
        return Card(
            None,
            processor,
            config=self.config,
            data=self.data,
            **self._common(repo_id, self.config),
        )

    def _languages(self) -> tuple[str, ...]:
        if self.language is None or isinstance(self.language, str):
            return () if self.language is None else (self.language,)
        if not isinstance(self.language, list | tuple):
            raise InputError(
                f"language={shown(self.language)}: must be a code such as en, or several"
            )
        return tuple(self.language)

    def _common(self, repo_id: str | None, config: Mapping[str, Any] | None) -> dict[str, Any]:
        return {
            "repo_id": repo_id,
            "license": self.license,
            "language": self._languages(),
            "base_model": self.base_model or _hub_id(config),
        }


def _hub_id(config: Mapping[str, Any] | None) -> str | None:
    """Return the encoder of a run where it is a Hub id: train.py makes paths absolute."""
    path = ((config or {}).get("encoder") or {}).get("path")
    if not isinstance(path, str) or path == MINI_BERT or looks_local(path) or os.path.exists(path):
        return None
    try:
        check_repo_id(path, "encoder.path")
    except InputError:
        return None
    return path


def write_encoder(encoder: "SentenceEncoder", folder: str | os.PathLike[str], card: Card) -> Path:
    """Write what a push uploads: the folder of save_pretrained with a whole card; return it.

    Raises:
      InputError, WorkdirError: as `SentenceEncoder.save_pretrained`.
    """
    path = output_folder(os.fspath(folder), "folder")
    encoder.save_pretrained(path, card=card)
    return path


def push_encoder(
    encoder: "SentenceEncoder", target: Target, fields: CardFields | None = None
) -> str:
    """Upload an encoder with its post-processor and a model card; return the commit's URL.

    Raises:
      HubError: the Hub refuses it or cannot be reached.
      InputError, DataNotFoundError, ConfigError: as `Target`, `CardFields.card` and
        `SentenceEncoder.save_pretrained`; nothing was uploaded then.
    """
    target = target.with_owner()
    card = (fields or CardFields()).card(encoder, target.repo_id)
    with tempfile.TemporaryDirectory(prefix="bertflow-push-") as folder:
        return push_folder(write_encoder(encoder, folder, card), target)


def push_processor(
    processor: "PostProcessor", target: Target, fields: CardFields | None = None
) -> str:
    """Upload a post-processor by itself with a model card; return the commit's URL.

    Raises:
      as `push_encoder`; NotFittedError before it is fitted.
    """
    processor.pure()  # an unfitted one is told before anything is asked of the Hub
    target = target.with_owner()
    card = (fields or CardFields()).processor_card(processor, target.repo_id)
    with tempfile.TemporaryDirectory(prefix="bertflow-push-") as folder:
        processor.save(folder)
        write_card(Path(folder), card)
        return push_folder(folder, target)


def fetch_processor(
    path_or_hub_id: str | os.PathLike[str], revision: str | None, access: HubAccess
) -> Path:
    """Return the folder of a post-processor: one that is there, or one that was pushed by itself.

    Raises:
      DataNotFoundError, InputError: it cannot be had, as `hub_access.fetch`.
    """
    folder, name = user_path(path_or_hub_id, "flow"), os.fspath(path_or_hub_id)
    if os.path.isdir(folder):
        return folder
    if not isinstance(path_or_hub_id, str) or looks_local(name) or os.path.exists(folder):
        raise DataNotFoundError(f"folder not found: {name}")
    return fetch(name, PROCESSOR_FILES, revision, access)
