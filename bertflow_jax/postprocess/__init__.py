"""What is done to embeddings after the encoder, behind one fit/transform interface."""

from bertflow_jax.postprocess.flow import Flow

__all__ = ["Flow"]
