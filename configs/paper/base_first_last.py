"""BERT-base, first_last pooling, no flow: Table 2 of the paper.

    python -m bertflow_jax.reproduce --table=2 --rows=base_first_last \
        --data_dir=DIR

Published, years by wmean: STS-B, SICK-R, STS12 to STS16
59.04 63.75 57.84 61.95 62.48 70.95 69.81.
"""

from bertflow_jax.config import Config, EncoderConfig


def get_config() -> Config:
    return Config(
        objective="none",
        encoder=EncoderConfig(path="bert-base-uncased", pooling="first_last", max_length=64),
    )
