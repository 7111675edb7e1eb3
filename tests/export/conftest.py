"""The tiny encoders of tests/encoder."""

from encoder.conftest import bert_folder  # noqa: F401
