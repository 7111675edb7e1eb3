"""The invertible flow: distrax bijectors assembled by a Flax module."""

from bertflow_jax.errors import ConfigError
from bertflow_jax.jax_variables import no_docstrings

# What distrax is built on puts docstrings together while it is loaded.
if _problem := no_docstrings():
    raise ConfigError(_problem)
