"""The demo: the bundled BERT and the bundled corpus, no download.

python train.py --config=configs/demo.py --workdir=runs/demo
python evaluate.py --workdir=runs/demo --tasks=everyday
"""

from bertflow_jax.config import Config, DataConfig, EncoderConfig, TrainConfig


def get_config() -> Config:
    return Config(
        encoder=EncoderConfig(path="mini_bert", pooling="first_last"),
        data=DataConfig(path="everyday"),
        train=TrainConfig(epochs=20, batch_size=64),
    )
