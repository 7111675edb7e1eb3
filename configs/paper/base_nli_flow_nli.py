"""BERT-base-NLI, flow on NLI text (NLI*): Table 3 of the paper.

    python -m bertflow_jax.reproduce --table=3 --rows=base_nli_flow_nli \
        --data_dir=DIR --nli=FILES

or the fit alone:

    python train.py --config=configs/paper/base_nli_flow_nli.py --workdir=runs/fit \
        --config.data.path=snli_1.0_train.jsonl,multinli_1.0_train.jsonl

Published, years by wmean: STS-B, SICK-R, STS12 to STS16
79.10 78.03 67.75 76.73 75.53 80.63 77.58.
"""

from bertflow_jax.config import Config, DataConfig, EncoderConfig, FlowConfig, TrainConfig


def get_config() -> Config:
    return Config(
        seed=1234,
        encoder=EncoderConfig(
            path="runs/paper/base_nli/encoder", pooling="first_last", max_length=64
        ),
        flow=FlowConfig(actnorm_init="released"),
        data=DataConfig(path="snli_1.0_train.jsonl,multinli_1.0_train.jsonl", format="pairs"),
        train=TrainConfig(mode="online", epochs=0.15, batch_size=32, learning_rate=2e-5),
    )
