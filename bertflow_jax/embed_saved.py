"""How a `SentenceEncoder` is loaded and saved: folders, the Hub, workdirs."""

import os
from typing import TYPE_CHECKING, Any

from bertflow_jax.embed_functions import pure_of
from bertflow_jax.encoder.folder import has_postprocess
from bertflow_jax.encoder.hub import resolve_folder
from bertflow_jax.encoder.pretrained import Encoder, check_settings, load_encoder
from bertflow_jax.hub_cache import tell_unknown_modules
from bertflow_jax.postprocess.base import PostProcessor, PureTransform
from bertflow_jax.workdir import folder_to_save

if TYPE_CHECKING:
    from bertflow_jax.embed import SentenceEncoder
    from bertflow_jax.integrations.model_card import Card


def _made_again(
    cls: type["SentenceEncoder"], encoder: Encoder, processor: PostProcessor
) -> "SentenceEncoder":
    return _unasked(cls, encoder, processor.pure(), processor)


def _unasked(
    cls: type["SentenceEncoder"],
    encoder: Encoder,
    postprocess: PureTransform,
    processor: PostProcessor,
) -> "SentenceEncoder":
    """Return an encoder with the post-processor of it that is known to be its own.

    The constructor would take the digest of all weights again.
    """
    made = cls(encoder, postprocess)
    made.processor = processor
    return made


class SavedEncoders:
    """Mixin of `SentenceEncoder`."""

    encoder: Encoder
    dimension: int
    processor: PostProcessor | None
    _postprocess: PureTransform | None

    if TYPE_CHECKING:  # of `SentenceEncoder`

        def __init__(
            self,
            encoder: Encoder,
            postprocess: PureTransform | None = None,
            processor: PostProcessor | None = None,
        ): ...

        def with_postprocess(self, processor: PostProcessor) -> "SentenceEncoder":
            """Return an encoder whose vectors go through a post-processor as well."""

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle and copy: what it is made of; the compiled functions are made anew."""
        if self.processor is None:
            return type(self), (self.encoder, self._postprocess)
        return _made_again, (type(self), self.encoder, self.processor)

    @classmethod
    def from_pretrained(
        cls,
        path_or_hub_id: str | os.PathLike[str],
        pooling: str | None = None,
        max_length: int | None = None,
        dtype: str = "float32",
        *,
        do_lower_case: bool | None = None,
        revision: str | None = None,
        token: str | bool | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        local_files_only: bool = False,
    ) -> "SentenceEncoder":
        """Load a BERT-family encoder, with the post-processor that was saved with it, if any.

        Args:
          path_or_hub_id: `mini_bert` (comes with the package), a folder in Hugging Face or
            sentence-transformers layout, or a Hub id.
          pooling: a name of `encoder.pooling`. None takes the folder's own (with its
            normalisation), or `mean`. A name replaces the folder's pooling, its normalisation AND
            its post-processor, which was fitted on the vectors of that pooling.
          max_length: tokens a text, [CLS] and [SEP] included; replaces the folder's
            max_seq_length. None takes the folder's, the tokenizer's or the position table's limit.
          dtype: compute type, `float32` or `bfloat16`; parameters stay float32.
          do_lower_case: for a folder with a vocab.txt and no word on lower-casing.
          revision: branch, tag or commit of a Hub id.
          token: for a private or gated Hub id; None takes HF_TOKEN or the stored one, False none.
          cache_dir: folder of downloads; None takes the Hub's own (HF_HUB_CACHE, HF_HOME).
          local_files_only: take what was downloaded before and ask nobody, as HF_HUB_OFFLINE=1.

        Raises a `BertFlowError`: DataNotFoundError, ConfigError, UnsupportedModelError or
        WeightsError.
        """
        check_settings(pooling, max_length, dtype, do_lower_case)
        folder = resolve_folder(
            path_or_hub_id,
            revision,
            token=token,
            cache_dir=cache_dir,
            local_files_only=local_files_only,
        )
        if pooling is None:
            tell_unknown_modules(folder, local_files_only)
        loaded = load_encoder(folder, pooling, max_length, dtype, do_lower_case=do_lower_case)
        if pooling or not has_postprocess(folder):
            return cls(loaded)  # type: ignore[return-value]
        from bertflow_jax.integrations.sentence_transformers import load_postprocess

        # Without the check of the constructor: it has compared the encoder with the folder's.
        processor = load_postprocess(folder, loaded)
        pure = pure_of(processor, cls(loaded).dimension)
        return _unasked(cls, loaded, pure, processor)  # type: ignore[arg-type]

    @classmethod
    def from_checkpoint(
        cls, workdir: str | os.PathLike[str], step: int | str | None = None
    ) -> "SentenceEncoder":
        """Load the encoder and the fitted flow of a `train.py` run: `encode` gives latents.

        Args:
          workdir: of the run.
          step: of the checkpoint; `best` takes that with the best score, None the newest good one.

        Raises a `BertFlowError`: DataNotFoundError or CheckpointError.
        """
        from bertflow_jax.restore import load_run  # it builds on this module

        run = load_run(workdir, step)
        # Without the check of the constructor: load_run has compared the encoder with the run's.
        pure = pure_of(run.flow, run.encoder.dimension)
        return _unasked(cls, run.encoder.encoder, pure, run.flow)  # type: ignore[arg-type]

    def save_pretrained(
        self, folder: str | os.PathLike[str], *, card: "Card | None" = None
    ) -> None:
        """Write the encoder in Hugging Face layout, with all that decides its vectors.

        `from_pretrained(folder)` gives the same vectors, and so does sentence-transformers, whose
        modules say pooling, normalisation and post-processor. Those it has not (several layers, a
        flow) are code in the folder that it runs with trust_remote_code=True; README.md tells.
        An older save in the folder is replaced once this one is complete.

        Args:
          folder: made where it is not there.
          card: of README.md; None writes one only where there is such code.

        Raises:
          InputError: the post-processor was fitted anew since it was handed to with_postprocess.
          WorkdirError: the folder cannot be written, or what is to be replaced in it is a link.
        """
        from bertflow_jax.integrations.sentence_transformers import check_unchanged, save_folder

        if self._postprocess is not None:
            check_unchanged(self._postprocess, self.processor)
        save_folder(self.encoder, self.processor, folder_to_save(folder, "folder"), card)
