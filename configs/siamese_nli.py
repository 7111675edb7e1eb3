"""The encoder trained on NLI labels, as in the rows "base-NLI": softmax over [u, v, |u - v|].

    python train.py --config=configs/siamese_nli.py --workdir=runs/nli \
        --config.encoder.path=bert-base-uncased \
        --config.supervision.path=snli_1.0_train.jsonl,multinli_1.0_train.jsonl \
        --config.supervision.dev_path=data/sts

Any NLI files will do, or a TFDS data_dir with --config.supervision.task=snli,multi_nli. The best
encoder by Spearman on STS-B dev is written to runs/nli/encoder; a flow is then fitted on it:

    python train.py --config=configs/stsb_mini_bert.py --workdir=runs/nli_flow \
        --config.encoder.path=runs/nli/encoder
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
        encoder=EncoderConfig(path="mini_bert", pooling="mean", max_length=128),
        supervision=SupervisionConfig(
            path="snli_1.0_train.jsonl,multinli_1.0_train.jsonl",
            dev_path="data/sts",
            dev_task="stsb",
            learning_rate=2e-5,
            warmup=0.1,
        ),
        train=TrainConfig(epochs=1, batch_size=16, eval_every=2000, log_every=50),
        checkpoint=CheckpointConfig(every=2000, keep=2),
    )
