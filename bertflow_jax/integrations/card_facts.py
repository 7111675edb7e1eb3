"""What a model card says of an encoder, its post-processor and the text they were fitted on.

A card is public: of every path the last part is kept, so that no machine's folders are in it.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from bertflow_jax.encoder.pretrained import Encoder
from bertflow_jax.postprocess.base import PostProcessor
from bertflow_jax.postprocess.compose import Compose
from bertflow_jax.postprocess.flow import Flow

_PATHS = ("path", "dev_path", "source", "workdir", "cache_dir", "data_dir", "corpus")
_ABSOLUTE = re.compile(r"[/~\\]|[A-Za-z]:[/\\]|[a-z][a-z0-9+.-]*://")
_SECTIONS = ("encoder", "supervision", "train")
# Of a section these say nothing of what a model is.
_NO_MATTER = ("log_every", "eval_every", "tensorboard", "remat")


def public(value: Any, name: str = "") -> Any:
    """Return JSON-safe content with the last part alone of every path.

    Args:
      value: str, number, list, mapping, None.
      name: its key: "path" and its kin hold paths, several with commas between them; under another
        key a text counts as one where it starts like an absolute path or an address.
    """
    if isinstance(value, Mapping):
        return {str(key): public(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [public(item, name) for item in value]
    if not isinstance(value, str):
        return value
    if name in _PATHS:
        return ",".join(_last_part(path) for path in value.split(","))
    return _last_part(value) if _ABSOLUTE.match(value) else value


def _last_part(path: str) -> str:
    prepared = "tfds:" if path.startswith("tfds:") else ""
    parts = [part for part in re.split(r"[/\\]", path.removeprefix(prepared)) if part]
    return prepared + (parts[-1] if parts else "")


def flows_in(processor: PostProcessor | None) -> Iterator[Flow]:
    """Yield the flows of a post-processor, those inside a Compose too."""
    if isinstance(processor, Compose):
        for step in processor.steps:
            yield from flows_in(step)
    elif isinstance(processor, Flow):
        yield processor


def model_facts(encoder: Encoder | None, processor: PostProcessor | None) -> dict[str, str]:
    """Return what a model is, name -> text."""
    facts = {}
    if encoder is not None:
        config = encoder.config
        facts["encoder"] = f"{config.num_hidden_layers} layers, {config.hidden_size} wide"
        facts["pooling"] = str(encoder.pooling)
        facts["longest text"] = f"{encoder.tokenizer.max_length} tokens; what is longer is cut"
        dimension = encoder.pooling.dimension(config.hidden_size)
        if encoder.normalize:
            facts["normalisation"] = "the encoder's vectors have length 1"
    if processor is not None:
        facts["post-processor"] = f"`{processor!r}`"
        dimension = processor.latent_features or dimension
    facts["dimension"] = str(dimension)
    return facts


def fit_facts(processor: PostProcessor | None, config: Mapping[str, Any] | None) -> dict[str, str]:
    """Return how a model was fitted, name -> text.

    Args:
      processor: its flows' shapes are named whole, defaults too.
      config: of the run (`Config.to_dict`), None where there was none.
    """
    facts = {
        f"flow {number}" if number > 1 else "flow": _listed(dataclasses.asdict(flow.config))
        for number, flow in enumerate(flows_in(processor), 1)
    }
    if config is None:
        return facts
    for name in ("objective", "seed"):
        if name in config:
            facts[name] = str(config[name])
    objective = config.get("objective", "flow")
    for name in _SECTIONS:
        section = config.get(name)
        if not isinstance(section, Mapping) or (name == "supervision" and objective == "flow"):
            continue
        facts[name] = _listed({k: v for k, v in section.items() if k not in _NO_MATTER})
    return facts


def text_facts(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return a text's manifest, name -> text; what is null or empty is left out."""
    found = public(manifest)
    return {name: _shown(value) for name, value in found.items() if value not in (None, "", [], {})}


def _listed(fields: Mapping[str, Any]) -> str:
    shown = public(fields)
    return ", ".join(f"{name} {_shown(value)}" for name, value in shown.items() if value != "")


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def facts_table(facts: Mapping[str, str], head: str = "") -> str:
    """Return facts as a Markdown table."""
    rows = [f"| {name} | {_cell(text)} |" for name, text in facts.items()]
    return "\n".join([f"| {head} | |", "|---|---|", *rows]) + "\n"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")
