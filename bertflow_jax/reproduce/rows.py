"""One row of a table: its config filled in, its cells scored or taken from their files."""

import dataclasses
import datetime
import logging
import re
from pathlib import Path
from typing import Any

from bertflow_jax.config import Config
from bertflow_jax.data.text import text_splits
from bertflow_jax.errors import BertFlowError, ConfigError
from bertflow_jax.evaluation.results import source_version
from bertflow_jax.reproduce import scoring
from bertflow_jax.reproduce.kept import digest_of, read_score, write_score
from bertflow_jax.reproduce.options import Options, recipe_config
from bertflow_jax.reproduce.sources import Sources, run_folder, settled
from bertflow_jax.reproduce.tables import SHARED, TARGET, Row, Table
from bertflow_jax.supervision_config import comma_separated

_log = logging.getLogger(__name__)


@dataclasses.dataclass
class RowScores:
    """What was found of a row.

    Attributes:
      cells: task -> {"ours", "published", "difference", ...}, ours x 100.
      missing: task -> why it has no score.
      made: encoder (path, digests, pooling), seed, dates and versions of the scores.
    """

    cells: dict[str, dict[str, Any]]
    missing: dict[str, str]
    made: dict[str, Any]


def score_row(
    options: Options, sources: Sources, table: Table, row: Row, folder: Path
) -> RowScores:
    """Score every task of a row; what one task lacks is no reason to leave out the others.

    Args:
      options: the flags.
      sources: of what is read.
      table: the table.
      row: of it.
      folder: of the score files.
    """
    try:
        config = base_config(options, sources, row)
        encoder, identity = scoring.encoder_of(config)
    except BertFlowError as error:
        return RowScores({}, dict.fromkeys(table.tasks, str(error)), {})
    found = RowScores({}, {}, {})
    scores = []
    for task in table.tasks:
        workdirs: list[Path] = []
        try:
            with scoring.said_where(f"row {row.name}, task {task}", workdirs):
                cell = scoring.Cell(
                    config=task_config(options, row, config, task),
                    encoder=encoder,
                    identity=identity,
                    row=row,
                    task=task,
                    splits=table.splits,
                    options=options,
                    sources=sources,
                )
                score = _score(table, cell, folder, workdirs)
        except BertFlowError as error:
            found.missing[task] = str(error)
            _log.warning("%s of %s is left out; the reason stands below the table", task, row.name)
            continue
        found.cells[task] = compared(score, row.published.get(task))
        scores.append(score)
    dates = sorted(score["made"].get("date", "") for score in scores)
    found.made = {
        # The pooling by the name that a user gives it.
        "encoder": {"path": config.encoder.path, **identity, "pooling": config.encoder.pooling},
        "seed": config.seed,
        "dates": [dates[0], dates[-1]] if dates else [],
        "versions": sorted({score["made"].get("version", "") for score in scores}),
    }
    return found


def compared(score: dict[str, Any], published: float | None) -> dict[str, Any]:
    """Return the details of a score with "ours", "published" and "difference"."""
    ours = score["score"]
    known = ours is not None and published is not None
    difference = ours - published if known else None
    return {
        **score["details"],
        "ours": ours,
        "published": published,
        "difference": difference,
    }


def _score(table: Table, cell: scoring.Cell, folder: Path, workdirs: list[Path]) -> dict[str, Any]:
    """Return {"score": x 100 or None, "details", "made"}, from its file where that fits.

    The workdir of a fit is added to `workdirs` before it begins.
    """
    row, task = cell.row, cell.task
    read = cell.sources.read(table, row, task, cell.config)
    described = {
        "table": table.number,
        "row": {k: v for k, v in dataclasses.asdict(row).items() if k != "published"},
        "task": task,
        "config": settled(cell.config),
        "encoder": cell.identity,
        "read": read,
    }
    key = digest_of(described)
    file = folder / f"{re.sub(r'[^A-Za-z0-9_]+', '-', row.name).strip('-')}.{task}.json"
    kept = read_score(file, key)
    if kept is not None:
        _log.info("%s of %s is there already: %s", task, row.name, file)
        return kept
    name = "all" if row.fit == SHARED else task
    if row.pooling:
        name = f"{name}-{row.pooling}"
    place = Path(cell.options.output) / row.recipe / name
    workdir = run_folder(place, cell.config, cell.identity, read["text"])
    cell = dataclasses.replace(cell, workdir=workdir)
    workdirs.append(workdir)
    score = scoring.SCORERS.get(table.number, scoring.score_task)(cell)
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    made = {"date": date, "version": source_version()}
    content = {"key": key, **score, "made": made, **described}
    write_score(file, content)
    return content


def base_config(options: Options, sources: Sources, row: Row) -> Config:
    """Return the config of a row, its encoder filled in (trained first if it must be).

    Raises:
      ConfigError: something is not there that the row needs; the text says which flag gives it.
    """
    config = recipe_config(row.recipe, options.overrides)
    if row.fit == SHARED and not options.nli:
        raise ConfigError("the flow is fitted on NLI text: give its files with --nli")
    path = _encoder_path(options, sources, row, config)
    encoder = dataclasses.replace(config.encoder, path=path)
    if row.pooling:
        encoder = dataclasses.replace(encoder, pooling=row.pooling)
    return dataclasses.replace(config, encoder=encoder)


def task_config(options: Options, row: Row, config: Config, task: str) -> Config:
    """Return the config of a row with the text that is fitted on for one task.

    A target row takes the splits that the task has: a year has its test text alone.

    Raises:
      ConfigError: without --data_dir.
    """
    data = config.data
    if row.fit == SHARED:
        data = dataclasses.replace(data, path=options.nli)
    elif row.is_fitted:
        if options.data_dir is None:
            raise ConfigError("the tasks' data are needed: give --data_dir")
        asked = comma_separated(data.splits) if row.fit == TARGET else ()
        splits = ",".join(text_splits(task, asked))
        data = dataclasses.replace(data, path=options.data_dir, task=task, splits=splits)
    return dataclasses.replace(config, data=data)


def _encoder_path(options: Options, sources: Sources, row: Row, config: Config) -> str:
    """Return the encoder's path or Hub id; one with NLI supervision is trained if it must be."""
    given = options.encoders.get(row.encoder)
    if given is not None:
        return given
    if not row.encoder.endswith("_nli"):
        return config.encoder.path
    if not options.nli:
        raise ConfigError(
            f"the encoder trained on NLI labels is needed: give --encoders={row.encoder}=FOLDER, "
            "or the NLI files with --nli to train it"
        )
    return scoring.train_nli_encoder(options, row.encoder, sources)
