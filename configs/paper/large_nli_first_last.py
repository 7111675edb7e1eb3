"""BERT-large-NLI, first_last pooling, no flow: Table 3 of the paper.

    python -m bertflow_jax.reproduce --table=3 --rows=large_nli_first_last \
        --data_dir=DIR --nli=FILES

No published score of STS; the paper scores this row on QNLI (Table 4).
"""

from bertflow_jax.config import Config, EncoderConfig


def get_config() -> Config:
    return Config(
        objective="none",
        encoder=EncoderConfig(
            path="runs/paper/large_nli/encoder", pooling="first_last", max_length=64
        ),
    )
