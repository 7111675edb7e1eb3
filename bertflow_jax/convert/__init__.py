"""Importing flows and encoders that other implementations saved: `python -m bertflow_jax.convert`.

The PyTorch port's state dicts, the released TensorFlow 1 BERT-flow checkpoints and Google's BERT
checkpoints become a flow folder (`Flow.load`) and an encoder folder
(`SentenceEncoder.from_pretrained`). TensorFlow is not needed.
"""
