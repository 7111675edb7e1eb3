"""BERT-large-NLI, flow on each task's own text: Table 3 of the paper.

    python -m bertflow_jax.reproduce --table=3 --rows=large_nli_flow_target \
        --data_dir=DIR --nli=FILES

or the fit alone:

    python train.py --config=configs/paper/large_nli_flow_target.py --workdir=runs/fit \
        --config.data.path=DIR --config.data.task=sts12

Published, years by wmean: STS-B, SICK-R, STS12 to STS16
81.18 74.52 70.19 80.27 78.85 82.97 80.57.
"""

from bertflow_jax.config import Config, DataConfig, EncoderConfig, FlowConfig, TrainConfig


def get_config() -> Config:
    return Config(
        seed=1234,
        encoder=EncoderConfig(
            path="runs/paper/large_nli/encoder", pooling="first_last", max_length=64
        ),
        flow=FlowConfig(actnorm_init="released"),
        data=DataConfig(path="data/sts", task="stsb", splits="train,dev,test"),
        train=TrainConfig(mode="online", epochs=1, batch_size=32, learning_rate=1e-3),
    )
