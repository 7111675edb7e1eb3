"""One post-processor after the other."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np

from bertflow_jax.errors import CheckpointError, ConfigError, DataNotFoundError
from bertflow_jax.paths import user_path
from bertflow_jax.postprocess.base import PostProcessor, PureTransform
from bertflow_jax.workdir import prepare_output, write_text

_FILE = "compose.json"


class Compose:
    """z = f_n(... f_1(u)); each is fitted to what those before it give.

    `Compose([Standardize(), NATSV(6)])` is the paper's SN + NATSV.

    Attributes:
      steps: the post-processors, first one first.
    """

    name = "compose"

    def __init__(self, steps: Sequence[PostProcessor]):
        """Take at least one post-processor."""
        if not steps:
            raise ConfigError("Compose needs at least one post-processor")
        self.steps = tuple(steps)

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
        """Write every step into a folder of its own, `0`, `1`, ...; raises WorkdirError."""
        path = prepare_output(folder, "folder")
        for number, step in enumerate(self.steps):
            step.save(path / str(number))
        write_text(path / _FILE, json.dumps({"steps": len(self.steps)}) + "\n")

    @classmethod
    def load(cls, folder: str | Path) -> "Compose":
        """Read what `save` wrote; raises DataNotFoundError or CheckpointError."""
        from bertflow_jax.postprocess import load  # it knows every kind, this one too

        path = user_path(folder, "folder")
        if not (path / _FILE).is_file():
            raise DataNotFoundError(f"{path / _FILE} not found: not a saved {cls.name}")
        try:
            count = int(json.loads((path / _FILE).read_text("utf-8"))["steps"])
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise CheckpointError(f"{path / _FILE} is not readable ({error})") from error
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
