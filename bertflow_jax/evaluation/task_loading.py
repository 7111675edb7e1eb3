"""The tasks that an evaluation is asked for, from `--tasks` and `--data_dir`."""

from bertflow_jax.data.glue import BINARY_TASKS, holds_glue_stsb, load_glue_task
from bertflow_jax.data.glue_files import glue_folder
from bertflow_jax.data.sts import TASKS, StsTask, load_task
from bertflow_jax.data.sts_files import STS_TASKS, task_folder
from bertflow_jax.data.tfds_builders import tfds_folder
from bertflow_jax.errors import ConfigError, DataNotFoundError
from bertflow_jax.evaluation.options import ALL_TASKS, EvalOptions
from bertflow_jax.paths import user_path


def load_tasks(options: EvalOptions) -> list[StsTask]:
    """Read the tasks that are asked for; raises ConfigError or a DataError naming the flag."""
    names = options.tasks or (TASKS[:-1] if options.data_dir is not None else ("everyday",))
    if not all(name.strip() for name in names):
        raise ConfigError(
            f"--tasks={','.join(names)}: a name is blank; put one comma between two names, and "
            "none at the end"
        )
    unknown = [name for name in names if name not in ALL_TASKS]
    if unknown:
        raise ConfigError(
            f"--tasks: unknown {', '.join(unknown)}; known are {', '.join(ALL_TASKS)}"
        )
    if len(set(names)) < len(names):
        raise ConfigError(f"--tasks={','.join(names)}: a task is named twice")
    need_data = [name for name in names if name != "everyday"]
    if need_data and options.data_dir is None:
        raise ConfigError(
            f"--tasks={','.join(need_data)} needs --data_dir=DIR, the folder that holds STS/, "
            "STSBenchmark/ and SICK/, and QNLI/, MRPC/ and QQP/ of GLUE"
        )
    try:
        return [_load_task(name, options) for name in names]
    except DataNotFoundError as error:
        there = [] if options.tasks else _tasks_there(options.data_dir)
        if not there:
            raise
        raise DataNotFoundError(
            f"{error}; without --tasks the seven STS tasks are scored: give --tasks="
            f"{','.join(there)} for those that are there"
        ) from error


def _tasks_there(data_dir: str | None) -> list[str]:
    """Return the tasks whose files lie in a folder, in the order of `ALL_TASKS`."""
    if data_dir is None or tfds_folder(data_dir, "--data_dir") is not None:
        return []
    folder = user_path(data_dir, "--data_dir")
    there = []
    for name in (*STS_TASKS, *BINARY_TASKS):
        try:
            if name in STS_TASKS:
                task_folder(folder, name)
            else:
                glue_folder(folder, name)
        except DataNotFoundError:
            if name != "stsb" or not holds_glue_stsb(folder):
                continue
        there.append(name)
    return sorted(there, key=ALL_TASKS.index)


def _load_task(name: str, options: EvalOptions) -> StsTask:
    folder, splits, encoding = options.data_dir, options.splits, options.encoding
    if name in BINARY_TASKS or (name == "stsb" and holds_glue_stsb(folder or "")):
        return load_glue_task(name, folder, splits, encoding)
    return load_task(name, folder, ("test",) if splits is None else splits, encoding=encoding)
