"""mteb (Massive Text Embedding Benchmark): a `SentenceEncoder` as an encoder of its protocol.

    import mteb
    from bertflow_jax.integrations.mteb import MTEBEncoder

    result = mteb.evaluate(MTEBEncoder.from_pretrained("mini_bert"), tasks)

mteb hands texts over in small batches; all of a call are embedded together, so that they go through
the encoder's own batches of known shapes. This module needs mteb (the extra `mteb`).
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bertflow_jax.checks import check_count
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.errors import ConfigError, InputError, MissingPackageError, shown
from bertflow_jax.integrations.mteb_inputs import (
    batch_texts,
    check_encode_kwargs,
    check_languages,
    default_name,
    full_name,
    sizes,
)
from bertflow_jax.st_interface import vector_pair

try:
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ModelMeta
    from mteb.types import PromptType
    from pydantic import ValidationError
except ImportError as error:
    raise MissingPackageError(
        f"bertflow_jax.integrations.mteb needs mteb 2.12 or later ({error}): "
        "pip install 'mteb>=2.12,<3' (the extra mteb)"
    ) from error


class MTEBEncoder(AbsEncoder):
    """A `SentenceEncoder` for `mteb.evaluate`, compared by cosine.

    The similarities of AbsEncoder are computed in PyTorch, the embeddings are not.

    Attributes:
      model: the encoder.
      model_prompts: the encoder's own, by name; mteb's rules say which of them a task takes: one
        named after the task or its type, `query` or `document`, which are "" where the folder names
        none. None where all are empty. Others set here are refused: the revision tells of these.
      mteb_model_meta: what mteb writes beside the scores. Its revision is a digest of all that
        decides the vectors, so that a score kept by mteb is never taken for one of other weights
        or of another flow. Fields that the files do not tell (license, training_datasets, ...) are
        None; `meta.model_copy(update={...})` fills them in.
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        name: str | None = None,
        *,
        languages: Sequence[str] | None = None,
        batch_size: int | None = None,
    ):
        """Wrap an encoder, with or without a post-processor.

        Args:
          encoder: whose `encode` gives the vectors.
          name: in mteb's results, as `organisation/model`; `bertflow_jax/` is put before one
            without an organisation. None takes `encoder` and the kind of the post-processor.
          languages: that the encoder is made for, as `eng-Latn`; None does not say.
          batch_size: of `SentenceEncoder.encode`. That of mteb's encode_kwargs has no effect.

        Raises:
          InputError: the encoder is no SentenceEncoder.
          ConfigError: a name that mteb cannot file results under, a language it does not know.
        """
        if not isinstance(encoder, SentenceEncoder):
            raise InputError(
                f"a SentenceEncoder is needed, not {type(encoder).__name__}; from_pretrained takes "
                "a folder, from_checkpoint a workdir"
            )
        if batch_size is not None:
            check_count(batch_size, "batch_size", 1)
        self.model = self._wrapped = encoder
        self._length = encoder.encoder.tokenizer.max_length
        self.batch_size = batch_size
        prompts = {name: text for name, text in encoder.encoder.usage.prompts.items() if text}
        # With those that sentence-transformers knows in every folder: a document of a folder that
        # names a default prompt and none for documents has no prompt there, and so none here.
        self._prompts = encoder.encoder.usage.known_prompts if prompts else None
        self.model_prompts = self._prompts
        # Which prompt a task takes is decided here; `describe` knows the default one.
        described = json.dumps({**encoder.describe(), "prompts": prompts}, sort_keys=True)
        self.mteb_model_meta = _model_meta(
            {
                "name": full_name(default_name(encoder) if name is None else name),
                "revision": hashlib.sha256(described.encode()).hexdigest(),
                "use_instructions": bool(prompts),
                "languages": check_languages(languages),
                **sizes(encoder),
            }
        )

    @classmethod
    def from_pretrained(
        cls,
        path_or_hub_id: str | os.PathLike[str],
        *,
        name: str | None = None,
        languages: Sequence[str] | None = None,
        batch_size: int | None = None,
        **settings: Any,
    ) -> "MTEBEncoder":
        """Load an encoder; `settings` and errors are those of `SentenceEncoder.from_pretrained`.

        The other arguments are those of the constructor; without a name it is the folder's.
        """
        encoder = SentenceEncoder.from_pretrained(path_or_hub_id, **settings)
        name = default_name(encoder, path_or_hub_id) if name is None else name
        return cls(encoder, name, languages=languages, batch_size=batch_size)

    @classmethod
    def from_checkpoint(
        cls,
        workdir: str | os.PathLike[str],
        step: int | str | None = None,
        *,
        name: str | None = None,
        languages: Sequence[str] | None = None,
        batch_size: int | None = None,
    ) -> "MTEBEncoder":
        """Load the encoder and the flow of a run; see `SentenceEncoder.from_checkpoint`.

        The other arguments are those of the constructor; without a name it is the folder's.
        """
        encoder = SentenceEncoder.from_checkpoint(workdir, step)
        name = default_name(encoder, workdir) if name is None else name
        return cls(encoder, name, languages=languages, batch_size=batch_size)

    def encode(
        self,
        inputs: Iterable[Mapping[str, Any]],
        *,
        task_metadata: Any = None,
        hf_split: str = "",
        hf_subset: str = "",
        prompt_type: Any = None,
        **kwargs: Any,
    ) -> np.ndarray:
        """Embed the texts of mteb's batches.

        Args:
          inputs: a DataLoader, or any iterable of batches {"text": list of str, ...}; of documents
            mteb puts title and body into "text".
          task_metadata: of the task: for its prompt, and for messages.
          hf_split: has no effect.
          hf_subset: has no effect.
          prompt_type: `query`, `document` or None; they differ in the encoder's prompts alone.
          **kwargs: mteb's encode_kwargs; `show_progress_bar` is heeded, and `precision` may only be
            `float32`.

        Returns:
          float32[N, E], one row a text in the order of the batches.

        Raises:
          InputError: what is no batches of texts, another precision or prompt_type, an encoder
            that the revision does not tell of any more, and as `SentenceEncoder.encode`.
        """
        self._check_unchanged()
        check_encode_kwargs(kwargs)
        texts = batch_texts(inputs, getattr(task_metadata, "name", "this task"))
        prompt_name = self._prompt_name(task_metadata, prompt_type)
        # Pairs, candidates and labels repeat many texts.
        rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        vectors = self.model.encode(
            list(rows),
            self.batch_size,
            show_progress=kwargs.get("show_progress_bar"),
            prompt_name=prompt_name,
        )
        return vectors[[rows[text] for text in texts]]

    def _check_unchanged(self) -> None:
        """Raise InputError where mteb would file scores of other vectors under the revision."""
        length = self.model.encoder.tokenizer.max_length
        if self.model is not self._wrapped:
            what = "model is another encoder than was given"
        elif length != self._length:
            what = f"max_seq_length={length} of the encoder was {self._length} when it was given"
        else:
            return
        raise InputError(f"{what}, and the revision tells of that: make the MTEBEncoder anew")

    def _prompt_name(self, task_metadata: Any, prompt_type: Any) -> str | None:
        """Return the prompt that mteb's rules choose; raises InputError."""
        if self.model_prompts != self._prompts:
            raise InputError(
                f"model_prompts={shown(self.model_prompts)}: the prompts are those of the "
                "encoder's folder (config_sentence_transformers.json); write them there, so that "
                "the revision tells of them"
            )
        try:
            kind = None if prompt_type is None else PromptType(prompt_type)
        except ValueError:
            known = ", ".join(PromptType)
            raise InputError(f"prompt_type={shown(prompt_type)}: one of {known}, or None") from None
        if self._prompts is None or task_metadata is None:
            return None
        if not isinstance(task_metadata, TaskMetadata):
            raise InputError(
                f"task_metadata={shown(task_metadata)}: the metadata of a task of mteb are needed "
                "to choose its prompt"
            )
        return self.get_prompt_name(task_metadata, kind)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Return the cosines of float[N, E] and float[M, E]: a tensor, float32[N, M].

        Raises InputError for what is no vectors, or not finite.
        """
        return super().similarity(*vector_pair(embeddings1, embeddings2))

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Return the cosines of matching rows of float[N, E]: a tensor, float32[N]; as above."""
        return super().similarity_pairwise(*vector_pair(embeddings1, embeddings2, matching=True))


def _model_meta(fields: Mapping[str, Any]) -> ModelMeta:
    """Return metadata with the fields that the installed mteb has, None where one is not known.

    Raises:
      ConfigError: a language that mteb does not know; it has checked nothing else of ours.
    """
    known = {
        **dict.fromkeys(
            name for name, field in ModelMeta.model_fields.items() if field.is_required()
        ),
        "framework": ["JAX"],
        "similarity_fn_name": "cosine",
        **fields,
    }
    try:
        return ModelMeta(**{name: known[name] for name in known if name in ModelMeta.model_fields})
    except ValidationError as error:
        why = error.errors()[0]["msg"]
        raise ConfigError(f"languages={shown(fields['languages'])}: mteb says: {why}") from None
