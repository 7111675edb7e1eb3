"""Encoder and flow trained together on STS-B, 500 of the 5,749 pairs with their label.

    python train.py --config=configs/joint_stsb.py --workdir=runs/joint \
        --config.encoder.path=FOLDER_OR_HUB_ID --config.supervision.path=data/sts
    python evaluate.py --workdir=runs/joint --data_dir=data/sts --tasks=stsb

The labels teach the encoder through the flow (z = f(u)), with AdamW and 2e-5; the flow's own loss,
of all pairs, teaches the flow, with its own optimiser and train.learning_rate.
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
        objective="joint",
        encoder=EncoderConfig(path="mini_bert", pooling="mean", max_length=128),
        supervision=SupervisionConfig(
            path="data/sts", task="stsb", labelled=500, learning_rate=2e-5
        ),
        train=TrainConfig(epochs=4, batch_size=16, learning_rate=1e-3, eval_every=180),
        checkpoint=CheckpointConfig(every=360, keep=1),
    )
