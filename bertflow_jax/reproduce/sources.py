"""What the cells of a table read, and its digests: a replaced file is another file."""

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

from bertflow_jax.config import Config, DataConfig
from bertflow_jax.data.published_sizes import data_note
from bertflow_jax.data.sts import StsTask
from bertflow_jax.data.text import load_text
from bertflow_jax.errors import BertFlowError, DataNotFoundError
from bertflow_jax.evaluation.options import ALL_TASKS, EvalOptions
from bertflow_jax.evaluation.task_loading import load_tasks
from bertflow_jax.paths import file_sha256, user_path
from bertflow_jax.reproduce.kept import digest_of
from bertflow_jax.reproduce.options import Options
from bertflow_jax.reproduce.tables import SHARED, Row, Table
from bertflow_jax.supervision_config import comma_separated
from bertflow_jax.training.run import absolute_paths

# These change no score: where files lie (their digests count), and how often to log and save.
_NO_MATTER = {
    "": ("cache_dir",),
    "encoder": ("path", "revision"),
    "data": ("path",),
    "supervision": ("path", "dev_path"),
    "train": ("log_every", "eval_every", "tensorboard"),
    "checkpoint": ("every", "keep"),
}


class Sources:
    """Tasks and digests of one reproduction, each read once."""

    def __init__(self, options: Options):
        """Take the flags; nothing is read yet."""
        self._options = options
        self._tasks: dict[tuple[str, tuple[str, ...] | None], StsTask] = {}
        self._digests: dict[Any, str] = {}

    def task(self, name: str, splits: tuple[str, ...] | None) -> StsTask:
        """Return a task; raises DataError or DataNotFoundError naming the folder or file."""
        if (name, splits) not in self._tasks:
            chosen = EvalOptions(tasks=(name,), data_dir=self._options.data_dir, splits=splits)
            self._tasks[name, splits] = load_tasks(chosen)[0]
        return self._tasks[name, splits]

    def text(self, data: DataConfig) -> str:
        """Return the digest of the text that a flow is fitted on."""
        key = dataclasses.astuple(data)
        if key not in self._digests:
            self._digests[key] = load_text(data).manifest["sha256"]
        return self._digests[key]

    def file(self, path: str, flag: str) -> str:
        """Return the sha256 of a file; raises DataNotFoundError naming the flag."""
        if path not in self._digests:
            try:
                self._digests[path] = file_sha256(user_path(path, flag))
            except OSError as error:
                raise DataNotFoundError(
                    f"{flag}={path} cannot be read: {error.strerror or error}"
                ) from error
        return self._digests[path]

    def nli(self) -> list[str]:
        """Return the digests of the NLI files."""
        return [self.file(path, "--nli") for path in comma_separated(self._options.nli)]

    def fitted_on(self, row: Row, config: Config) -> Any:
        """Return the digests of what a row's flow or post-processor is fitted on; None if nothing.

        Args:
          row: of the table.
          config: filled in for the task.
        """
        if row.fit == SHARED:
            return self.nli()
        return self.text(config.data) if row.is_fitted else None

    def read(self, table: Table, row: Row, task: str, config: Config) -> dict[str, Any]:
        """Return the digests of all that a cell's score depends on besides its encoder."""
        corpus = self._options.corpus
        return {
            "task": self.task(task, table.splits).sha256 if task in ALL_TASKS else None,
            "text": self.fitted_on(row, config),
            "corpus": None if corpus is None else self.file(corpus, "--corpus"),
        }

    def notes(self, table: Table) -> dict[str, str]:
        """Return task -> what its data differ in from those of the published scores."""
        found = {}
        for name in table.tasks:
            with contextlib.suppress(BertFlowError):  # its cells say why
                task = self.task(name, table.splits)
                found[name] = data_note(name, {k: len(pairs) for k, pairs in task.subsets.items()})
        return {name: note for name, note in found.items() if note is not None}

    def settings(self, table: Table) -> dict[str, Any]:
        """Return what the rows of one table file have in common; tasks without data are left out.

        {"set": overrides, "data": {task: digest}, "nli": [digest], "corpus": digest or None}.
        """
        data = {}
        for name in table.tasks:
            try:
                data[name] = self.task(name, table.splits).sha256 if name in ALL_TASKS else None
            except BertFlowError:
                continue  # its cells say why
        corpus = self._options.corpus
        overrides = {k: v for k, v in self._options.overrides.items() if k != "cache_dir"}
        return {
            "set": overrides,
            "data": data,
            "nli": self.nli(),
            "corpus": None if corpus is None else self.file(corpus, "--corpus"),
        }


def settled(config: Config) -> dict[str, Any]:
    """Return the fields of a config that decide a score, nested."""
    fields = config.to_dict()
    for section, names in _NO_MATTER.items():
        for name in names:
            del (fields[section] if section else fields)[name]
    return fields


def run_folder(folder: Path, config: Config, encoder: dict[str, Any], read: Any) -> Path:
    """Return FOLDER-DIGEST, the workdir of one fit: of the whole config, encoder and text.

    Two settings never share a workdir, so that what is begun in one can always be gone on with.

    Args:
      folder: named after row and task.
      config: of the fit.
      encoder: its identity.
      read: JSON-safe digests of what is fitted on.
    """
    placed = absolute_paths(config)
    # A run does not go on under another name of the same commit either.
    paths = [
        placed.encoder.path,
        placed.encoder.revision,
        placed.data.path,
        placed.supervision.path,
    ]
    key = digest_of({"config": settled(config), "paths": paths, "encoder": encoder, "read": read})
    return folder.with_name(f"{folder.name}-{key[:12]}")
