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
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from bertflow_jax.checks import check_count
from bertflow_jax.data.texts import check_text, iter_texts
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.errors import BertFlowWarning, ConfigError, InputError, MissingPackageError, shown

try:
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ModelMeta
except ImportError as error:
    raise MissingPackageError(
        f"bertflow_jax.integrations.mteb needs mteb 2.12 or later ({error}): "
        "pip install 'mteb>=2.12,<3' (the extra mteb)"
    ) from error

_ORGANISATION = "bertflow_jax"
# What mteb passes on to every encode. Its batch_size is 32 unless the user says otherwise, which
# suits no device, and its own DataLoader has heeded it already.
_HEEDED = ("batch_size", "precision", "show_progress_bar")
_MIB = 2**20


class MTEBEncoder(AbsEncoder):
    """A `SentenceEncoder` for `mteb.evaluate`, compared by cosine.

    The similarities of AbsEncoder are computed in PyTorch, the embeddings are not.

    Attributes:
      model: the encoder.
      model_prompts: the encoder's own, by name; mteb's rules say which of them a task takes: one
        named after the task or its type, `query` or `document`, which are "" where the folder names
        none. None where all are empty.
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
          ConfigError: a name that is no str or blank.
          ValueError: mteb does not know a language (its own error).
        """
        if not isinstance(encoder, SentenceEncoder):
            raise InputError(
                f"a SentenceEncoder is needed, not {type(encoder).__name__}; from_pretrained takes "
                "a folder, from_checkpoint a workdir"
            )
        if batch_size is not None:
            check_count(batch_size, "batch_size", 1)
        if isinstance(languages, str):
            raise ConfigError(f"languages={shown(languages)}: a list is needed, ['eng-Latn']")
        self.model = encoder
        self.batch_size = batch_size
        prompts = {name: text for name, text in encoder.encoder.usage.prompts.items() if text}
        # With those that sentence-transformers knows in every folder: a document of a folder that
        # names a default prompt and none for documents has no prompt there, and so none here.
        self.model_prompts = encoder.encoder.usage.known_prompts if prompts else None
        self.mteb_model_meta = ModelMeta(
            **_of_this_version(
                {
                    "name": _full_name(_default_name(encoder) if name is None else name),
                    # Which prompt a task takes is decided here; `describe` knows the default one.
                    "revision": _digest({**encoder.describe(), "prompts": prompts}),
                    "use_instructions": bool(prompts),
                    "languages": None if languages is None else list(languages),
                    **_sizes(encoder),
                }
            )
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
        name = _default_name(encoder, path_or_hub_id) if name is None else name
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
        name = _default_name(encoder, workdir) if name is None else name
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
          InputError: a batch without texts, another precision, and as `SentenceEncoder.encode`.
        """
        _check_arguments(kwargs)
        handed = _texts(inputs, getattr(task_metadata, "name", "this task"))
        texts = [check_text(text, row) for row, text in enumerate(handed)]
        # Pairs, candidates and labels repeat many texts.
        rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        named = self.model_prompts is not None and task_metadata is not None
        vectors = self.model.encode(
            list(rows),
            self.batch_size,
            show_progress=kwargs.get("show_progress_bar"),
            prompt_name=self.get_prompt_name(task_metadata, prompt_type) if named else None,
        )
        return vectors[[rows[text] for text in texts]]


def _default_name(encoder: SentenceEncoder, place: str | os.PathLike[str] = "encoder") -> str:
    """Return the name of a folder or Hub id, and the kind of the post-processor behind it."""
    # abspath: a workdir may be given as ".".
    folder = os.path.basename(os.path.abspath(os.fspath(place))) or "encoder"
    return "-".join([folder, *(name for name in encoder.params if name != "encoder")])


def _full_name(name: object) -> str:
    if not isinstance(name, str) or not name.strip("/ "):
        raise ConfigError(f"name={shown(name)}: a name such as 'organisation/model' is needed")
    return name if "/" in name else f"{_ORGANISATION}/{name}"


def _digest(described: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def _sizes(encoder: SentenceEncoder) -> dict[str, Any]:
    """Return what is counted, for ModelMeta."""
    arrays = jax.tree.leaves(encoder.params)
    return {
        "n_parameters": sum(array.size for array in arrays),
        "n_embedding_parameters": encoder.params["encoder"]["embeddings"]["word"].size,
        "memory_usage_mb": sum(array.nbytes for array in arrays) / _MIB,
        "max_tokens": encoder.encoder.tokenizer.max_length,
        "embed_dim": encoder.dimension,
    }


def _of_this_version(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of ModelMeta that the installed mteb has, None where one is not known."""
    known = {
        **dict.fromkeys(
            name for name, field in ModelMeta.model_fields.items() if field.is_required()
        ),
        "framework": ["JAX"],
        "similarity_fn_name": "cosine",
        **fields,
    }
    return {name: value for name, value in known.items() if name in ModelMeta.model_fields}


def _texts(inputs: Iterable[Mapping[str, Any]], task: str) -> Iterator[Any]:
    for batch in inputs:
        if "text" not in batch:
            raise InputError(
                f"{task} hands over {', '.join(map(str, batch)) or 'nothing'}, not text; "
                "choose tasks whose modality is text"
            )
        yield from iter_texts(batch["text"])


def _check_arguments(kwargs: Mapping[str, Any]) -> None:
    precision = kwargs.get("precision")
    if precision is not None and not (isinstance(precision, str) and precision == "float32"):
        raise InputError(
            f"encode_kwargs precision={shown(precision)}: the vectors are float32 and mteb would "
            "file their score under another type; leave it out"
        )
    unknown = sorted(set(kwargs) - set(_HEEDED))
    if unknown:
        told = f"encode_kwargs {', '.join(unknown)} have no effect here"
        warnings.warn(told, BertFlowWarning, stacklevel=3)
