"""The Glow of BERT-flow: bijectors assembled by Flax modules.

level i = depth x (ActNorm -> permutation -> coupling) on D // 2**i channels, joined by `FactorOut`.
The modules own the parameters; the bijector they hand out is a pure function of them, so that it
can be used under jit, grad, vmap and inside distrax without Flax.

Collections: "params" (trainable) and, with `permutation="plu"`, "constants" (P and sign(s)).
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import distrax
import flax.linen as nn
import jax
import jax.numpy as jnp

from bertflow_jax.config import FlowConfig
from bertflow_jax.errors import ConfigError
from bertflow_jax.flow.actnorm import ActNorm, fit_actnorm, init_actnorm
from bertflow_jax.flow.conditioner import Conditioner
from bertflow_jax.flow.coupling import AdditiveCoupling, AffineCoupling, split_sizes
from bertflow_jax.flow.factor_out import FactorOut
from bertflow_jax.flow.permutation import PLULinear, Reverse, init_plu
from bertflow_jax.jax_settings import random_key

Variables = dict[str, Any]


class FlowStep(nn.Module):
    """One step of the flow: ActNorm -> permutation -> coupling.

    Attributes:
      channels: C.
      config: shape of the flow.
    """

    channels: int
    config: FlowConfig

    def setup(self) -> None:
        """Declare the parameters."""
        kept, changed = split_sizes(self.channels)
        affine = self.config.coupling == "affine"
        self.net = Conditioner(
            features=2 * changed if affine else changed,
            width=self.config.width,
            activation=self.config.activation,
            dropout=self.config.dropout,
            actnorm_init=self.config.actnorm_init,
            parent=None,
        )
        self.actnorm = self.param("actnorm", init_actnorm, self.channels, self.config.actnorm_init)
        self.conditioner = self.param(
            "conditioner", lambda key: self.net.init(key, jnp.zeros((1, kept)))["params"]
        )
        if self.config.permutation == "plu":
            # One draw gives both parts, and only while initialising is there a key to draw with.
            start: tuple[Any, Any] = (None, None)
            if self.is_initializing():
                start = init_plu(self.make_rng("params"), self.channels)
            self.plu: Any = self.param("plu", lambda _: start[0])
            self.plu_fixed: Any = self.variable("constants", "plu", lambda: start[1]).value

    def bijector(self, dropout_key: jax.Array | None = None) -> distrax.Chain:
        """Return the step for its current parameters; a key switches dropout on."""
        # distrax.Chain applies its list last to first.
        return distrax.Chain(
            [
                self._coupling(self.conditioner, dropout_key),
                self._permutation(),
                ActNorm(**self.actnorm),
            ]
        )

    def fit_to_data(self, x: jax.Array) -> jax.Array:
        """Set every ActNorm from the rows that reach it; return float32[N, C] after the step."""
        actnorm = fit_actnorm(x)
        y = self._permutation().forward(ActNorm(**actnorm).forward(x))
        _, fitted = self.net.apply(
            {"params": self.conditioner},
            y[:, : self.channels // 2],
            fit_to_data=True,
            mutable=["params"],
        )
        self.put_variable("params", "actnorm", actnorm)
        self.put_variable("params", "conditioner", fitted["params"])
        return self._coupling(fitted["params"], None).forward(y)

    def _permutation(self) -> distrax.Bijector:
        if self.config.permutation == "plu":
            return PLULinear(**self.plu, **self.plu_fixed)
        return Reverse()

    def _coupling(self, params: Any, dropout_key: jax.Array | None) -> distrax.Bijector:
        net: Any = functools.partial(
            self.net.clone(parent=None).apply,
            {"params": params},
            deterministic=dropout_key is None,
            rngs=None if dropout_key is None else {"dropout": dropout_key},
        )
        return AffineCoupling(net) if self.config.coupling == "affine" else AdditiveCoupling(net)


class Glow(nn.Module):
    """The multi-level flow of D channels; forward means embedding -> latent.

    Attributes:
      features: D.
      config: shape of the flow.
    """

    features: int
    config: FlowConfig

    def setup(self) -> None:
        """Declare the steps of every level."""
        check_features(self.features, self.config)
        self.levels = [
            [
                FlowStep(self.features >> level, self.config, name=f"level{level}_step{step}")
                for step in range(self.config.depth)
            ]
            for level in range(self.config.levels)
        ]

    def bijector(self, dropout_key: jax.Array | None = None) -> distrax.Bijector:
        """Return embedding -> latent for the current parameters; a key switches dropout on."""
        chains = []
        for i, steps in enumerate(self.levels):
            keys = [
                None if dropout_key is None else jax.random.fold_in(dropout_key, i * 1000 + j)
                for j in range(len(steps))
            ]
            bijectors = [step.bijector(key) for step, key in zip(steps, keys, strict=True)]
            chains.append(distrax.Chain(bijectors[::-1]))
        flow: distrax.Bijector = chains[-1]
        for chain in chains[-2::-1]:
            flow = FactorOut(chain, flow)
        return flow

    def __call__(
        self, x: jax.Array, dropout_key: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """Map float32[..., D] to the latent float32[..., D] and log-det float32[...] in nats."""
        return self.bijector(dropout_key).forward_and_log_det(x)

    def fit_to_data(self, x: jax.Array) -> jax.Array:
        """Data-dependent initialisation over float32[N, D], in one pass through the flow.

        Needs "params" mutable. Returns the latent float32[N, D] under the new parameters.
        """
        left = []
        for i, steps in enumerate(self.levels):
            for step in steps:
                x = step.fit_to_data(x)
            if i < len(self.levels) - 1:
                x, eps = jnp.split(x, [x.shape[-1] // 2], axis=-1)
                left.append(eps)
        return jnp.concatenate([*left, x], axis=-1)


def check_features(features: int, config: FlowConfig) -> None:
    """Raise ConfigError unless every level of a flow over D channels keeps at least two of them."""
    last = features >> (config.levels - 1)
    if last < 2:
        raise ConfigError(
            f"flow.levels={config.levels}: the last level of a flow over {features} dimensions "
            f"would have {last} channel(s), and needs at least 2; use fewer levels"
        )


def init_variables(config: FlowConfig, features: int, seed: int) -> Variables:
    """Return new variables {"params": ..., "constants": ... if any}; no data is seen.

    Raises:
      ConfigError: an impossible config, or too few dimensions for its levels.
    """
    config.validate()
    check_features(features, config)
    return _compiled(dataclasses.astuple(config), features)[0](random_key(seed))


def fit_variables(config: FlowConfig, variables: Variables, x: jax.Array) -> Variables:
    """Return variables whose ActNorms are set from float32[N, D]: the data-dependent start."""
    return _compiled(dataclasses.astuple(config), x.shape[-1])[1](variables, x)


@functools.lru_cache(maxsize=64)
def _compiled(fields: tuple[Any, ...], features: int) -> tuple[Callable, Callable]:
    """Return the compiled (initialise, fit to data) of a flow; op by op they take seconds."""
    glow = Glow(features, FlowConfig(*fields))

    def initialise(key: jax.Array) -> Variables:
        return dict(glow.init(key, jnp.zeros((1, features))))

    def fit_to_data(variables: Variables, x: jax.Array) -> Variables:
        _, fitted = glow.apply(variables, x, method="fit_to_data", mutable=["params"])
        return {**variables, **fitted}

    return jax.jit(initialise), jax.jit(fit_to_data)


def bijector(
    config: FlowConfig, variables: Variables, features: int, dropout_key: jax.Array | None = None
) -> distrax.Bijector:
    """Return embedding -> latent as a pure distrax bijector of the variables' arrays."""
    return Glow(features, config).apply(variables, dropout_key, method="bijector")


def distribution(config: FlowConfig, variables: Variables, features: int) -> distrax.Transformed:
    """Return the density over embeddings: N(0, I) pulled back through the flow.

    distrax maps base samples forward to data, so it is given the inverse of embedding -> latent.
    """
    base = distrax.MultivariateNormalDiag(jnp.zeros(features), jnp.ones(features))
    return distrax.Transformed(base, distrax.Inverse(bijector(config, variables, features)))
