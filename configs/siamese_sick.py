"""The encoder trained on SICK's 4,500 entailment labels: minutes on two CPU cores.

    python train.py --config=configs/siamese_sick.py --workdir=runs/sick \
        --config.encoder.path=FOLDER_OR_HUB_ID --config.supervision.path=data/sts
    python evaluate.py --encoder=runs/sick/encoder --pooling=mean --data_dir=data/sts \
        --tasks=sickr,stsb

all-MiniLM-L6-v2: SICK-R test 77.15 -> 78.66 (docs/supervision.md).
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
        encoder=EncoderConfig(path="sentence-transformers/all-MiniLM-L6-v2", pooling="mean"),
        supervision=SupervisionConfig(
            path="data/sts",
            task="sickr",
            learning_rate=5e-6,
            head_learning_rate=1e-3,
            patience=4,
        ),
        train=TrainConfig(epochs=1, batch_size=16, eval_every=25),
        checkpoint=CheckpointConfig(every=100, keep=1),
    )
