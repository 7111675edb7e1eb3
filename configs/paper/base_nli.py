"""BERT-base trained on NLI labels: the encoder of the rows "BERT-base-NLI" (Table 3).

    python train.py --config=configs/paper/base_nli.py --workdir=runs/paper/base_nli \
        --config.supervision.path=snli_1.0_train.jsonl,multinli_1.0_train.jsonl

The encoder is written to runs/paper/base_nli/encoder.
"""

from bertflow_jax.config import (
    CheckpointConfig,
    Config,
    EncoderConfig,
    SupervisionConfig,
    TrainConfig,
)


def get_config() -> Config:
    return Config(
        objective="siamese",
        seed=1234,
        encoder=EncoderConfig(path="bert-base-uncased", pooling="mean", max_length=64),
        supervision=SupervisionConfig(
            path="snli_1.0_train.jsonl,multinli_1.0_train.jsonl", dev_metric="none"
        ),
        train=TrainConfig(epochs=1, batch_size=16, log_every=100),
        checkpoint=CheckpointConfig(every=5000, keep=2),
    )
