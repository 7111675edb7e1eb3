"""A flow on your own text: one sentence a line.

    python train.py --config=configs/text.py --workdir=runs/text \
        --config.encoder.path=FOLDER_OR_HUB_ID --config.data.path=sentences.txt
"""

from bertflow_jax.config import Config, DataConfig, EncoderConfig, TrainConfig


def get_config() -> Config:
    return Config(
        encoder=EncoderConfig(path="mini_bert", pooling="first_last"),
        data=DataConfig(path="", held_out=0.02),  # the path: as above
        train=TrainConfig(epochs=4, batch_size=64),
    )
