"""README.md of a saved folder: what the model is, how it is loaded and was fitted, its scores."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertflow_jax.encoder.pretrained import Encoder
from bertflow_jax.hub_access import check_card_fields
from bertflow_jax.integrations.card_facts import (
    facts_table,
    fit_facts,
    flows_in,
    model_facts,
    text_facts,
)
from bertflow_jax.integrations.card_metrics import eval_results, metrics_table
from bertflow_jax.integrations.folder_names import CARD, CODE, MARK, is_ours
from bertflow_jax.postprocess.base import PostProcessor
from bertflow_jax.text_output import write_text

_PLACE = "PATH/OF/THIS/FOLDER"
_WHAT = {
    "LayerPooling": "the pooling of several layers (`LayerPooling`)",
    "BertFlow": "the flow (`BertFlow`)",
}
_USE = """## Use

```python
from bertflow_jax import SentenceEncoder

encoder = SentenceEncoder.from_pretrained("{place}")
vectors = encoder.encode(["A man plays a guitar.", "Someone plays guitar."], normalize=True)
print(vectors @ vectors.T)
```

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{place}"{trust})
vectors = model.encode(["A man plays a guitar.", "Someone plays guitar."])
```
"""
_USE_PROCESSOR = """## Use

On vectors of the encoder it was fitted on:

```python
from bertflow_jax import {kind}

vectors = {kind}.from_pretrained("{place}").transform(embeddings)
```
"""
_NOTICE = """## This folder holds code

sentence-transformers has no module for {what}, so `{code}` brings it along (PyTorch alone; it reads
its own `config.json` and `model.safetensors`). With `trust_remote_code=True` that file is executed:
read it before you load a folder you did not write. bertflow_jax loads the folder without running
it.
"""
_LIMITS = """## Limits

{about} helps where embeddings crowd into a cone: language models without sentence training, and
`[CLS]` vectors. It does not help vectors that a contrastive training has already spread out. It
suits texts of the kind that it was fitted on; the encoder's own biases stay in its vectors.
"""
_CITATION = """## Citation

```bibtex
@inproceedings{li-etal-2020-sentence,
  title = {On the Sentence Embeddings from Pre-trained Language Models},
  author = {Li, Bohan and Zhou, Hao and He, Junxian and Wang, Mingxuan and Yang, Yiming and
    Li, Lei},
  booktitle = {Proceedings of the 2020 Conference on Empirical Methods in Natural Language
    Processing (EMNLP)},
  year = {2020},
  pages = {9119--9130},
  doi = {10.18653/v1/2020.emnlp-main.733},
}
```
"""


@dataclasses.dataclass(frozen=True)
class Card:
    """What a card is made of.

    Attributes:
      encoder: None for a post-processor by itself.
      processor: the post-processor, None without one.
      repo_id: Hub id that the examples name, None where the folder's place is not known.
      license: a licence of the Hub, such as `apache-2.0`; None leaves the field out.
      language: codes such as `en`.
      base_model: Hub id of the encoder that this one comes from.
      metrics: from `card_metrics.read_metrics`.
      row: of the metrics that is this model.
      config: of the run (`Config.to_dict`).
      data: manifest of the text.
    """

    encoder: Encoder | None
    processor: PostProcessor | None = None
    repo_id: str | None = None
    license: str | None = None
    language: tuple[str, ...] = ()
    base_model: str | None = None
    metrics: Mapping[str, Any] | None = None
    row: str = "raw"
    config: Mapping[str, Any] | None = None
    data: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Raise InputError for a licence, language or base model that the Hub would refuse."""
        check_card_fields(self.license, self.language, self.base_model)


def make_card(card: Card, code: Sequence[str] = ()) -> str:
    """Return the text of a README.md, with metadata that the Hub reads.

    Args:
      card: what it says.
      code: classes of `bertflow_modules.py` that the folder's modules.json names.
    """
    name = (card.repo_id or "").rpartition("/")[2]
    parts = [f"{_front_matter(card, name)}\n{MARK}\n", f"# {name or 'Sentence embeddings'}\n"]
    parts.append(f"{_summary(card)}\n")
    parts.append(facts_table(model_facts(card.encoder, card.processor)))
    place = card.repo_id or _PLACE
    if card.encoder is None:
        kind = type(card.processor).__name__
        parts.append(_USE_PROCESSOR.format(kind=kind, place=place))
    else:
        trust = ", trust_remote_code=True" if code else ""
        parts.append(_USE.format(place=place, trust=trust))
    if code:
        what = " and ".join(_WHAT[kind] for kind in code)
        parts.append(_NOTICE.format(what=what, code=CODE))
    parts += _fitted(card)
    if card.metrics is not None:
        parts.append(f"## Scores\n\nThis model is the row `{card.row}`.\n")
        parts.append(metrics_table(card.metrics))
    if card.processor is not None:
        about = "The flow" if any(flows_in(card.processor)) else "The post-processor"
        parts += [_LIMITS.format(about=about), _CITATION]
    return "\n".join(parts)


def _summary(card: Card) -> str:
    flow = any(flows_in(card.processor))
    after = "BERT-flow" if flow else "a linear map"
    if card.encoder is None:
        return f"A fitted post-processor of sentence embeddings ({after}), written by bertflow_jax."
    then = "" if card.processor is None else f", its vectors then mapped by {after}"
    return f"Sentence embeddings whose cosine means similarity: an encoder{then}. By bertflow_jax."


def _front_matter(card: Card, name: str) -> str:
    from huggingface_hub import ModelCardData

    tags = ["bertflow_jax", *(["bert-flow"] if any(flows_in(card.processor)) else [])]
    if card.encoder is not None:
        tags = ["sentence-transformers", "sentence-similarity", "feature-extraction", *tags]
    scores = None if card.metrics is None else eval_results(card.metrics, card.row)
    data = ModelCardData(
        language=list(card.language) or None,
        license=card.license,
        library_name="bertflow_jax" if card.encoder is None else "sentence-transformers",
        pipeline_tag=None if card.encoder is None else "sentence-similarity",
        tags=tags,
        base_model=card.base_model,
        model_name=(name or "model") if scores else None,
        eval_results=scores or None,
    )
    return f"---\n{data.to_yaml()}\n---\n"


def _fitted(card: Card) -> list[str]:
    if card.processor is None and card.config is None and card.data is None:
        return []
    parts = ["## How it was fitted\n"]
    facts = fit_facts(card.processor, card.config)
    if facts:
        parts.append(facts_table(facts, "setting"))
    if card.data is None:
        parts.append("The text it was fitted on is not recorded here.\n")
    else:
        parts.append("The text, of which file names and digests are recorded:\n")
        parts.append(facts_table(text_facts(card.data), "text"))
    return parts


def write_card(folder: Path, card: Card, code: Sequence[str] = ()) -> None:
    """Write the README.md, unless there is one that somebody else wrote.

    Args:
      folder: of the model.
      card: what it says.
      code: classes of `bertflow_modules.py` that its modules.json names.

    Raises:
      WorkdirError: it cannot be written.
    """
    if not has_other_card(folder):
        write_text(folder / CARD, make_card(card, code))


def has_other_card(folder: Path) -> bool:
    """Whether a folder has a README.md that somebody else wrote; raises OSError."""
    path = folder / CARD
    return path.exists() and not is_ours(path.read_text("utf-8", "replace"))


def remove_card(folder: Path) -> None:
    """Remove the README.md of an older save, and no other; raises OSError."""
    path = folder / CARD
    if path.is_file() and is_ours(path.read_text("utf-8", "replace")):
        path.unlink()
