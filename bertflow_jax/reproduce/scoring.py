"""The scores of single cells of the paper's tables; loads JAX."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bertflow_jax.config import Config
from bertflow_jax.data.embedding_cache import embed_cached
from bertflow_jax.data.sts import StsTask
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.errors import ConfigError
from bertflow_jax.evaluation.analyses import run_analyses
from bertflow_jax.evaluation.edit_distance import lexical_analysis
from bertflow_jax.evaluation.fitted_rows import fit_row, load_fit_texts
from bertflow_jax.evaluation.options import EvalOptions, load_tasks
from bertflow_jax.evaluation.tasks import PAPER_AGGREGATION, SentenceTable, evaluate_task
from bertflow_jax.reproduce.options import Options, recipe_config
from bertflow_jax.reproduce.tables import NONE, Row
from bertflow_jax.restore import load_run
from bertflow_jax.training.run import load_encoder, train
from bertflow_jax.training.supervised_run import train_encoder

Score = dict[str, Any]
_NEIGHBOURS = "3"


@dataclasses.dataclass(frozen=True)
class Cell:
    """One row and task.

    Attributes:
      config: of the row, filled in for the task.
      encoder: of the config.
      identity: of the encoder; it takes a digest of all weights.
      row: of the table.
      task: its column.
      workdir: of the row's fit.
      splits: of the task; None takes its own.
      options: the flags.
    """

    config: Config
    encoder: SentenceEncoder
    identity: dict[str, Any]
    row: Row
    task: str
    workdir: Path
    splits: tuple[str, ...] | None
    options: Options

    def load_task(self) -> StsTask:
        """Return the task that is scored."""
        return load_tasks(
            EvalOptions(tasks=(self.task,), data_dir=self.options.data_dir, splits=self.splits)
        )[0]

    def raw(self, task: StsTask, more: tuple[str, ...] | list[str] = ()) -> SentenceTable:
        """Return the encoder's embeddings of the task's sentences and more."""
        return SentenceTable.build(
            [task],
            lambda texts: embed_cached(
                self.encoder.encode, self.identity, texts, self.config.cache_dir
            ),
            more,
        )


def encoder_of(config: Config) -> tuple[SentenceEncoder, dict[str, Any]]:
    """Return the encoder of a config and its identity; the last ones stay loaded."""
    section = config.encoder
    return _loaded(section.path, section.pooling, section.max_length, section.dtype)


@functools.lru_cache(maxsize=2)
def _loaded(
    path: str, pooling: str, max_length: int, dtype: str
) -> tuple[SentenceEncoder, dict[str, Any]]:
    config = Config()
    section = dataclasses.replace(
        config.encoder, path=path, pooling=pooling, max_length=max_length, dtype=dtype
    )
    encoder = load_encoder(dataclasses.replace(config, encoder=section))
    return encoder, encoder.identity()


def train_nli_encoder(options: Options, name: str) -> str:
    """Train the siamese encoder of `base_nli` or `large_nli`, or go on; return its folder."""
    workdir = Path(options.output) / name
    config = recipe_config(name, options.overrides)
    given = options.encoders.get(name.removesuffix("_nli"))
    encoder = config.encoder if given is None else dataclasses.replace(config.encoder, path=given)
    supervision = dataclasses.replace(config.supervision, path=options.nli)
    config = dataclasses.replace(config, encoder=encoder, supervision=supervision)
    train_encoder(config, workdir, resume=_begun(workdir), progress=True)
    return str(workdir / "encoder")


def _begun(workdir: Path) -> bool:
    folder = workdir / "checkpoints"
    return folder.is_dir() and any(folder.iterdir())


def score_task(cell: Cell) -> Score:
    """Score a task with the embeddings of the encoder, of a post-processor, or of a flow."""
    task = cell.load_task()
    result = evaluate_task(task, fitted_table(cell, task))
    if "auc" in result:
        return {"score": result["auc"], "details": {"pairs": result["pairs"]}}
    score = result[PAPER_AGGREGATION]["spearman"]
    return {"score": score, "details": {"pairs": result["pairs"]}}


def fitted_table(cell: Cell, task: StsTask) -> SentenceTable:
    """Return the vectors that the row scores, fitting what is to be fitted."""
    if cell.row.postprocess:
        texts = load_fit_texts("target", (), [task.name], cell.options.data_dir)
        raw = cell.raw(task, texts.sentences)
        tables = fit_row(cell.row.postprocess, 0, cell.config, raw, texts, [task])
        return tables[task.name]
    raw = cell.raw(task)
    if cell.row.fit == NONE:
        return raw
    train(cell.config, cell.workdir, resume=_begun(cell.workdir), progress=True)
    return raw.map(load_run(cell.workdir).flow.transform)


def score_edit_distance(cell: Cell) -> Score:
    """Correlate the edit distance in words with gold score, raw cosine or the flow's (Table 6)."""
    task = cell.load_task()
    found = lexical_analysis(task, {"vectors": fitted_table(cell, task)})["words"]["rows"]
    row = "gold" if cell.row.name == "gold" else "vectors"
    score = found[row]["distance"]["spearman"]
    return {"score": score, "details": {}}


def score_word_frequency(cell: Cell) -> Score:
    """Measure the word embeddings of one bin of frequency ranks (Table 1)."""
    found = run_analyses(["word_frequency"], [], {}, cell.encoder, cell.options.corpus)
    words = found["word_frequency"]["bins"][cell.row.name]
    value = words["norm"]
    if cell.task == "distance":
        value = words["neighbours"][_NEIGHBOURS]["distance"]
    if value is None:
        raise ConfigError(f"{cell.row.name}: {words['reason']}")
    return {"score": float(np.float64(value)), "details": {"words": words["words"]}}


SCORERS: dict[int, Callable[[Cell], Score]] = {1: score_word_frequency, 6: score_edit_distance}
