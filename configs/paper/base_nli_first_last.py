"""BERT-base-NLI, first_last pooling, no flow: Table 3 of the paper.

    python -m bertflow_jax.reproduce --table=3 --rows=base_nli_first_last \
        --data_dir=DIR --nli=FILES

Published, years by wmean: STS-B, SICK-R, STS12 to STS16
78.03 74.07 68.37 72.44 73.98 79.15 75.39.
"""

from bertflow_jax.config import Config, EncoderConfig


def get_config() -> Config:
    return Config(
        objective="none",
        encoder=EncoderConfig(
            path="runs/paper/base_nli/encoder", pooling="first_last", max_length=64
        ),
    )
