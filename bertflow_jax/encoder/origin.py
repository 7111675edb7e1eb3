"""Which encoder vectors come from: those of another one mean nothing to a post-processor."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from bertflow_jax.encoder.hf_layout import params_digest
from bertflow_jax.encoder.pretrained import Encoder
from bertflow_jax.errors import BertFlowWarning, InputError

_WEIGHTS = "weights_sha256"
ANY_PROMPT = "any_prompt"  # in a record: the texts of the fit may have had a default prompt
_SAID = {
    _WEIGHTS: "its weights (fine-tuned or replaced since)",
    "tokenizer_sha256": "its tokenizer",
}


def encoder_origin(encoder: Encoder) -> dict[str, Any]:
    """Return what decides the vectors that a post-processor is fitted on, JSON-safe.

    Unlike `Encoder.identity` it leaves out what users choose anew where they embed (the length
    that texts are cut at, the type that is computed in), and what the vectors do not depend on.
    """
    # The head of the pre-training is left out, unless a vector passes through it: saved again by
    # sentence-transformers, a folder has a new one.
    used = {
        name: part
        for name, part in encoder.params.items()
        if name != "pooler" or encoder.pooling.tokens == "pooler"
    }
    return {
        _WEIGHTS: params_digest(used),
        "tokenizer_sha256": encoder.tokenizer.digest(spelling=False),
        "num_attention_heads": encoder.config.num_attention_heads,
        "hidden_act": encoder.config.hidden_act,
        "layer_norm_eps": encoder.config.layer_norm_eps,
        "pooling": str(encoder.pooling),
        "normalize": encoder.normalize,
        "lower_first": encoder.lower_first,
    }


def differences(said: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Return the names of what two such records differ in."""
    return [name for name in found if found[name] != said.get(name)]


def told(names: Iterable[str], found: Mapping[str, Any]) -> str:
    """Return what `differences` found, for a message."""
    return ", ".join(_SAID.get(name, f"{name} {found[name]}") for name in names)


def check_origin(processor: object, encoder: Encoder) -> None:
    """Raise InputError where a post-processor is known to be fitted on another encoder's vectors.

    A default prompt, which train.py leaves out, is a warning: the texts of the run may have had it.

    Args:
      processor: its `fitted_on` is the `encoder_origin` of a run, or of the folder of an encoder it
        was saved with, None where nobody knows.
      encoder: whose vectors are to go through it.
    """
    said = getattr(processor, "fitted_on", None)
    if said is None:
        return
    found = encoder_origin(encoder)
    if other := differences(said, found):
        wanted = f"; it is for pooling {said.get('pooling')}" if "pooling" in other else ""
        raise InputError(
            f"the {getattr(processor, 'name', 'post-processor')} was fitted on the vectors of "
            f"another encoder: {told(other, found)}{wanted}. Fit one on the vectors of this one"
        )
    if said.get(ANY_PROMPT):
        return
    usage = encoder.usage
    if prompt := usage.known_prompts.get(usage.default_prompt_name or "", ""):
        warnings.warn(
            f"the default prompt {prompt!r} of this encoder goes before every text, and the "
            f"{getattr(processor, 'name', 'post-processor')} was fitted without it, unless the "
            "texts of its run had it; prompt='' embeds the texts alone",
            BertFlowWarning,
            stacklevel=3,
        )
