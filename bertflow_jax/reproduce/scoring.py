"""The scores of single cells of the paper's tables; loads JAX."""

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertflow_jax.checkpoint import CheckpointStore
from bertflow_jax.config import Config
from bertflow_jax.data.embedding_cache import embed_cached
from bertflow_jax.data.sts import StsTask
from bertflow_jax.embed import SentenceEncoder
from bertflow_jax.errors import ConfigError
from bertflow_jax.evaluation.analyses import run_analyses
from bertflow_jax.evaluation.edit_distance import lexical_analysis
from bertflow_jax.evaluation.fitted_rows import fit_row, load_fit_texts
from bertflow_jax.evaluation.tasks import PAPER_AGGREGATION, SentenceTable, evaluate_task
from bertflow_jax.interrupt import Interrupt, was_pressed
from bertflow_jax.reproduce.options import Options, recipe_config
from bertflow_jax.reproduce.sources import Sources, run_folder
from bertflow_jax.reproduce.tables import NONE, Row
from bertflow_jax.restore import load_run
from bertflow_jax.training.run import load_encoder, train
from bertflow_jax.training.supervised_run import train_encoder

_log = logging.getLogger(__name__)
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
      splits: of the task; None takes its own.
      options: the flags.
      sources: of what is read.
      workdir: of the row's fit.
    """

    config: Config
    encoder: SentenceEncoder
    identity: dict[str, Any]
    row: Row
    task: str
    splits: tuple[str, ...] | None
    options: Options
    sources: Sources
    workdir: Path = Path()

    def load_task(self) -> StsTask:
        """Return the task that is scored."""
        return self.sources.task(self.task, self.splits)

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
    return _loaded(
        section.path, section.pooling, section.max_length, section.dtype, section.revision
    )


@functools.lru_cache(maxsize=2)
def _loaded(
    path: str, pooling: str, max_length: int, dtype: str, revision: str
) -> tuple[SentenceEncoder, dict[str, Any]]:
    config = Config()
    section = dataclasses.replace(
        config.encoder,
        path=path,
        pooling=pooling,
        max_length=max_length,
        dtype=dtype,
        revision=revision,
    )
    encoder = load_encoder(dataclasses.replace(config, encoder=section))
    return encoder, encoder.identity()


def forget_encoders() -> None:
    """Let the next `encoder_of` read its files again: they may be others now."""
    _loaded.cache_clear()


def train_nli_encoder(options: Options, name: str, sources: Sources) -> str:
    """Train the siamese encoder of `base_nli` or `large_nli`, or go on; return its folder."""
    config = recipe_config(name, options.overrides)
    given = options.encoders.get(name.removesuffix("_nli"))
    encoder = config.encoder if given is None else dataclasses.replace(config.encoder, path=given)
    supervision = dataclasses.replace(config.supervision, path=options.nli)
    config = dataclasses.replace(config, encoder=encoder, supervision=supervision)
    place = Path(options.output) / name
    workdir = run_folder(place, config, encoder_of(config)[1], sources.nli())
    with said_where(f"training the encoder {name}", [workdir]):
        train_encoder(config, workdir, resume=_begun(workdir), progress=True)
    return str(workdir / "encoder")


@contextlib.contextmanager
def said_where(what: str, workdirs: Sequence[Path]) -> Iterator[None]:
    """Say on Ctrl-C what was being done and which step of it is saved; end what swallowed it.

    Args:
      what: in the words of the user.
      workdirs: of the fits of it; may be filled meanwhile.
    """
    try:
        yield
        if was_pressed():
            raise KeyboardInterrupt
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or was_pressed():
            steps = [step for folder in workdirs for step in CheckpointStore(folder).steps()]
            saved = f", step {steps[-1]} is saved" if steps else ""
            _log.warning("stopped in %s%s; the same command goes on from there", what, saved)
        raise


def _begun(workdir: Path) -> bool:
    folder = workdir / "checkpoints"
    return folder.is_dir() and any(folder.iterdir())


def score_task(cell: Cell) -> Score:
    """Score a task with the embeddings of the encoder, of a post-processor, or of a flow."""
    task = cell.load_task()
    result = evaluate_task(task, fitted_table(cell, task))
    scored = result if "auc" in result else result[PAPER_AGGREGATION]
    score = scored["auc" if "auc" in result else "spearman"]
    reason = {"reason": scored["reason"]} if score is None else {}
    return {"score": score, "details": {"pairs": result["pairs"], **reason}}


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
    # Ctrl-C inside the reading of a checkpoint would show its threads' tracebacks.
    with Interrupt() as interrupt:
        interrupt.check()
        flow = load_run(cell.workdir).flow
        interrupt.check()
    return raw.map(flow.transform)


def score_edit_distance(cell: Cell) -> Score:
    """Correlate the edit distance in words with gold score, raw cosine or the flow's (Table 6)."""
    task = cell.load_task()
    found = lexical_analysis(task, {"vectors": fitted_table(cell, task)})["words"]["rows"]
    row = "gold" if cell.row.name == "gold" else "vectors"
    scored = found[row]["distance"]
    reason = {"reason": scored.get("reason", "")} if scored["spearman"] is None else {}
    return {"score": scored["spearman"], "details": reason}


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
