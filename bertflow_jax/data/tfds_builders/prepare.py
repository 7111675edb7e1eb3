"""Preparing TFDS data sets: each one whole or not at all."""

import contextlib
import io
import logging
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertflow_jax.data import sts_files
from bertflow_jax.data.sts import StsTask, load_task
from bertflow_jax.data.tfds_builders import PREFIX, UNFINISHED
from bertflow_jax.data.tfds_builders.reader import prepared_version
from bertflow_jax.errors import BertFlowError, ConfigError, DataNotFoundError, WorkdirError
from bertflow_jax.made_folders import make_folder
from bertflow_jax.output_places import check_ways, output_folder, refuse_link
from bertflow_jax.paths import user_path
from bertflow_jax.workdir_lock import lock_workdir

_LOG = logging.getLogger(__name__)


def prepare(
    tasks: Sequence[str],
    data_dir: str | Path,
    manual_dir: str | Path | None = None,
    *,
    mirror: str = "",
    check_sizes: bool = True,
    checksums: str = "",
    encoding: str = "utf-8",
    overwrite: bool = False,
) -> dict[str, Path]:
    """Write data sets as array_record files that `load_task(name, "tfds:DIR")` reads.

    Each is made in a folder beside its place and moved there when it is whole and has been read
    back: after an interruption the finished ones stay, and the next call goes on with the others.
    One that is there already is read, to see that it is whole, and kept.

    Args:
      tasks: of sts12 to sts16, stsb, sickr.
      data_dir: TFDS folder; gets `TASK/VERSION/`, and `downloads/` where something is fetched.
      manual_dir: folder with `STS/`, `STSBenchmark/`, `SICK/`; None downloads the releases.
      mirror: address of a folder that holds the archives, instead of the official ones.
      check_sizes: whether the numbers of scored pairs must be the published ones.
      checksums: file of addresses with their sizes and sha256, as `archives.read_checksums` reads
        it; an archive that differs is refused. "" for none.
      encoding: of the text files.
      overwrite: make the ones that are there anew.

    Returns:
      Task -> its folder.

    Raises:
      BertFlowError: naming flag, address, file and line; nothing of that task is left behind.
    """
    _check_tasks(tasks)
    manual = None if manual_dir is None else user_path(manual_dir, "--manual_dir").absolute()
    if manual is not None:
        if mirror:
            raise ConfigError(
                "--mirror is for downloads; --manual_dir needs none: give one of them"
            )
        if not manual.is_dir():
            raise DataNotFoundError(f"--manual_dir={manual_dir}: no such folder; check the path")
        for task in tasks:
            sts_files.task_folder(manual, task)  # what is missing is told before work starts
    folder = output_folder(data_dir, "--data_dir")
    options = {
        "mirror": mirror,
        "check_sizes": check_sizes,
        "checksums": str(user_path(checksums, "--checksums")) if checksums else "",
        "encoding": encoding,
    }
    with lock_workdir(folder, "--data_dir"):
        _remove_unfinished(folder)
        return {task: _prepare_one(task, folder, manual, overwrite, options) for task in tasks}


def _check_tasks(tasks: Sequence[str]) -> None:
    known = ", ".join(sts_files.STS_TASKS)
    unknown = [repr(task) for task in tasks if task not in sts_files.STS_TASKS]
    if unknown or not tasks:
        raise ConfigError(f"--tasks: unknown {', '.join(unknown) or repr('')}; known are {known}")
    if len(set(tasks)) < len(tasks):
        raise ConfigError(f"--tasks={','.join(tasks)}: a task is named twice")


def _remove_unfinished(folder: Path) -> None:
    """Delete what runs that were killed left; the lock says that none is at work."""
    patterns = (f"{UNFINISHED}*", "downloads/*/*.tmp.*", f"downloads/unpacked/{UNFINISHED}*")
    for path in (path for pattern in patterns for path in folder.glob(pattern)):
        shutil.rmtree(path, ignore_errors=True)


def _prepare_one(
    task: str, folder: Path, manual: Path | None, overwrite: bool, options: dict[str, Any]
) -> Path:
    check_ways(folder / task, f"--data_dir={folder}")
    there = prepared_version(folder, task)
    if there is not None and not overwrite:
        try:
            pairs = _read_back(task, folder).pairs
        except BertFlowError as error:
            raise type(error)(f"{error} (--overwrite makes it anew)") from error
        _LOG.info("%s: %d scored pairs, already in %s", task, pairs, there)
        return there
    for version in sorted((folder / task).glob("*")):
        refuse_link(version, f"--data_dir={folder}: {task}/{version.name}")
    with _writable(folder), tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=folder) as name:
        downloads = folder / "downloads" if manual is None else Path(name) / "downloads"
        new = _generate(task, Path(name), downloads, manual, options)
        read = _read_back(task, Path(name))
        target = folder / new.relative_to(name)
        shutil.rmtree(target, ignore_errors=True)
        make_folder(target.parent)
        os.replace(new, target)
    _LOG.info("%s: %d scored pairs, sha256 %s, in %s", task, read.pairs, read.sha256, target)
    for note in read.notes:
        _LOG.info("%s: %s", task, note)
    return target


@contextlib.contextmanager
def _writable(folder: Path) -> Any:
    try:
        yield
    except BertFlowError:
        raise
    except OSError as error:
        raise WorkdirError(
            f"--data_dir={folder} cannot be written: {error.strerror or error}"
        ) from error


def _generate(
    task: str, root: Path, downloads: Path, manual: Path | None, options: dict[str, Any]
) -> Path:
    """Run the builder of a task; returns the folder it wrote, below root."""
    # Imported here so that a wrong flag is reported without the second that it takes.
    import tensorflow_datasets as tfds

    from bertflow_jax.data.tfds_builders.builders import BUILDERS

    builder = BUILDERS[task](data_dir=root, file_format="array_record", **options)
    # No distributor publishes checksums: what is checked by default is the content, in the builder.
    config = tfds.download.DownloadConfig(
        manual_dir=manual, force_checksums_validation=False, register_checksums=False
    )
    tfds.display_progress_bar(enable=False)
    # TFDS announces itself on stdout, with sizes that it does not know.
    with contextlib.redirect_stdout(io.StringIO()):
        builder.download_and_prepare(download_dir=downloads, download_config=config)
    return Path(builder.data_dir)


def _read_back(task: str, folder: Path) -> StsTask:
    return load_task(task, f"{PREFIX}{folder}", sts_files.task_splits(task))
