"""One post-processor after the other."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np

from bertflow_jax.errors import (
    BertFlowError,
    CheckpointError,
    ConfigError,
    DataNotFoundError,
    InputError,
)
from bertflow_jax.paths import user_path
from bertflow_jax.postprocess.base import PostProcessor, PureTransform
from bertflow_jax.postprocess.storage import (
    COMPOSE,
    DAMAGE,
    compose_steps,
    described_in,
    remove_saved,
)
from bertflow_jax.workdir import prepare_output, write_text


class Compose:
    """z = f_n(... f_1(u)); each is fitted to what those before it give.

    `Compose([Standardize(), NATSV(6)])` is the paper's SN + NATSV.

    Attributes:
      steps: the post-processors, first one first.
    """

    name = "compose"

    def __init__(self, steps: Sequence[PostProcessor]):
        """Take at least one post-processor, every one an object of its own.

        Raises:
          ConfigError: none.
          InputError: one twice, also within a `Compose` among them.
        """
        if not steps:
            raise ConfigError("Compose needs at least one post-processor")
        self.steps = tuple(steps)
        objects = list(_single(self.steps))
        for place, step in enumerate(objects):
            if any(step is other for other in objects[:place]):
                raise InputError(
                    f"Compose was given one {step.name} object twice: the second fit would replace "
                    "the first; make two"
                )

    @property
    def features(self) -> int | None:
        """D of the embeddings it was fitted on, None before."""
        return self.steps[0].features

    def fit(self, embeddings: np.ndarray) -> Self:
        """Fit every step, in order, to embeddings float[N, D] and return itself."""
        return self._fit(embeddings, lambda step, u: step.fit(u))

    def fit_examples(self, embeddings: np.ndarray, rows: np.ndarray) -> Self:
        """Fit every step, in order, to examples; see `Flow.fit_examples`."""
        return self._fit(embeddings, lambda step, u: step.fit_examples(u, rows))

    def _fit(
        self, embeddings: np.ndarray, fit: Callable[[PostProcessor, np.ndarray], object]
    ) -> Self:
        for number, step in enumerate(self.steps):
            fit(step, embeddings)
            if number < len(self.steps) - 1:
                embeddings = step.transform(embeddings)
        return self

    def transform(self, embeddings: np.ndarray) -> np.ndarray:
        """Map embeddings float[N, D] to float32[N, K]."""
        for step in self.steps:
            embeddings = step.transform(embeddings)
        return embeddings

    def inverse_transform(self, latents: np.ndarray) -> np.ndarray:
        """Map float[N, K] back to embeddings float32[N, D]."""
        for step in reversed(self.steps):
            latents = step.inverse_transform(latents)
        return latents

    def save(self, folder: str | Path) -> None:
        """Write every step into a folder of its own, `0`, `1`, ...

        Raises:
          WorkdirError: the folder is blank, a file, or cannot be written.
          BertFlowError: a step is not fitted yet; nothing is written then.
        """
        for step in _single(self.steps):
            if step.features is None:
                raise BertFlowError(f"this {step.name} is not fitted yet: call fit(embeddings)")
        path = prepare_output(folder, "folder")
        # The old steps go first: an interrupted save must not leave a mixture that can be loaded.
        remove_saved(path, steps=len(self.steps))
        for number, step in enumerate(self.steps):
            step.save(path / str(number))
        write_text(path / COMPOSE, json.dumps({"steps": len(self.steps)}) + "\n")

    @classmethod
    def load(cls, folder: str | Path) -> "Compose":
        """Read what `save` wrote; raises DataNotFoundError or CheckpointError."""
        from bertflow_jax.postprocess import load  # it knows every kind, this one too

        path = user_path(folder, "folder")
        found = described_in(path)
        if found is None:
            raise DataNotFoundError(f"{path / COMPOSE} not found: not a saved {cls.name}")
        if found != cls.name:
            raise CheckpointError(
                f"{path} holds a {found}, not a {cls.name}; bertflow_jax.postprocess.load reads "
                "every kind"
            )
        try:
            count = compose_steps(path)
        except DAMAGE as error:
            raise CheckpointError(f"{path / COMPOSE} is not readable ({error})") from error
        return cls([load(path / str(number)) for number in range(count)])

    def pure(self) -> PureTransform:
        """Return `transform` as a pure function."""
        parts = [step.pure() for step in self.steps]

        def transform(params: Any, u: jax.Array) -> jax.Array:
            for number, part in enumerate(parts):
                u = part.transform(params[str(number)], u)
            return u

        params = {str(number): part.params for number, part in enumerate(parts)}
        return PureTransform(self.name, transform, params)


def _single(steps: Sequence[PostProcessor]) -> Iterator[PostProcessor]:
    for step in steps:
        yield from _single(step.steps) if isinstance(step, Compose) else (step,)
