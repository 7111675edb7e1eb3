"""Several processes, as on the hosts of a TPU pod slice: who is who, and what they agree on.

Every process reads the text and runs the same program on its own devices; the first one alone
reads and writes the workdir and tells the others what it found. In a run of one process everything
here is the identity.
"""

import json
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jax._src.distributed import global_state
from jax.experimental import multihost_utils

from bertflow_jax import errors
from bertflow_jax.errors import BertFlowError, ConfigError, DataError, ProcessLostError

T = TypeVar("T")
_log = logging.getLogger(__name__)
# Seconds that a process waits for the others when it ends: they end together, or one has failed.
_PATIENCE = 60
_APART = 7 * 24 * 3600  # the same where each process does its own work and ends when it is done
_LINGER = 0.5  # the same of the first one, behind the others: JAX aborts who loses its service
# What JAX says of a process that has gone: Gloo's words (CPU), NCCL's (GPU), its own service's.
_LOST = re.compile(
    r"[A-Z_]+: .*(gloo|nccl|connection (reset|closed|refused)|broken pipe|coordination|heartbeat)",
    re.IGNORECASE,
)
_WAIT = 300  # seconds for all processes to start; JAX then ends the process itself, with SIGABRT


def initialize(
    coordinator: str = "",
    num_processes: int = 0,
    process_id: int = -1,
    *,
    automatic: bool = False,
    apart: bool = False,
) -> None:
    """Join the other processes of a run; must come before anything else touches a device.

    Args:
      coordinator: HOST:PORT of the first process.
      num_processes: of the run.
      process_id: of this one, from 0.
      automatic: take all three from the surroundings, as on Cloud TPU or under SLURM.
      apart: each process does its own work, and may end long before another one.

    Raises:
      ConfigError: not all three are given, or what is given or found does not make a run; the
        processes have not equally many devices (unless `apart`).
    """
    given = bool(coordinator), num_processes > 0, process_id >= 0
    if any(given) and not all(given):
        raise ConfigError(
            "--coordinator, --num_processes and --process_id (or JAX_COORDINATOR_ADDRESS, "
            "JAX_NUM_PROCESSES and JAX_PROCESS_ID) belong together: give all three"
        )
    if all(given) and process_id >= num_processes:
        raise ConfigError(
            f"process_id={process_id}: must be below num_processes={num_processes}; the first is 0"
        )
    if coordinator and not re.fullmatch(r".+:\d+", coordinator, re.ASCII):
        raise ConfigError(f"coordinator={coordinator}: HOST:PORT of the first process is needed")
    if not any(given) and not automatic:
        return
    patience = _APART if apart else _PATIENCE
    # Ours saves and ends with its own exit code; JAX's handler would take SIGTERM and go on.
    jax.config.update("jax_enable_preemption_service", False)
    if coordinator:
        _log.warning(
            "process %d waits for the %d processes of %s, for up to %d seconds",
            process_id,
            num_processes,
            coordinator,
            _WAIT,
        )
    try:
        if automatic:
            jax.distributed.initialize(
                initialization_timeout=_WAIT, shutdown_timeout_seconds=patience
            )
        else:
            jax.distributed.initialize(
                coordinator,
                num_processes,
                process_id,
                # Else SLURM's variables would leave each process one device of its machine.
                cluster_detection_method="deactivate",
                initialization_timeout=_WAIT,
                shutdown_timeout_seconds=patience,
            )
    except (ValueError, RuntimeError, OSError) as error:
        raise ConfigError(
            f"the processes of the run did not find each other ({error}): give --coordinator="
            "HOST:PORT, --num_processes and --process_id, or --distributed=off for one process"
        ) from error
    _log.info(
        "process %d of %d, %d of %d devices",
        jax.process_index(),
        jax.process_count(),
        jax.local_device_count(),
        jax.device_count(),
    )
    if not apart:
        _check_even()
    if not is_first():
        # The first process speaks for all.
        logging.getLogger("bertflow_jax").setLevel(logging.WARNING)


def _check_even() -> None:
    """Raise ConfigError in every process where they have not equally many devices."""
    counts = Counter(device.process_index for device in jax.devices())
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{count} in process {i}" for i, count in sorted(counts.items()))
        raise ConfigError(
            f"the processes of a run must have equally many devices, and have {listed}: hide some "
            "(CUDA_VISIBLE_DEVICES), or leave a machine out"
        )


def explained(error: BaseException) -> BaseException:
    """Return ProcessLostError for what JAX raises where another process has gone, else `error`."""
    said = str(error).strip().splitlines()[:1]
    # JAX raises some of its errors as ValueError; a status in capitals stands before its text.
    of_jax = isinstance(error, jax.errors.JaxRuntimeError | ValueError)
    if not of_jax or not _joined() or not said or _LOST.match(said[0]) is None:
        return error
    return ProcessLostError(
        f"another process of this run has ended or cannot be reached ({said[0][:300]}); its own "
        "output says why. Checkpoints that were saved are kept: start all processes again, with "
        "--resume"
    )


def others_are_ending(seconds: int) -> bool:
    """Return whether the other processes have come to their end too, waiting so long for them.

    Where they have not, a process that ended in the ordinary way would wait for them, while they
    wait for it in a step, until JAX aborts both.
    """
    client = global_state.client
    if client is None or not _joined():
        return True
    try:
        client.wait_at_barrier("bertflow_jax ends", seconds * 1000)
    except jax.errors.JaxRuntimeError:
        return False
    let_others_end()
    return True


def let_others_end() -> None:
    """Wait in the first process until the others, which are on their way out, have ended."""
    if _joined() and global_state.process_id == 0:
        time.sleep(_LINGER)


def _joined() -> bool:
    """Whether there are other processes; unlike `several` it never starts a device."""
    return global_state.client is not None and global_state.num_processes > 1


def is_first() -> bool:
    """Return whether this process is the one that reads and writes the workdir."""
    return jax.process_index() == 0


def several() -> bool:
    """Return whether there is more than one process."""
    return jax.process_count() > 1


def share(make: Callable[[], Any]) -> Any:
    """Return what make() gives in the first process, in every process; JSON-safe.

    Raises:
      BertFlowError: make() raised it in the first process; every process then does.
    """
    if not several():
        return make()
    said: dict[str, Any] = {}
    if is_first():
        try:
            said = {"value": make()}
        except BertFlowError as error:
            said = {"error": type(error).__name__, "text": str(error)}
        except OSError as error:  # the others must hear of it
            said = {"error": "WorkdirError", "text": str(error)}
    raw = json.dumps(said).encode()
    length = int(multihost_utils.broadcast_one_to_all(np.int32(len(raw))))
    buffer = np.zeros(length, np.uint8)
    if is_first():
        buffer[:] = np.frombuffer(raw, np.uint8)
    said = json.loads(bytes(np.asarray(multihost_utils.broadcast_one_to_all(buffer))))
    if "error" in said:
        raise getattr(errors, said["error"], BertFlowError)(said["text"])
    return said["value"]


def together(make: Callable[[], T]) -> T:
    """Return make(), which every process does for itself.

    Raises:
      BertFlowError: make() raised it here, or something in another process: none waits for one that
        has gone.
    """
    failed: BertFlowError | None = None
    try:
        made = make()
    except BertFlowError as error:
        failed = error
    if not any_process(failed is not None)[0]:
        return made
    raise failed or DataError("another process of this run has stopped; its message says why")


def share_arrays(tree: Any) -> Any:
    """Return the first process's arrays in every process, as numpy; the shapes must be equal."""
    if not several():
        return tree
    return jax.tree.map(np.asarray, multihost_utils.broadcast_one_to_all(tree))


def share_array(array: np.ndarray | None) -> np.ndarray:
    """Return the first process's array in every process; the others give None."""
    if not several():
        assert array is not None
        return array
    shape, dtype = share(lambda: None if array is None else (array.shape, str(array.dtype)))
    return share_arrays(np.zeros(shape, dtype) if array is None else array)


def any_process(*flags: bool) -> list[bool]:
    """Return which flags are set in any process; all of them have to ask."""
    if not several():
        return list(flags)
    return np.any(multihost_utils.process_allgather(np.asarray(flags)), axis=0).tolist()


def by_parts(encode: Callable[[Sequence[str]], np.ndarray], texts: Sequence[str]) -> np.ndarray:
    """Return encode(texts), float32[N, D]; every process encodes its part, all get the whole."""
    if not several():
        return encode(texts)
    size = -(-len(texts) // jax.process_count())
    start = jax.process_index() * size
    # The last part may be short, others behind it empty: filled up, and cut off below.
    own = [*texts[start : start + size], *[texts[0]] * size][:size]
    return multihost_utils.process_allgather(encode(own), tiled=True)[: len(texts)]
