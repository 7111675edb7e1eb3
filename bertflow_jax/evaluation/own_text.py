"""The text that a run's flow was fitted on, read again for the rows beside it (`--fit=run`)."""

from collections.abc import Callable, Mapping
from typing import Any

from bertflow_jax.config import Config
from bertflow_jax.data.text import TextCorpus, load_text
from bertflow_jax.errors import CheckpointError


def own_text(config: Config, manifest: Mapping[str, Any]) -> Callable[[], TextCorpus]:
    """Return a function that reads the text of a run.

    Args:
      config: of the run. A flow alone has the text of `data`, one of `joint` the labelled pairs.
      manifest: of the checkpoint.

    Returns:
      What gives the corpus, without labels. It raises a DataError or DataNotFoundError as the
      readers do, and CheckpointError where the text is another one by now.
    """

    def read() -> TextCorpus:
        joint = config.objective == "joint"
        corpus = _pairs(config) if joint else load_text(config.data)
        if corpus.manifest["sha256"] != manifest.get("sha256"):
            field = "supervision.path" if joint else "data.path"
            raise CheckpointError(
                f"--fit=run: {field}={manifest['path']} no longer holds the text that the run was "
                "fitted on (its sha256 differs); bring it back, or name a text with --fit"
            )
        return corpus

    return read


def _pairs(config: Config) -> TextCorpus:
    # Imported here: the text of a flow alone needs none of it.
    from bertflow_jax.data.supervision import load_training_pairs

    section = config.supervision
    pairs = load_training_pairs(section, section.joint_loss)
    examples = list(zip(pairs.sentences1, pairs.sentences2, strict=True))
    counts = {
        "examples": len(examples),
        "sentences": 2 * len(examples),
        "unique_sentences": len({text for example in examples for text in example}),
    }
    return TextCorpus([*examples], {**pairs.manifest, **counts})
