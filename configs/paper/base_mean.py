"""BERT-base, mean pooling, no flow: Table 2 of the paper.

    python -m bertflow_jax.reproduce --table=2 --rows=base_mean \
        --data_dir=DIR

Published, years by wmean: STS-B, SICK-R, STS12 to STS16
47.29 58.21 49.07 55.92 54.75 62.75 65.19.
"""

from bertflow_jax.config import Config, EncoderConfig


def get_config() -> Config:
    return Config(
        objective="none",
        encoder=EncoderConfig(path="bert-base-uncased", pooling="mean", max_length=64),
    )
