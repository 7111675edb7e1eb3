"""A TensorFlow 1 checkpoint of BERT or BERT-flow, sorted into encoder, flow and rest."""

import dataclasses
import re
from pathlib import Path

from bertflow_jax.convert.audit import some
from bertflow_jax.convert.google_bert import SCOPES
from bertflow_jax.convert.tf_bundle import TensorBundle
from bertflow_jax.errors import WeightsError

FLOW_SCOPE = "bert/flow/"
# Variables that no embedding needs: pattern of the whole name -> why they are left out.
LEFT_OUT = {
    r".+/adam_[mv]": "moment of the optimiser",
    r"global_step": "counter of the optimiser",
    r"cls/(predictions|seq_relationship)/.+": "pre-training head (masked words, next sentence)",
    r"loss/output_weights|output_weights|output_bias": "classification head",
    r"signal_early_stopping/STOP": "flag of early stopping",
}


@dataclasses.dataclass(frozen=True)
class Sorted:
    """The tensors of a checkpoint by what they are part of.

    Attributes:
      bundle: the open checkpoint.
      encoder: name -> shape.
      flow: name -> shape.
      left_out: name -> why.
    """

    bundle: TensorBundle
    encoder: dict[str, tuple[int, ...]]
    flow: dict[str, tuple[int, ...]]
    left_out: dict[str, str]


def sort_checkpoint(prefix: Path) -> Sorted:
    """Open a checkpoint and sort its tensors.

    Raises:
      WeightsError: damaged; a tensor that is neither of an encoder nor of a flow nor on the list
        `LEFT_OUT`; moments of a variable that is not there; nothing to import.
    """
    bundle = TensorBundle(prefix)
    found = Sorted(bundle, {}, {}, {})
    unknown = []
    for name, shape in sorted(bundle.shapes.items()):
        reason = next((why for form, why in LEFT_OUT.items() if re.fullmatch(form, name)), None)
        if reason is not None:
            found.left_out[name] = reason
        elif name.startswith(FLOW_SCOPE):
            found.flow[name] = shape
        elif name.startswith(SCOPES):
            found.encoder[name] = shape
        else:
            unknown.append(f"{name} {shape}")
    if unknown:
        raise WeightsError(
            f"{prefix}: {len(unknown)} tensor(s) that are part of neither a BERT nor a BERT-flow: "
            + some(unknown)
        )
    for name in found.left_out:
        variable = re.sub(r"/adam_[mv]$", "", name)
        if variable not in bundle.shapes:
            raise WeightsError(
                f"{prefix}: {variable} is missing, although its moment {name} is there"
            )
    if not found.encoder and not found.flow:
        raise WeightsError(
            f"{prefix}: no tensor of an encoder (bert/encoder/...) or of a flow (bert/flow/...) "
            f"among {len(bundle.shapes)}"
        )
    return found
