"""BERT-large, flow on each task's own text: Table 2 of the paper.

    python -m bertflow_jax.reproduce --table=2 --rows=large_flow_target \
        --data_dir=DIR

or the fit alone:

    python train.py --config=configs/paper/large_flow_target.py --workdir=runs/fit \
        --config.data.path=DIR --config.data.task=sts12

Published, years by wmean: STS-B, SICK-R, STS12 to STS16
72.26 62.50 65.20 73.39 69.42 74.92 77.63.
"""

from bertflow_jax.config import Config, DataConfig, EncoderConfig, FlowConfig, TrainConfig


def get_config() -> Config:
    return Config(
        seed=1234,
        encoder=EncoderConfig(path="bert-large-uncased", pooling="first_last", max_length=64),
        flow=FlowConfig(actnorm_init="released"),
        data=DataConfig(path="data/sts", task="stsb", splits="train,dev,test"),
        train=TrainConfig(mode="online", epochs=1, batch_size=32, learning_rate=1e-3),
    )
