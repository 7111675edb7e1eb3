"""bertflow_jax: BERT-flow in JAX."""
