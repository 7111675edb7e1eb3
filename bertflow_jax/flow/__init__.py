"""The invertible flow: distrax bijectors assembled by a Flax module."""
