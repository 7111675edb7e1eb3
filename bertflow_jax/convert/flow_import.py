"""A flow from tensors under other names: its shape is found, its numbers are checked."""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bertflow_jax.config import FlowConfig
from bertflow_jax.convert.audit import Read, Shape, check_shapes, length, read_finite
from bertflow_jax.convert.flow_names import Names
from bertflow_jax.errors import ConfigError, InputError, WeightsError
from bertflow_jax.flow.glow import check_features
from bertflow_jax.postprocess.flow import Flow

STATED = ("levels", "depth", "width", "coupling", "permutation", "activation")


def import_flow(
    names: Names,
    shapes: Mapping[str, Shape],
    read: Read,
    source: str,
    stated: Mapping[str, Any],
    usual: Mapping[str, Any] | None = None,
) -> Flow:
    """Return the flow that these tensors are.

    Args:
      names: how the implementation calls them.
      shapes: name -> shape of every tensor of the flow, fixed ones included.
      read: returns a tensor by its name.
      source: path, for messages.
      stated: what the caller says of its FlowConfig: a field of `STATED` -> value, None where he
        says nothing.
      usual: what the implementation always makes; another value must be stated. Without this, a
        file whose last level or last step is lost would pass for a smaller flow.

    Raises:
      ConfigError: the tensors are of another flow than stated.
      WeightsError: a tensor is missing, unexpected, misshapen, not finite, or has a value that
        such a flow cannot have.
    """
    config, features = describe(names, shapes, source)
    for field in STATED:
        said, found = stated.get(field), getattr(config, field)
        if said is not None and said != found:
            raise ConfigError(
                f"--{field}={said} contradicts {source}, whose flow has {field}={found}; leave the "
                "flag out, or check that the file is whole and the right one"
            )
        normal = (usual or {}).get(field, found)
        if said is None and found != normal:
            raise WeightsError(
                f"{source}: its flow has {field}={found}, and {names.what} {field}={normal}: part "
                f"of it is missing, or it was made so and --{field}={found} says it"
            )
    check_features(features, config)
    check_shapes(shapes, names.expected(config, features), source, names.what)
    try:
        names.check_fixed(read, config)
        variables = names.variables(lambda name: read_finite(read, name, source), config, features)
    except WeightsError:
        raise
    except ValueError as error:
        raise WeightsError(f"{source}: {error}") from error
    flow = Flow.from_variables(config, variables, features)
    _check_finite(flow, names, read, source)
    return flow


def _check_finite(flow: Flow, names: Names, read: Read, source: str) -> None:
    """Raise WeightsError unless latents, densities and embeddings of random rows are finite.

    Every number of a flow may be finite and a scale, exp(3 s), infinite or 0 all the same.
    """
    rows = np.random.default_rng(0).normal(size=(8, flow.features or 0)).astype(np.float32)
    try:
        for function in (flow.transform, flow.log_prob, flow.inverse_transform):
            function(rows)
    except InputError as error:
        stored = names.expected(flow.config, rows.shape[1])
        largest, name = max((float(np.abs(read(name)).max()), name) for name in stored)
        raise WeightsError(
            f"{source}: the flow has no finite values on random rows of N(0, I); its largest "
            f"number is {largest:g}, in {name}. The file is damaged, or its fit had diverged"
        ) from error


def describe(names: Names, shapes: Mapping[str, Shape], source: str) -> tuple[FlowConfig, int]:
    """Return the config and D of the flow whose tensors have these names and shapes.

    A size is what most tensors that have it say, so that a single misshapen one is the one that
    `check_shapes` names. Raises WeightsError where steps or whole levels are missing.
    """
    steps: dict[tuple[int, int], set[str]] = {}
    channels: Counter[int] = Counter()
    widths: Counter[int] = Counter()
    for name, shape in shapes.items():
        match = names.pattern.fullmatch(name)
        if match is None:
            continue
        level, step, leaf = int(match[1]), int(match[2]), match[3]
        steps.setdefault((level, step), set()).add(leaf)
        if leaf in names.channels and level == 0:
            channels[length(shape)] += 1
        if leaf in names.width:
            widths[length(shape)] += 1
    levels, depth = _grid(names, set(steps), source)
    for what, leaves, sizes in (
        ("D", names.channels, channels),
        ("the width of the conditioner", names.width, widths),
    ):
        if not sizes or min(sizes) < 1:
            raise WeightsError(
                f"{source}: {what} is not known: none of {', '.join(leaves)} is there"
            )
    variants = Counter(tuple(names.variant(leaves).items()) for leaves in steps.values())
    variant = dict(variants.most_common(1)[0][0])
    config = FlowConfig(levels, depth, widths.most_common(1)[0][0], **variant)
    return config, channels.most_common(1)[0][0]


def _grid(names: Names, steps: Iterable[tuple[int, int]], source: str) -> tuple[int, int]:
    """Return levels and depth; every level must have every step."""
    found = set(steps)
    if not found:
        raise WeightsError(
            f"{source}: no tensor of {names.what}; the names should begin with "
            + names.step.format(level=0, step=0)
        )
    levels, depth = (1 + max(numbers) for numbers in zip(*found, strict=True))
    for level, step in itertools.product(range(levels), range(depth)):
        if (level, step) not in found:
            raise WeightsError(
                f"{source}: {names.step.format(level=level, step=step)} is missing: the file "
                f"goes up to level {levels - 1} and step {depth - 1}"
            )
    return levels, depth


def array_shapes(arrays: Mapping[str, np.ndarray]) -> dict[str, Shape]:
    """Return name -> shape."""
    return {name: array.shape for name, array in arrays.items()}
