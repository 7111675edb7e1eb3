"""Target fit of all-MiniLM-L6-v2's [CLS] vectors on all STS-B text.

    python train.py --config=configs/stsb_minilm_cls.py --workdir=runs/minilm \
        --config.encoder.path=FOLDER_OR_HUB_ID --config.data.path=data/sts
"""

from bertflow_jax.config import Config, DataConfig, EncoderConfig, TrainConfig


def get_config() -> Config:
    return Config(
        encoder=EncoderConfig(path="sentence-transformers/all-MiniLM-L6-v2", pooling="cls"),
        data=DataConfig(path="data/sts", task="stsb", splits="train,dev,test"),
        train=TrainConfig(epochs=1, batch_size=32),
    )
