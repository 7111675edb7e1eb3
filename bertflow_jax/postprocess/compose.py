"""One post-processor after the other."""

import copy
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np

from bertflow_jax.checks import check_switch
from bertflow_jax.errors import (
    CheckpointError,
    ConfigError,
    DataNotFoundError,
    InputError,
)
from bertflow_jax.paths import user_path
from bertflow_jax.postprocess.base import PostProcessor, PureTransform
from bertflow_jax.postprocess.compose_steps import check_chain, check_steps, single
from bertflow_jax.postprocess.hub_folder import HubFolder
from bertflow_jax.postprocess.known_encoder import known_for
from bertflow_jax.postprocess.sklearn_api import SklearnApi, not_fitted
from bertflow_jax.postprocess.storage import (
    COMPOSE,
    DAMAGE,
    compose_steps,
    described_in,
    refuse_links,
    remove_saved,
)
from bertflow_jax.text_output import write_text
from bertflow_jax.workdir import folder_to_save


class Compose(HubFolder, SklearnApi):
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
          InputError: no list of post-processors, or one twice, also within a `Compose` among them.
        """
        self.steps = steps

    # A property: what is set later is checked too, before a fit of what comes before it.
    @property
    def fitted_on(self) -> dict[str, Any] | None:
        """The encoder whose vectors the first step was fitted on; see `Flow.fitted_on`."""
        return getattr(self.steps[0], "fitted_on", None)

    def known_for(self, encoder: Mapping[str, Any]) -> Self:
        """Return a copy whose first step is known to be fitted on an encoder; see `Flow`."""
        first, *rest = self.steps
        known = copy.copy(self)
        known.steps = [known_for(first, encoder), *rest]
        return known

    @property
    def steps(self) -> tuple[PostProcessor, ...]:
        """The post-processors, first one first."""
        return self._steps

    @steps.setter
    def steps(self, steps: Sequence[PostProcessor]) -> None:
        self._steps = check_steps(steps)

    @property
    def features(self) -> int | None:
        """D of the embeddings it was fitted on, None before."""
        return self.steps[0].features

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether every step is fitted, for `check_is_fitted`."""
        return all(step.features is not None for step in single(self.steps))

    @property
    def latent_features(self) -> int | None:
        """K of what `transform` gives, None before `fit`."""
        return self.steps[-1].latent_features

    @property
    def _names(self) -> Any:  # type: ignore[override]
        return getattr(self.steps[0], "_names", None)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments; with `deep` the parameters of step 0 as `0__k`, of 1 as `1__k`."""
        params = super().get_params(deep=False)
        for number, step in enumerate(self.steps if check_switch(deep, "deep") else ()):
            params[str(number)] = step
            params.update({f"{number}__{name}": v for name, v in step.get_params().items()})
        return params

    def set_params(self, **params: Any) -> Self:
        """Set an argument, as `steps`, a step by its number, or a parameter of one, as `1__k`.

        Raises:
          ConfigError: there is no such parameter; the text lists those that there are.
          InputError or ConfigError: as the constructors.
        """
        arguments = super().get_params(deep=False)  # of one's own class there may be more
        arguments |= {name: params.pop(name) for name in list(params) if name in arguments}
        steps = list(type(self)(**arguments).steps)
        for name in [name for name in params if name in map(str, range(len(steps)))]:
            steps[int(name)] = params.pop(name)
        made = type(self)(**{**arguments, "steps": steps})
        known = made.get_params()
        unknown = sorted(set(params) - set(known))
        if unknown:
            raise ConfigError(f"Compose has no parameter {unknown[0]!r}; it has {', '.join(known)}")
        for name in arguments:
            setattr(self, name, getattr(made, name))
        for name, value in params.items():
            number, _, inner = name.partition("__")
            self.steps[int(number)].set_params(**{inner: value})
        return self

    def fit(self, embeddings: np.ndarray, y: object = None) -> Self:
        """Fit every step, in order, to embeddings float[N, D] and return itself; `y` has no effect.

        Raises as the steps.
        """
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
        check_chain(self.steps)
        for step in self.steps:
            embeddings = step.transform(embeddings)
        return embeddings

    def inverse_transform(self, latents: np.ndarray) -> np.ndarray:
        """Map float[N, K] back to embeddings float32[N, D]."""
        check_chain(self.steps)
        for step in reversed(self.steps):
            latents = step.inverse_transform(latents)
        return latents

    def save(self, folder: str | Path) -> None:
        """Write every step into a folder of its own, `0`, `1`, ...

        Raises:
          WorkdirError: the folder is blank, a file, or cannot be written, or what is to be replaced
            in it is a link.
          BertFlowError: a step is not fitted yet, or not on what the one before it gives; nothing
            is written then.
        """
        for step in single(self.steps):
            if step.features is None:
                raise not_fitted(f"this {step.name} is not fitted yet: call fit(embeddings)")
        check_chain(self.steps)
        path = folder_to_save(folder, "folder")
        refuse_links(path, f"folder={folder}", len(self.steps))
        # The old steps go first: an interrupted save must not leave a mixture that can be loaded.
        remove_saved(path, steps=len(self.steps))
        for number, step in enumerate(self.steps):
            step.save(path / str(number))
        write_text(path / COMPOSE, json.dumps({"steps": len(self.steps)}) + "\n")

    @classmethod
    def load(cls, folder: str | Path) -> "Compose":
        """Read what `save` wrote; raises DataNotFoundError or CheckpointError."""
        from bertflow_jax.postprocess.kinds import load  # it knows every kind, this one too

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
        steps = [load(path / str(number)) for number in range(count)]
        try:
            check_chain(steps)
        except InputError as error:
            raise CheckpointError(f"{path}: {error}") from error
        return cls(steps)

    def pure(self) -> PureTransform:
        """Return `transform` as a pure function."""
        check_chain(self.steps)
        parts = [step.pure() for step in self.steps]
        params = {str(number): part.params for number, part in enumerate(parts)}
        return PureTransform(self.name, _in_turn(tuple(part.transform for part in parts)), params)


# One function for equal chains, so that encoders with one share what is compiled.
@functools.lru_cache(maxsize=64)
def _in_turn(transforms: tuple[Callable[[Any, jax.Array], jax.Array], ...]) -> Callable[..., Any]:
    def transform(params: Any, u: jax.Array) -> jax.Array:
        for number, part in enumerate(transforms):
            u = part(params[str(number)], u)
        return u

    return transform
