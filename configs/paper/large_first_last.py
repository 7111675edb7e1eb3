"""BERT-large, first_last pooling, no flow: Table 2 of the paper.

    python -m bertflow_jax.reproduce --table=2 --rows=large_first_last \
        --data_dir=DIR

Published, years by wmean: STS-B, SICK-R, STS12 to STS16
59.56 60.22 57.68 61.37 61.02 68.04 70.32.
"""

from bertflow_jax.config import Config, EncoderConfig


def get_config() -> Config:
    return Config(
        objective="none",
        encoder=EncoderConfig(path="bert-large-uncased", pooling="first_last", max_length=64),
    )
