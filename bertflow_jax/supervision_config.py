"""The section `supervision` of a configuration: labelled pairs and how the encoder learns."""

import dataclasses
import math

from bertflow_jax.checks import check_choice, check_least, check_types, require
from bertflow_jax.errors import ConfigError

OBJECTIVES = ("flow", "siamese", "regression", "joint", "none")
FORMATS = ("auto", "tsv", "csv", "jsonl", "sts", "tfds")
_NO_GOLD = "-"  # as `data.nli.NO_GOLD`, which this module must not import
DEV_METRICS = ("auto", "spearman", "accuracy", "loss", "none")


@dataclasses.dataclass
class SupervisionConfig:
    """Labelled pairs, the dev set and the fine-tuning of the encoder.

    Used by every objective but `flow`. Steps, epochs, batch size, clip and the rhythms of logging
    and evaluation are those of `train`; the flow of `joint` is fitted with `train.learning_rate`
    and `train.optimizer`.

    Attributes:
      path: files separated by commas, a folder of STS data, or a prepared TFDS data_dir.
      format: `auto` (by name and task), `tsv`, `csv`, `jsonl`, `sts` or `tfds`.
      columns: the two columns (keys) of the sentences, separated by a comma; "" takes
        sentence1,sentence2 or premise,hypothesis or sentence_A,sentence_B.
      label_column: column (key) of the label; "" takes gold_label, label or entailment_judgment,
        for regression score, relatedness_score or label.
      label_names: what the file calls entailment, neutral and contradiction, in this order.
      score_range: scores that stand for cosine 0 and 1, as `0,5`; "" takes 1,5 for SICK, else 0,5.
      task: of a folder: `sickr`, `stsb`, ...; of a TFDS data_dir: `snli`, `multi_nli` or both.
      splits: of a folder, a TFDS data_dir or a file with a column `split`, separated by commas.
      encoding: text encoding of the files.
      dev_path: as path; "" takes the same source where it has splits, else there is no dev set.
      dev_format: as format.
      dev_columns: as columns; "" takes those above.
      dev_label_column: as label_column; "" takes the one above, if the metric needs such labels.
      dev_task: as task; "" takes the same.
      dev_splits: as splits.
      dev_metric: `spearman` of cosine and score, `accuracy` of the classes, `loss` (lower is
        better), `none`, or `auto`: spearman where the dev set has scores, else accuracy.
      patience: evaluations in a row without a better one before training ends; 0 never ends early.
      labelled: examples that keep their label, chosen by the seed; 0 keeps all.
      duplicate: copies of every example; all but the first have one random token of each sentence
        replaced by [MASK].
      norm_penalty: weight of the mean of |u| + |v| in the loss.
      learning_rate: peak of the encoder's step size.
      head_learning_rate: peak of the classifier's step size; 0 takes learning_rate. With a few
        hundred steps of 2e-5 a new classifier would hardly leave its random start.
      weight_decay: decoupled decay of the encoder's and the head's matrices.
      warmup: share of the steps over which the step size rises linearly from 0.
      dropout: whether the encoder's dropout is on while training.
      joint_loss: `regression` or `siamese`, the supervised part of the objective `joint`.
      joint_vectors: `latent` (released: the supervised loss sees z = f(u)) or `embedding` (u).
      flow_to_encoder: weight of the flow's loss in the encoder's objective; 0 (released) trains the
        flow alone with it. The density grows without bound as vectors shrink: keep it small.
    """

    path: str = ""
    format: str = "auto"
    columns: str = ""
    label_column: str = ""
    label_names: str = "entailment,neutral,contradiction"
    score_range: str = ""
    task: str = ""
    splits: str = "train"
    encoding: str = "utf-8"
    dev_path: str = ""
    dev_format: str = "auto"
    dev_columns: str = ""
    dev_label_column: str = ""
    dev_task: str = ""
    dev_splits: str = "dev"
    dev_metric: str = "auto"
    patience: int = 0
    labelled: int = 0
    duplicate: int = 1
    norm_penalty: float = 0.0
    learning_rate: float = 2e-5
    head_learning_rate: float = 0.0
    weight_decay: float = 0.01
    warmup: float = 0.1
    dropout: bool = True
    joint_loss: str = "regression"
    joint_vectors: str = "latent"
    flow_to_encoder: float = 0.0

    def validate(self, prefix: str = "supervision.") -> None:
        """Raise ConfigError for an impossible value."""
        check_types(self, prefix)
        check_choice(prefix + "format", self.format, FORMATS)
        check_choice(prefix + "dev_format", self.dev_format, FORMATS)
        check_choice(prefix + "dev_metric", self.dev_metric, DEV_METRICS)
        check_choice(prefix + "joint_loss", self.joint_loss, ("regression", "siamese"))
        check_choice(prefix + "joint_vectors", self.joint_vectors, ("latent", "embedding"))
        check_least(
            self,
            prefix,
            patience=0,
            labelled=0,
            duplicate=1,
            norm_penalty=0,
            head_learning_rate=0,
            weight_decay=0,
            flow_to_encoder=0,
        )
        require(self.learning_rate > 0, prefix + "learning_rate", self.learning_rate, "must be > 0")
        require(0 <= self.warmup < 1, prefix + "warmup", self.warmup, "must be in [0, 1)")
        names = self.names_of_labels()
        distinct = len(names) == 3 and len({name.lower() for name in names}) == 3
        require(
            distinct and all(names),
            prefix + "label_names",
            self.label_names,
            "must be what the file calls entailment, neutral and contradiction, in this order: "
            "three names separated by commas that differ by more than case, as yes,maybe,no",
        )
        require(
            _NO_GOLD not in names,
            prefix + "label_names",
            self.label_names,
            f"must be names of classes; {_NO_GOLD!r} marks pairs that are left out",
        )
        for name in ("columns", "dev_columns"):
            given = getattr(self, name)
            require(
                not given or len(comma_separated(given)) == 2,
                prefix + name,
                given,
                "must be two columns separated by a comma",
            )
        if self.score_range:
            parse_score_range(self.score_range, prefix + "score_range")

    def names_of_labels(self) -> list[str]:
        """Return the file's names of entailment, neutral and contradiction."""
        return [name.strip() for name in self.label_names.split(",")]


def comma_separated(text: str) -> list[str]:
    """Return the parts of a list in one string, without blanks around them and empty ones."""
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_score_range(text: str, field: str) -> tuple[float, float]:
    """Return (lowest, highest) of a score; raises ConfigError unless two rising numbers."""
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        low, high = 0.0, 0.0
    if not low < high or not math.isfinite(high - low):  # the first is also True for NaN
        raise ConfigError(
            f"{field}={text!r}: must be two finite numbers, the lower one first, as 0,5"
        )
    return low, high
