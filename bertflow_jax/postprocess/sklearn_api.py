"""What scikit-learn asks of a transformer, without importing scikit-learn.

`clone`, `Pipeline`, `GridSearchCV`, `check_is_fitted` and their kin look for methods, not for a
base class: post-processors work in them where scikit-learn is there, and do without where it is
not. Parameters are the arguments of the constructor. Fields of one that is a dataclass, or
parameters of one that has its own, are `argument__field`: `Flow().set_params(config__depth=2)`, and
`flow__config__depth` in a search over a pipeline whose step is called `flow`.
"""

import dataclasses
import functools
import inspect
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bertflow_jax.checks import check_switch
from bertflow_jax.errors import ConfigError, InputError, NotFittedError, shown
from bertflow_jax.postprocess.densities import OfDensities, no_density


class SklearnApi:
    """Mixin: parameters, names and scores as scikit-learn's tools ask for them.

    Attributes:
      n_features_in_: D of the embeddings it was fitted on; not there before `fit`.
      feature_names_in_: object[D], the columns of the table it was fitted on; not there where they
        had no names that are all str.
    """

    name: ClassVar[str]
    _one_to_one: ClassVar[bool] = False  # whether z_d comes from u_d alone
    _names: NDArray[np.object_] | None = None

    @property
    def features(self) -> int | None:
        """D of the embeddings it was fitted on, None before."""
        raise NotImplementedError

    @property
    def latent_features(self) -> int | None:
        """K of what `transform` gives, None before `fit`."""
        raise NotImplementedError

    def fit(self, embeddings: np.ndarray, y: object = None) -> Self:
        """Fit to embeddings float[N, D] and return itself; `y` has no effect."""
        raise NotImplementedError

    def transform(self, embeddings: np.ndarray) -> np.ndarray:
        """Map embeddings float[N, D] to float32[N, K]."""
        raise NotImplementedError

    def log_prob(self, embeddings: np.ndarray) -> np.ndarray:
        """Return the log-density of embeddings float[N, D], float32[N] in nats."""
        raise no_density(self, "log_prob")

    def _is_density(self) -> bool:
        """Whether `log_prob` means something."""
        return False

    def _forget(self) -> None:
        """Become unfitted."""
        raise NotImplementedError

    def fit_transform(self, embeddings: np.ndarray, y: object = None) -> np.ndarray:
        """Fit to embeddings float[N, D] and return them mapped, float32[N, K]; `y` has no effect.

        Raises as `fit` and `transform`.
        """
        return self.fit(embeddings, y).transform(embeddings)

    @OfDensities
    def score_samples(self, embeddings: np.ndarray) -> np.ndarray:
        """Return `log_prob`, float32[N] in nats.

        Raises:
          NoDensityError: the map has no density; an AttributeError, so that `hasattr` is False.
        """
        return self.log_prob(embeddings)

    @OfDensities
    def score(self, embeddings: np.ndarray, y: object = None) -> float:
        """Return the mean log-density in nats, the score of a search; raises as `score_samples`.

        No row has no mean, and is an InputError.
        """
        densities = self.log_prob(embeddings)
        if not len(densities):
            raise InputError(
                f"Found array with 0 sample(s) (shape={np.shape(embeddings)}) while a minimum of 1 "
                "is required: no rows have no mean log-density"
            )
        return float(np.mean(densities, dtype=np.float64))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor, and with `deep` what is inside of them."""
        params = {name: getattr(self, name) for name in _arguments(type(self))}
        if check_switch(deep, "deep"):
            for name, value in list(params.items()):
                params.update({f"{name}__{field}": v for field, v in _inside(value).items()})
        return params

    def set_params(self, **params: Any) -> Self:
        """Set arguments of the constructor by name and return itself.

        What changes something makes it unfitted: a map of other settings than its own would be
        saved, and a flow of another shape has other parameters.

        Raises:
          ConfigError: there is no such parameter; the text lists those that there are.
          InputError or ConfigError: as the constructor; nothing is changed then.
        """
        known = self.get_params(deep=True)
        unknown = sorted(set(params) - set(known))
        if unknown:
            raise ConfigError(
                f"{type(self).__name__} has no parameter {shown(unknown[0])}; it has "
                f"{', '.join(known) or 'none'}"
            )
        own = {name: value for name, value in params.items() if "__" not in name}
        inner: dict[str, dict[str, Any]] = {}
        for name, value in params.items():
            head, _, field = name.partition("__")
            if field:
                inner.setdefault(head, {})[field] = value
        arguments = {**self.get_params(deep=False), **own}
        for name, fields in inner.items():
            arguments[name] = _replaced(name, arguments[name], fields)
        made = type(self)(**arguments)  # the constructor checks them
        for name, before in self.get_params(deep=False).items():
            if getattr(made, name) != before:
                self._forget()
            setattr(self, name, getattr(made, name))
        return self

    @property
    def n_features_in_(self) -> int:
        """D; raises AttributeError before `fit`, as scikit-learn asks."""
        if self.features is None:
            raise AttributeError(f"this {type(self).__name__} is not fitted: no n_features_in_")
        return self.features

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Columns of the table it was fitted on; raises AttributeError where it had no names."""
        if self._names is None:
            raise AttributeError(f"this {type(self).__name__} was not fitted on named columns")
        return self._names

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the K dimensions, object[K].

        Those of the input where every dimension keeps its own (`Standardize`, `Center`), otherwise
        the kind and a number, as `whitening0`.

        Args:
          input_features: names of the D dimensions; None takes those of the fit, or x0, x1, ...

        Raises:
          NotFittedError: before `fit`.
          InputError: no list, another number of names, or others than those of the fit.
        """
        features, latent = self.features, self.latent_features
        if features is None or latent is None:
            raise not_fitted(f"this {self.name} is not fitted yet: call fit(embeddings)")
        default = [f"x{i}" for i in range(features)] if self._names is None else self._names
        names = _as_names(default if input_features is None else input_features)
        if len(names) != features:
            raise InputError(
                f"input_features should have length equal to number of features ({features}), "
                f"got {len(names)}"
            )
        if self._names is not None and not np.array_equal(names, self._names):
            raise InputError("input_features is not equal to feature_names_in_")
        if self._one_to_one:
            return names
        return np.array([f"{type(self).__name__.lower()}{i}" for i in range(latent)], object)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether it is fitted, for `check_is_fitted`."""
        return self.features is not None

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's description of a transformer; scikit-learn alone calls it."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["float32"]),
            input_tags=InputTags(),
        )

    def __repr__(self) -> str:
        """Return the constructor call that makes it, without what is the default."""
        return _call(type(self), self.get_params(deep=False))


def _as_names(given: Any) -> NDArray[np.object_]:
    try:
        # Of text and of a dict a list would make something else than was meant.
        listed = None if isinstance(given, str | bytes | Mapping) else list(given)
    except TypeError:
        listed = None
    if listed is None:
        raise InputError(f"input_features={shown(given)}: must be a list of names, or None")
    names = np.empty(len(listed), object)
    names[:] = [name if np.ndim(name) == 0 else shown(name) for name in listed]
    return names


def not_fitted(text: str) -> NotFittedError:
    """Return the error for a post-processor that is not fitted.

    Where a program has scikit-learn loaded, it is scikit-learn's NotFittedError too: an `except`
    for that one heeds nothing else.
    """
    module = sys.modules.get("sklearn.exceptions")
    return NotFittedError(text) if module is None else _both(module.NotFittedError)(text)


@functools.cache
def _both(theirs: type[Exception]) -> type[NotFittedError]:
    # A class made in a function cannot be pickled by its name, and joblib's workers send errors so.
    members = {"__reduce__": lambda self: (not_fitted, self.args)}
    return type("NotFittedError", (NotFittedError, theirs), members)


def _arguments(kind: type) -> Mapping[str, inspect.Parameter]:
    """Return the named arguments of a constructor."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(kind).parameters
    return {name: value for name, value in parameters.items() if value.kind in named}


def _is_config(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _inside(value: Any) -> dict[str, Any]:
    if _is_config(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value.get_params() if hasattr(value, "get_params") else {}


def _replaced(name: str, value: Any, fields: dict[str, Any]) -> Any:
    """Return the value with other fields; a config is copied, since others may hold it too."""
    if _is_config(value):
        return dataclasses.replace(value, **fields)
    if isinstance(value, type) or not hasattr(value, "set_params"):
        field = next(iter(fields))
        raise ConfigError(f"{name}={shown(value)} has no fields, and so no {name}__{field}")
    return value.set_params(**fields)


def _call(kind: type, values: Mapping[str, Any]) -> str:
    parts = []
    for name, parameter in _arguments(kind).items():
        value, default = values[name], parameter.default
        if _is_config(value):
            default = type(value)() if default is None else default
            shown = _call(type(value), _inside(value))
        else:
            shown = repr(value)
        if default is inspect.Parameter.empty or (value is not default and value != default):
            parts.append(f"{name}={shown}")
    return f"{kind.__name__}({', '.join(parts)})"
