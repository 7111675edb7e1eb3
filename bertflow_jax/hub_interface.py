"""`SentenceEncoder.push_to_hub`; nothing of the Hub is loaded before it is called."""

import os
from collections.abc import Mapping, Sequence
from typing import Any


class HubInterface:
    """Mixin of `SentenceEncoder`."""

    def push_to_hub(
        self,
        repo_id: str,
        *,
        token: str | bool | None = None,
        private: bool | None = None,
        revision: str | None = None,
        commit_message: str | None = None,
        license: str | None = None,
        language: str | Sequence[str] | None = None,
        base_model: str | None = None,
        metrics: Mapping[str, Any] | str | os.PathLike[str] | None = None,
        config: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        exist_ok: bool = True,
    ) -> str:
        """Upload what `save_pretrained` writes, with a whole model card, as one commit.

        Args:
          repo_id: OWNER/NAME, or NAME for the token's user.
          token: with write access; None and True take HF_TOKEN or the stored one.
          private: of a new repository; None is as the owner's settings say.
          revision: branch to commit to, made where it is not there; None is the main one.
          commit_message: None says which version wrote it.
          license: one of the Hub's identifiers, such as `apache-2.0`; None leaves the field out.
          language: a code such as `en`, or several.
          base_model: Hub id of the encoder that this one was made from.
          metrics: results.json of evaluate.py on this very model: its path, or its content. Of a
            workdir it also tells how the model was fitted, and on which text.
          config: of the run (`Config.to_dict`), in place of the one in the metrics.
          data: manifest of the text it was fitted on (`TextCorpus.manifest`), in place of the one
            in the metrics.
          exist_ok: whether a repository that is there gets another commit.

        Returns:
          The URL of the commit.

        Raises:
          HubError: the Hub refuses it or cannot be reached; nothing was committed then.
          InputError: no token, an argument of a wrong form, or metrics of another model.
          DataNotFoundError, ConfigError: the metrics cannot be read.
        """
        from bertflow_jax.integrations.hub import CardFields, push_encoder
        from bertflow_jax.integrations.hub_upload import Target

        target = Target(repo_id, token, private, revision, commit_message, exist_ok)
        fields = CardFields(license, language, base_model, metrics, config, data)
        return push_encoder(self, target, fields)  # type: ignore[arg-type]
