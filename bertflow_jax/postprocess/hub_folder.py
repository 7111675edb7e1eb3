"""Post-processors from and to the Hugging Face Hub; nothing of it is loaded before it is used."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self


class HubFolder:
    """Mixin: `push_to_hub` and `from_pretrained` of what has `save` and `load`."""

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read it from the folder its `save` wrote."""
        raise NotImplementedError

    @classmethod
    def from_pretrained(
        cls,
        path_or_hub_id: str | os.PathLike[str],
        *,
        revision: str | None = None,
        token: str | bool | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        local_files_only: bool = False,
    ) -> Self:
        """Load what `save` wrote into a folder, or `push_to_hub` into a repository.

        Args:
          path_or_hub_id: a folder, or a Hub id.
          revision: branch, tag or commit of a Hub id.
          token: for a private or gated Hub id; None takes HF_TOKEN or the stored one, False none.
          cache_dir: folder of downloads; None takes the Hub's own (HF_HUB_CACHE, HF_HOME).
          local_files_only: take what was downloaded before and ask nobody, as HF_HUB_OFFLINE=1.

        Raises:
          DataNotFoundError: it cannot be had; the text says why.
          CheckpointError: a file is damaged, or of another kind.
        """
        from bertflow_jax.hub_access import HubAccess
        from bertflow_jax.integrations.hub import fetch_processor

        access = HubAccess(token, cache_dir, local_files_only)
        return cls.load(fetch_processor(path_or_hub_id, revision, access))

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
        data: Mapping[str, Any] | None = None,
        exist_ok: bool = True,
    ) -> str:
        """Upload it by itself, with a model card, and return the URL of the commit.

        The arguments are those of `SentenceEncoder.push_to_hub`; base_model is the encoder whose
        vectors it was fitted on.

        Raises:
          HubError: the Hub refuses it or cannot be reached; nothing was committed then.
          InputError: an argument of a wrong form, or no token.
          NotFittedError: before it is fitted.
        """
        from bertflow_jax.integrations.hub import CardFields, push_processor
        from bertflow_jax.integrations.hub_upload import Target

        target = Target(repo_id, token, private, revision, commit_message, exist_ok)
        fields = CardFields(license, language, base_model, data=data)
        return push_processor(self, target, fields)  # type: ignore[arg-type]
