"""The encoder trained on STS-B's scores: squared error between cosine(u, v) and score / 5.

    python train.py --config=configs/regression_stsb.py --workdir=runs/stsb \
        --config.encoder.path=FOLDER_OR_HUB_ID --config.supervision.path=data/sts

--config.supervision.task=sickr takes SICK's relatedness, from 1 to 5: (score - 1) / 4.
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
        objective="regression",
        encoder=EncoderConfig(path="mini_bert", pooling="mean", max_length=128),
        supervision=SupervisionConfig(path="data/sts", task="stsb", learning_rate=2e-5),
        train=TrainConfig(epochs=4, batch_size=16, eval_every=180),
        checkpoint=CheckpointConfig(every=360, keep=1),
    )
