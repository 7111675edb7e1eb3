"""Target fit of the bundled BERT on all STS-B text.

    python train.py --config=configs/stsb_mini_bert.py --workdir=runs/mini \
        --config.data.path=data/sts
"""

from bertflow_jax.config import Config, DataConfig, EncoderConfig, TrainConfig


def get_config() -> Config:
    return Config(
        encoder=EncoderConfig(path="mini_bert", pooling="first_last"),
        data=DataConfig(path="data/sts", task="stsb", splits="train,dev,test"),
        train=TrainConfig(epochs=8, batch_size=256),
    )
