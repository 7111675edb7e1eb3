"""The names and layouts that other implementations give the parameters of a Glow.

    released (TensorFlow 1)  bert/flow/revnet_<level>/revnet_step_<step>/..., W [1, 1, in, out]
    port (PyTorch)           blocks.<level>.flows.<step>...., weight [out, in, 1, 1]

Which of our parameters there are, and their shapes, is what `glow.init_variables` says; a `Names`
tells for each where it lies there. The permutation of channels that the released code calls
"permutation" and the port `invconv` is stored as a matrix; ours has no array, so the stored one
must be the reversal.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from flax import traverse_util

from bertflow_jax.config import FlowConfig
from bertflow_jax.convert.audit import Read, Shape
from bertflow_jax.flow import glow

LeafPath = tuple[str, ...]  # of a parameter under its step, without the collection


@dataclasses.dataclass(frozen=True)
class Form:
    """How an array is stored there.

    Attributes:
      shape: our shape -> theirs.
      ours: their array -> ours.
    """

    shape: Callable[[Shape], Shape]
    ours: Callable[[np.ndarray], np.ndarray]


SAME = Form(lambda s: s, lambda x: x)
ROW = Form(lambda s: (1, *s), np.ravel)  # [1, C]
LAST = Form(lambda s: (1, 1, 1, *s), np.ravel)  # [1, 1, 1, C]
SECOND = Form(lambda s: (1, *s, 1, 1), np.ravel)  # [1, C, 1, 1]
IN_OUT = Form(lambda s: (1, 1, *s), lambda x: x[0, 0])  # [1, 1, in, out]
OUT_IN = Form(lambda s: (*s[::-1], 1, 1), lambda x: x[:, :, 0, 0].T)  # [out, in, 1, 1]


def _order(matrix: np.ndarray) -> np.ndarray:
    """Return int32[C] with x P = x[..., order]; raises ValueError unless P is a permutation."""
    one = matrix == 1.0
    if not (one | (matrix == 0.0)).all() or not ((one.sum(0) == 1) & (one.sum(1) == 1)).all():
        raise ValueError("is not a permutation matrix")
    return np.argmax(one, axis=0).astype(np.int32)


def _signs(values: np.ndarray) -> np.ndarray:
    if not (np.abs(values) == 1.0).all():
        raise ValueError("holds numbers other than -1 and 1")
    return values


SIGNS = Form(lambda s: s, _signs)
MATRIX = Form(lambda s: (*s, *s), _order)  # int32[C] as the matrix [C, C]


@dataclasses.dataclass(frozen=True)
class Fixed:
    """A tensor that our flow has no array for, because its value is known.

    Attributes:
      shape: channels of the step -> its shape.
      check: raises ValueError, saying what is wrong, for any other value.
    """

    shape: Callable[[int], Shape]
    check: Callable[[np.ndarray], None]


@dataclasses.dataclass(frozen=True)
class Names:
    """The names of one implementation.

    Attributes:
      what: its name, for messages.
      step: start of the names of a step, with {level} and {step}.
      channels: leaves whose size is the channels of the step.
      width: leaves whose size is the width of the conditioner.
      leaves: config -> {our path: (their name, form)}.
      fixed: config -> {their name: what it must be}.
      variant: names of a step -> the fields of FlowConfig that they tell.
    """

    what: str
    step: str
    channels: tuple[str, ...]
    width: tuple[str, ...]
    leaves: Callable[[FlowConfig], Mapping[LeafPath, tuple[str, Form]]]
    fixed: Callable[[FlowConfig], Mapping[str, Fixed]]
    variant: Callable[[set[str]], dict[str, Any]]

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches a name: level, step, name within the step."""
        number = r"(0|[1-9]\d{0,5})"
        start = re.escape(self.step)
        for word in ("level", "step"):
            start = start.replace(re.escape(f"{{{word}}}"), number)
        return re.compile(start + "(.+)")

    def expected(self, config: FlowConfig, features: int) -> dict[str, Shape]:
        """Return {their name: shape} of everything a flow of D = features channels has there."""
        places = self._places(config, features)
        expected = {name: form.shape(shape) for name, form, shape in places.values()}
        for level, _, start in self._steps(config):
            for name, fixed in self.fixed(config).items():
                expected[start + name] = fixed.shape(features >> level)
        return expected

    def variables(self, read: Read, config: FlowConfig, features: int) -> glow.Variables:
        """Return our variables; `read` returns an array by their name.

        Raises ValueError, its text starting with the name, for a value that no flow can have.
        """
        flat = {}
        for path, (name, form, _) in self._places(config, features).items():
            stored = read(name)
            try:
                flat[path] = np.ascontiguousarray(form.ours(stored))
            except ValueError as error:
                raise ValueError(f"{name} {error}") from None
        return traverse_util.unflatten_dict(flat)

    def check_fixed(self, read: Read, config: FlowConfig) -> None:
        """Raise ValueError, its text starting with the name, where a fixed tensor is another."""
        for _, _, start in self._steps(config):
            for name, fixed in self.fixed(config).items():
                stored = read(start + name)
                try:
                    fixed.check(stored)
                except ValueError as error:
                    raise ValueError(f"{start}{name} {error}") from None

    def _steps(self, config: FlowConfig) -> list[tuple[int, int, str]]:
        grid = [(i, j) for i in range(config.levels) for j in range(config.depth)]
        return [(i, j, self.step.format(level=i, step=j)) for i, j in grid]

    def _places(self, config: FlowConfig, features: int) -> dict[LeafPath, tuple[str, Form, Shape]]:
        """Return {our full path: (their full name, form, our shape)}."""
        shapes = jax.eval_shape(lambda: glow.init_variables(config, features, 0))
        ours = {path: leaf.shape for path, leaf in traverse_util.flatten_dict(shapes).items()}
        leaves, places = self.leaves(config), {}
        starts = {f"level{i}_step{j}": start for i, j, start in self._steps(config)}
        for path, shape in ours.items():
            name, form = leaves[path[2:]]
            places[path] = (starts[path[1]] + name, form, shape)
        return places
