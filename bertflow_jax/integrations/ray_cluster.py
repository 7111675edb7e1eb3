"""The Ray cluster of a job: started here or joined, and what it has room for."""

import contextlib
import logging
import os
import signal
from collections.abc import Iterator
from typing import Any

from bertflow_jax.errors import ConfigError, TrainingError
from bertflow_jax.integrations.ray_data import Workers, import_ray
from bertflow_jax.integrations.ray_stages import error_of
from bertflow_jax.interrupt import Terminated, handlers_kept

_log = logging.getLogger(__name__)
_LOCAL = "local"


@contextlib.contextmanager
def cluster(address: str) -> Iterator[Any]:
    """Yield the ray package, connected.

    Args:
      address: of a cluster; "" takes that of the environment (`ray job submit` sets it), and
        without one starts Ray on this machine, until the end. A program that is connected already
        stays so.

    Raises:
      ConfigError: no cluster answers.
    """
    # Ray would send what it is used for to its makers, and say so.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    address = address or os.environ.get("RAY_ADDRESS", "") or _LOCAL
    here = {"include_dashboard": False} if address == _LOCAL else {}
    try:
        try:
            with handlers_kept():
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **here)
        except SystemExit as error:
            # Of Ray's own handler of SIGTERM, which it takes while it starts.
            if error.code == signal.SIGTERM:
                raise Terminated from None
            raise
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ConfigError(
                f"--address={address}: no Ray cluster answers there: {error}"
            ) from error
        yield ray
    finally:
        ray.shutdown()


@contextlib.contextmanager
def quiet(ray: Any) -> Iterator[None]:
    """Keep Ray Data's bars and tracebacks off the terminal, and our errors whole."""
    context = ray.data.DataContext.get_current()
    ours = {
        "enable_progress_bars": False,
        "print_on_execution_start": False,
        "raise_original_map_exception": True,
    }
    before = {name: getattr(context, name) for name in ours}
    handlers = list(logging.getLogger("ray.data").handlers)
    for handler in handlers:
        handler.addFilter(_only_warnings)
    for name, value in ours.items():
        setattr(context, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(context, name, value)
        for handler in handlers:
            handler.removeFilter(_only_warnings)


def _only_warnings(record: logging.LogRecord) -> bool:
    # What ends a job is told once, by the exception.
    bars = record.getMessage().startswith("Progress bars disabled")
    return record.levelno == logging.WARNING and not bars


@contextlib.contextmanager
def plain_errors(ray: Any) -> Iterator[None]:
    """Raise what came out of a worker as the error that it was there."""
    try:
        yield
    except ray.exceptions.RayError as failed:
        error = error_of(failed)
        if error is not None:
            raise error from None
        if isinstance(failed, ray.exceptions.RayTaskError):
            raise  # a bug of ours, with its traceback
        first = str(failed).strip().partition("\n")[0]
        raise TrainingError(
            f"Ray gave up on a worker: {type(failed).__name__}: {first}; its log is in "
            "/tmp/ray/session_latest/logs of its machine (too little memory ends workers so), and "
            "the same command goes on where this one stopped"
        ) from failed


def fitted(ray: Any, workers: Workers, units: int) -> int | tuple[int, int]:
    """Return the concurrency of a job: as asked for, or as many workers as there is room for.

    Raises:
      ConfigError: no machine has room for one worker.
    """
    room = sum(_room(node["Resources"], workers) for node in ray.nodes() if node["Alive"])
    asked = workers.concurrency
    if asked is not None:
        least = asked[0] if isinstance(asked, tuple) else asked
        if room < least:
            # A cluster may grow.
            _log.warning("Ray has room for %d of %d workers now; the others wait", room, least)
        return asked
    if not room:
        needs = {"CPU": workers.num_cpus, "GPU": workers.num_gpus, **(workers.resources or {})}
        wanted = ", ".join(f"{value:g} {name}" for name, value in needs.items() if value)
        raise ConfigError(
            f"no machine of the cluster has the {wanted} of one worker; ask for less with "
            "--cpus_per_worker, --gpus_per_worker or --tpus_per_worker, or give --concurrency "
            "where the cluster grows on demand"
        )
    return max(1, min(room, units))


def _room(resources: dict[str, float], workers: Workers) -> int:
    """Return how many workers one machine has room for."""
    needs = {"CPU": workers.num_cpus, "GPU": workers.num_gpus, **(workers.resources or {})}
    fits = [int(resources.get(name, 0) // need) for name, need in needs.items() if need]
    return min(fits, default=1)
